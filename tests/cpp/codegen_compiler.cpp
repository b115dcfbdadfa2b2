// From kernel to code that runs, through both caches; and every stage on bad input.
#include <doctest/doctest.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "cache/disk_cache.h"
#include "codegen/compiler.h"
#include "codegen/x86/blob.h"
#include "codegen/x86/loader.h"
#include "codegen/x86/machine.h"
#include "codegen/x86/object_linker.h"
#include "support/error.h"

using namespace braze;
using codegen::CompiledKernel;
using codegen::CompileOptions;
using codegen::CompileStats;
namespace fs = std::filesystem;

namespace {

/// The tests' own cache directory, set before anything asks for the standard cache.
const fs::path cache_directory = [] {
  std::string name = (fs::temp_directory_path() / "braze-test-XXXXXX").string();
  if (!mkdtemp(name.data())) std::abort();
  setenv("BRAZE_CACHE_DIR", name.c_str(), 1);
  unsetenv("BRAZE_CACHE");
  std::atexit([] { fs::remove_all(std::getenv("BRAZE_CACHE_DIR")); });
  return fs::path(name);
}();

/// y[i] = op(x[i]) + addend for `size` elements of `type`.
std::unique_ptr<loops::Kernel> pointwise(const std::string& op, int size, const std::string& addend = "0",
                                         const std::string& type = "f32") {
  return loops::parse_kernel(concat("kernel @test(%x: ", type, "[", size, "] in, %y: ", type, "[", size,
                                    "] out) {\n", "  for %i in 0..", size,
                                    " parallel vector {\n    %a = load %x[%i] : ", type, "\n    %b = ", op,
                                    " %a : ", type, "\n    %k = constant ", addend, " : ", type,
                                    "\n    %c = add %b, %k : ", type, "\n    store %y[%i], %c\n  }\n}\n"));
}

struct Batch {
  std::vector<std::unique_ptr<loops::Kernel>> kernels;
  std::vector<const loops::Kernel*> pointers;
  std::vector<Hash128> hashes;
  void add(std::unique_ptr<loops::Kernel> kernel) {
    pointers.push_back(kernel.get());
    hashes.push_back(loops::structural_hash(*kernel));
    kernels.push_back(std::move(kernel));
  }
  auto compile(CompileStats* stats = nullptr, CompileOptions options = {}, PhaseTimes* times = nullptr) const {
    return codegen::compile(pointers, hashes, options, times, stats);
  }
};

template <typename T = float>
std::vector<T> run(const CompiledKernel& kernel, std::vector<T> x) {
  std::vector<T> y(x.size(), T(-1));
  void* buffers[] = {x.data(), y.data()};
  int64_t status = 0;
  for (const codegen::Phase& phase : kernel.phases())
    phase.function(buffers, nullptr, nullptr, 0, phase.iterations.constant, &status);
  CHECK(status == 0);
  return y;
}

std::vector<std::string> files() {
  std::vector<std::string> names;
  if (fs::exists(cache_directory))
    for (const auto& item : fs::directory_iterator(cache_directory))
      if (item.path().extension() == ".braze") names.push_back(item.path().string());
  return names;
}

/// The blob of a kernel, as compiled.
std::string blob_of(const loops::Kernel& kernel) {
  for (const std::string& file : files()) fs::remove(file);
  codegen::clear_memory_cache();
  const loops::Kernel* pointer = &kernel;
  const Hash128 hash = loops::structural_hash(kernel);
  codegen::compile({&pointer, 1}, {&hash, 1});
  REQUIRE(files().size() == 1);
  const Hash128 key{std::stoull(fs::path(files()[0]).stem().string().substr(16), nullptr, 16),
                    std::stoull(fs::path(files()[0]).stem().string().substr(0, 16), nullptr, 16)};
  const auto blob = cache::DiskCache::standard().get(key);
  REQUIRE(blob);
  return {blob->begin(), blob->end()};
}

}  // namespace

TEST_CASE("kernels come from LLVM, then memory, then disk, and do the same") {
  Batch batch;
  for (const char* addend : {"1", "2", "3", "1"}) batch.add(pointwise("neg", 37, addend));  // the last again
  const auto check = [&](const CompileStats& stats, int compiled, int from_memory, int from_disk,
                         const auto& code) {
    CHECK(stats.compiled == compiled);
    CHECK(stats.from_memory == from_memory);
    CHECK(stats.from_disk == from_disk);
    REQUIRE(code.size() == 4);
    CHECK(code[0] == code[3]);
    const std::vector<float> x(37, 10);
    CHECK(run(*code[0], x) == std::vector<float>(37, -9));
    CHECK(run(*code[1], x) == std::vector<float>(37, -8));
    CHECK(run(*code[2], x) == std::vector<float>(37, -7));
  };
  CompileStats stats;
  PhaseTimes times;
  const auto first = batch.compile(&stats, {}, &times);
  check(stats, 3, 1, 0, first);
  CHECK(times.rows()[0].name == "codegen/load");
  CHECK(times.total() > 0);
  const auto second = batch.compile(&stats);
  check(stats, 0, 4, 0, second);
  CHECK(first == second);
  codegen::clear_memory_cache();
  const auto third = batch.compile(&stats);
  check(stats, 0, 1, 3, third);
  CHECK(first[0] != third[0]);
  codegen::clear_memory_cache();
  CompileOptions no_disk;
  no_disk.use_disk_cache = false;
  check(stats, 3, 1, 0, batch.compile(&stats, no_disk));
  check({3, 1, 0}, 3, 1, 0, first);  // still there for whoever holds them
}

TEST_CASE("a damaged file on disk is compiled anew") {
  Batch batch;
  batch.add(pointwise("neg", 38));
  for (const std::string& file : files()) fs::remove(file);
  codegen::clear_memory_cache();
  batch.compile();
  REQUIRE(files().size() == 1);
  fs::resize_file(files()[0], fs::file_size(files()[0]) - 5);
  codegen::clear_memory_cache();
  CompileStats stats;
  CHECK(run(*batch.compile(&stats)[0], std::vector<float>(38, 2)) == std::vector<float>(38, -2));
  CHECK(stats.compiled == 1);
  codegen::clear_memory_cache();
  batch.compile(&stats);
  CHECK(stats.from_disk == 1);
}

TEST_CASE("code from the disk reaches libm through its slots") {
  Batch batch;
  batch.add(pointwise("sin", 19));
  batch.add(pointwise("erf", 19, "0", "f64"));
  for (int round = 0; round < 2; ++round) {
    codegen::clear_memory_cache();
    const auto code = batch.compile();
    for (const float y : run(*code[0], std::vector<float>(19, 3e7f))) CHECK(y == doctest::Approx(std::sin(3e7f)));
    for (const double y : run<double>(*code[1], std::vector<double>(19, 0.4))) CHECK(y == std::erf(0.4));
  }
}

TEST_CASE("many kernels on several threads, asked for by several threads") {
  Batch batch;
  for (int k = 0; k < 12; ++k) batch.add(pointwise(k % 2 ? "abs" : "neg", 100 + k, std::to_string(k)));
  const auto work = [&](int threads) {
    CompileOptions options;
    options.threads = threads;
    options.use_disk_cache = false;
    const auto code = batch.compile(nullptr, options);
    for (int k = 0; k < 12; ++k) {
      const auto n = static_cast<size_t>(100 + k);
      CHECK(run(*code[static_cast<size_t>(k)], std::vector<float>(n, -4)) ==
            std::vector<float>(n, 4.0f + static_cast<float>(k)));
    }
  };
  codegen::clear_memory_cache();
  work(3);
  codegen::clear_memory_cache();
  std::vector<std::jthread> askers;
  for (int t = 0; t < 4; ++t) askers.emplace_back(work, 1 + t % 2);
}

TEST_CASE("an error in a compiling thread reaches the caller") {
  Batch batch;
  for (int k = 0; k < 6; ++k) batch.add(pointwise("neg", 200 + k));
  loops::Kernel& broken = *batch.kernels[4];
  broken.body[0].loop->body[1].op = ir::Op::layer_norm;  // not an op of loops
  CompileOptions options;
  options.threads = 2;
  options.use_disk_cache = false;
  codegen::clear_memory_cache();
  CHECK_THROWS_AS(batch.compile(nullptr, options), InternalError);
}

TEST_CASE("code is executable and not writable") {
  Batch batch;
  batch.add(pointwise("neg", 40));
  const auto address = reinterpret_cast<uintptr_t>(batch.compile()[0]->phases()[0].function);
  std::ifstream maps("/proc/self/maps");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin, end;
    char mode[5];
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, mode) != 3 || address < begin || address >= end)
      continue;
    found = true;
    CHECK(std::string(mode) == "r-xp");
  }
  CHECK(found);
}

TEST_CASE("IR and assembly can be read, for a CPU that is not this one too") {
  const auto kernel = pointwise("exp", 1024);
  CHECK(codegen::llvm_ir(*kernel).find("define void @k0_0(") != std::string::npos);
  const std::string narrow = codegen::assembly(*kernel, {Isa::avx2});
  CHECK(narrow.find("ymm") != std::string::npos);
  CHECK(narrow.find("zmm") == std::string::npos);
  const std::string wide = codegen::assembly(*kernel, {Isa::avx512});
  CHECK(wide.find("zmm") != std::string::npos);
  CHECK(wide.find("vscalefps") != std::string::npos);
}

TEST_CASE("a blob with any byte changed, cut or added is none") {
  const std::string blob = blob_of(*pointwise("sin", 16));
  const auto view = codegen::read_blob(blob);
  REQUIRE(view);
  CHECK(view->phases.size() == 1);
  CHECK(view->phases[0].parallel);
  CHECK(view->phases[0].iterations == loops::Extent(16));
  CHECK(view->slots.size() == 1);
  size_t accepted = 0;
  for (size_t i = 0; i < blob.size(); ++i) {
    std::string changed = blob;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    accepted += codegen::read_blob(changed).has_value() + codegen::read_blob(blob.substr(0, i)).has_value();
  }
  CHECK(accepted == 0);
  CHECK_FALSE(codegen::read_blob(blob + "x"));
}

TEST_CASE("what generated code may not do, the linker refuses") {
  const auto object_of = [](const char* called) {
    llvm::LLVMContext context;
    codegen::Machine machine(Isa::avx2);
    const auto module = machine.new_module(context, "calls");
    llvm::IRBuilder<> b(context);
    auto* type = llvm::FunctionType::get(b.getVoidTy(), false);
    auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "f", *module);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));
    b.CreateCall(module->getOrInsertFunction(called, type));
    b.CreateRetVoid();
    llvm::SmallVector<char, 0> object;
    machine.object(*module, object);
    return std::vector<char>(object.begin(), object.end());
  };
  const std::string f = "f", g = "g";
  CHECK_THROWS_AS(codegen::link_object(object_of("system"), {&f, 1}), InternalError);
  CHECK(codegen::link_object(object_of("memcpy"), {&f, 1}).slots.size() == 1);
  CHECK_THROWS_AS(codegen::link_object(object_of("memcpy"), {&g, 1}), InternalError);
  const std::vector<char> text(100, 'x');
  CHECK_THROWS_AS(codegen::link_object(text, {&f, 1}), InternalError);
}
