#include "plan_interpreter.h"

#include <algorithm>

#include "interpret.h"
#include "support/error.h"

namespace braze::test {

namespace {

using loops::BufferKind;
using loops::PlanBuffer;
using loops::View;
using loops::oracle::read_element;
using loops::oracle::write_element;
using Bytes = std::vector<char>;

constexpr char unwritten = static_cast<char>(0xff);  // All ones: NaN, if anything reads what was never written.

/// Calls `body` with the memory index of each element, in row-major order.
template <typename Body>
void for_each_element(const View& view, Body body) {
  std::vector<int64_t> position(view.sizes.size());
  if (std::ranges::find(view.sizes, 0) != view.sizes.end()) return;
  for (;;) {
    int64_t at = view.offset;
    for (size_t k = 0; k < position.size(); ++k) at += position[k] * view.strides[k];
    body(at);
    size_t k = position.size();
    while (k > 0 && ++position[k - 1] == view.sizes[k - 1]) position[--k] = 0;
    if (k == 0) return;
  }
}

class Run {
 public:
  Run(const loops::Plan& plan, const std::vector<Elements>& inputs, const Launcher& launcher)
      : plan_(plan),
        launcher_(launcher),
        arena_(static_cast<size_t>(plan.arena_bytes), unwritten),
        owned_(plan.buffers.size()) {
    given_.resize(inputs.size());
    for (uint32_t b = 0; b < plan.buffers.size(); ++b) memory_.push_back(place(b, inputs));
  }

  std::vector<Elements> run() {
    for (const loops::Step& step : plan_.steps)
      step.kind == loops::Step::Kind::kernel ? launch(step.kernel) : multiply(step.call);
    std::vector<Elements> results;
    for (const View& view : plan_.outputs) results.push_back(read(view));
    for (const auto& [input, view] : plan_.mutations) results.push_back(read(view));
    return results;
  }

 private:
  char* place(uint32_t number, const std::vector<Elements>& inputs) {
    const PlanBuffer& buffer = plan_.buffers[number];
    switch (buffer.kind) {
      case BufferKind::input: fill(number, inputs.at(buffer.index)); [[fallthrough]];
      case BufferKind::mutated: return given_.at(buffer.index).data();
      case BufferKind::temporary:
        BRAZE_CHECK(buffer.offset + buffer.bytes <= plan_.arena_bytes, "beyond the arena");
        return arena_.data() + buffer.offset;
      case BufferKind::part: return memory_.at(static_cast<size_t>(buffer.part_of)) + buffer.offset;
      case BufferKind::output:
      case BufferKind::call: break;
    }
    owned_[number].assign(static_cast<size_t>(buffer.bytes), buffer.zeroed ? char{0} : unwritten);
    return owned_[number].data();
  }

  void fill(uint32_t number, const Elements& elements) {
    const PlanBuffer& buffer = plan_.buffers[number];
    Bytes& memory = given_.at(buffer.index);
    memory.resize(static_cast<size_t>(buffer.bytes));
    size_t next = 0;
    for_each_element(loops::whole(plan_, number), [&](int64_t at) {
      write_element(memory.data(), buffer.dtype, at, ir::Number::of(elements.at(next++)));
    });
  }

  Elements read(const View& view) const {
    Elements elements;
    for_each_element(view, [&](int64_t at) {
      elements.push_back(read_element(memory_[view.buffer], view.dtype, at).as_double());
    });
    return elements;
  }

  void launch(const loops::KernelStep& step) {
    const loops::Kernel& kernel = *plan_.kernels.at(step.kernel);
    std::vector<Memory> buffers;
    for (size_t k = 0; k < step.buffers.size(); ++k) {
      const int64_t origin = step.origins[k] * ir::byte_size(kernel.buffers[k].dtype);
      buffers.push_back({memory_[step.buffers[k]] + origin, plan_.buffers[step.buffers[k]].bytes - origin, origin});
    }
    std::vector<uint64_t> scalars(step.scalars.size(), 0);
    for (size_t k = 0; k < scalars.size(); ++k)
      write_element(&scalars[k], kernel.scalars[k].dtype, 0, step.scalars[k]);
    const int64_t status = launcher_(step, buffers, scalars.data());
    BRAZE_CHECK(status == 0, "an index in range was refused");
  }

  /// mm, bmm and addmm without factors, of row-major results.
  void multiply(const loops::CallStep& step) {
    const size_t count = step.operands.size();
    BRAZE_CHECK(step.writes_into && (count == 2 || count == 3), step.call.name, " is not interpreted");
    const View &a = step.operands[count - 2], &b = step.operands[count - 1];
    const Elements left = read(a), right = read(b);
    const size_t rank = a.sizes.size();
    const int64_t m = a.sizes[rank - 2], k = a.sizes[rank - 1], n = b.sizes[rank - 1];
    const int64_t batch = rank == 3 ? a.sizes[0] : 1;
    const Elements more = count == 3 ? read(step.operands[0]) : Elements{};
    const auto added = [&](int64_t i, int64_t j) {
      const auto& sizes = step.operands[0].sizes;
      const int64_t columns = sizes.empty() ? 1 : sizes.back();
      const bool has_rows = sizes.size() > 1 && sizes[0] != 1;
      return more[static_cast<size_t>((has_rows ? i * columns : 0) + (columns == 1 ? 0 : j))];
    };
    Elements product(static_cast<size_t>(batch * m * n));
    for (int64_t i = 0; i < batch * m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        product[static_cast<size_t>(i * n + j)] = count == 3 ? added(i, j) : 0;
        for (int64_t l = 0; l < k; ++l)
          product[static_cast<size_t>(i * n + j)] +=
              left[static_cast<size_t>(i * k + l)] * right[static_cast<size_t>((i / m * k + l) * n + j)];
      }
    const View out = loops::whole(plan_, static_cast<uint32_t>(step.results.at(0)));
    size_t next = 0;
    for_each_element(out, [&](int64_t at) {
      write_element(memory_[out.buffer], out.dtype, at, ir::Number::of(product[next++]));
    });
  }

  const loops::Plan& plan_;
  const Launcher& launcher_;
  std::vector<Bytes> given_;  ///< By graph input.
  Bytes arena_;
  std::vector<Bytes> owned_;
  std::vector<char*> memory_;  ///< By plan buffer.
};

}  // namespace

std::vector<Elements> run(const loops::Plan& plan, const std::vector<Elements>& inputs) {
  return run(
      plan, inputs, [&](const loops::KernelStep& step, std::span<const Memory> memory, const uint64_t* scalars) {
        std::vector<void*> buffers;
        for (const Memory& piece : memory) buffers.push_back(piece.data);
        int64_t status = 0;
        loops::interpret(*plan.kernels.at(step.kernel), buffers.data(), scalars, step.symbols.data(), &status);
        return status;
      });
}

std::vector<Elements> run(const loops::Plan& plan, const std::vector<Elements>& inputs, const Launcher& launcher) {
  return Run(plan, inputs, launcher).run();
}

}  // namespace braze::test
