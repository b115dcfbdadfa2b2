// codegen_emit_kernels.cpp: see codegen_kernels.h.
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "codegen/compiler.h"
#include "codegen_kernels.h"
#include "interpret.h"
#include "support/error.h"

namespace braze::codegen::testing {

namespace {

constexpr int64_t kPage = 4096;
constexpr unsigned char kPattern = 0xa5;

int64_t size_of(const loops::Extent& extent, const std::vector<int64_t>& symbols) {
  return extent.constant + (extent.is_constant() ? 0 : extent.factor * symbols[extent.symbol]);
}

void fill(GuardedBuffer& memory, const loops::Buffer& buffer, int64_t elements, const Case& c,
          std::mt19937& random) {
  if (auto found = c.values.find(buffer.name); found != c.values.end()) {
    for (int64_t i = 0; i < elements; ++i) {
      double value = found->second[i % found->second.size()];
      loops::oracle::write_element(memory.data(), buffer.dtype, i,
                                   loops::oracle::convert(ir::Number::of(value), ir::compute_dtype(buffer.dtype)));
    }
    return;
  }
  std::pair<double, double> range = buffer.dtype == ir::DType::b8   ? std::pair(0.0, 1.0)
                                    : buffer.dtype == ir::DType::u8 ? std::pair(0.0, 255.0)
                                    : ir::is_floating(buffer.dtype) ? std::pair(-3.0, 3.0)
                                                                    : std::pair(-100.0, 100.0);
  if (auto found = c.ranges.find(buffer.name); found != c.ranges.end()) range = found->second;
  for (int64_t i = 0; i < elements; ++i) {
    ir::Number value;
    if (ir::is_floating(buffer.dtype))
      value = ir::Number::of(std::uniform_real_distribution<>(range.first, range.second)(random));
    else
      value = ir::Number::of_int(std::uniform_int_distribution<int64_t>(
          static_cast<int64_t>(range.first), static_cast<int64_t>(range.second))(random));
    loops::oracle::write_element(memory.data(), buffer.dtype, i, value);
  }
}

bool same(ir::DType dtype, const ir::Number& got, const ir::Number& want, double tolerance) {
  if (!want.floating) return got.i == want.i;
  if (std::isnan(want.f) || std::isnan(got.f)) return std::isnan(want.f) && std::isnan(got.f);
  if (std::isinf(want.f) || std::isinf(got.f)) return want.f == got.f;
  if (dtype == ir::DType::f64) tolerance *= 1e-9;
  if (dtype == ir::DType::bf16) tolerance = 0x1p-7;
  if (dtype == ir::DType::f16) tolerance = 0x1p-9;
  return std::abs(got.f - want.f) <= tolerance * std::max(1.0, std::abs(want.f));
}

}  // namespace

GuardedBuffer::GuardedBuffer(const loops::Buffer& buffer, int64_t elements) {
  bytes_ = elements * ir::byte_size(buffer.dtype);
  int64_t pages = (bytes_ + buffer.alignment + kPage - 1) / kPage + 1;
  mapped_ = static_cast<size_t>((pages + 2) * kPage);
  void* mapping = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BRAZE_CHECK(mapping != MAP_FAILED, "no memory for a test");
  mapping_ = static_cast<char*>(mapping);
  std::memset(mapping_, kPattern, mapped_);
  char* end = mapping_ + (pages + 1) * kPage;
  data_ = end - (bytes_ + buffer.alignment - 1) / buffer.alignment * buffer.alignment;
  mprotect(mapping_, kPage, PROT_NONE);
  mprotect(end, kPage, PROT_NONE);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(other.mapped_),
      data_(other.data_),
      bytes_(other.bytes_) {}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_) munmap(mapping_, mapped_);
}

bool GuardedBuffer::untouched_outside() const {
  for (const char* p = mapping_ + kPage; p < mapping_ + mapped_ - kPage; ++p)
    if ((p < data_ || p >= data_ + bytes_) && static_cast<unsigned char>(*p) != kPattern) return false;
  return true;
}

std::vector<Target> targets() {
  std::vector<Target> result = {Target{Isa::avx2}};
  if (Target::host().isa == Isa::avx512) result.push_back(Target{Isa::avx512});
  return result;
}

std::string difference(const Case& c) {
  const std::unique_ptr<loops::Kernel> kernel = loops::parse_kernel(c.text);
  loops::verify(*kernel);
  const uint32_t parameters = kernel->parameter_count();
  std::vector<int64_t> sizes;
  for (uint32_t i = 0; i < parameters; ++i) sizes.push_back(size_of(kernel->buffers[i].size, c.symbols));

  std::mt19937 random(7);
  std::vector<GuardedBuffer> first;
  std::vector<std::vector<char>> expected;
  std::vector<void*> addresses;
  for (uint32_t i = 0; i < parameters; ++i) {
    fill(first.emplace_back(kernel->buffers[i], sizes[i]), kernel->buffers[i], sizes[i], c, random);
    const char* begin = static_cast<const char*>(first[i].data());
    expected.emplace_back(begin, begin + first[i].bytes());
  }
  for (auto& bytes : expected) addresses.push_back(bytes.data());
  int64_t expected_status = 0;
  loops::interpret(*kernel, addresses.data(), c.scalars.data(), c.symbols.data(), &expected_status);

  const Hash128 hash = loops::structural_hash(*kernel);
  const loops::Kernel* const kernels[] = {kernel.get()};
  for (const Target& target : targets()) {
    const auto compiled = compile(kernels, std::span(&hash, 1), {.target = target, .use_disk_cache = false});
    std::vector<GuardedBuffer> memory;
    addresses.clear();
    for (uint32_t i = 0; i < parameters; ++i) {
      memory.emplace_back(kernel->buffers[i], sizes[i]);
      std::memcpy(memory[i].data(), first[i].data(), first[i].bytes());
      addresses.push_back(memory[i].data());
    }
    int64_t status = 0;
    for (const Phase& phase : compiled[0]->phases()) {
      const int64_t iterations = size_of(phase.iterations, c.symbols);
      const int64_t chunk = phase.parallel && c.split ? c.split : std::max<int64_t>(iterations, 1);
      for (int64_t i = 0; i < iterations; i += chunk)
        phase.function(addresses.data(), c.scalars.data(), c.symbols.data(), i, std::min(i + chunk, iterations),
                       &status);
    }
    if (status != expected_status) return concat(target.name(), ": status is ", status, ", not ", expected_status);
    for (uint32_t i = 0; i < parameters; ++i) {
      const loops::Buffer& buffer = kernel->buffers[i];
      if (!memory[i].untouched_outside()) return concat(target.name(), ": bytes around %", buffer.name, " changed");
      for (int64_t k = 0; k < sizes[i]; ++k) {
        const ir::Number got = loops::oracle::read_element(memory[i].data(), buffer.dtype, k);
        const ir::Number want = loops::oracle::read_element(expected[i].data(), buffer.dtype, k);
        if (!same(buffer.dtype, got, want, c.tolerance))
          return concat(target.name(), ": %", buffer.name, "[", k, "] is ", got.as_double(), ", not ",
                        want.as_double());
      }
    }
  }
  return "";
}

}  // namespace braze::codegen::testing
