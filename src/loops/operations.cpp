#include "loops/operations.h"

#include <algorithm>
#include <string_view>

namespace braze::loops {

namespace {

bool counts(const Stmt& stmt) {
  const ir::OpKind kind = ir::info(stmt.op).kind;
  return ir::is_floating(stmt.type) && (kind == ir::OpKind::Unary || kind == ir::OpKind::Binary);
}

class Counter {
 public:
  explicit Counter(std::span<const int64_t> symbols) : symbols_(symbols) {}

  int64_t of(const Block& block) const {
    int64_t sum = 0;
    for (const Stmt& stmt : block) sum += of(stmt);
    return sum;
  }

 private:
  int64_t value(const Extent& extent) const {
    return extent.is_constant() ? extent.constant : extent.constant + extent.factor * symbols_[extent.symbol];
  }
  int64_t of(const Stmt& stmt) const {
    switch (stmt.kind) {
      case StmtKind::compute: return counts(stmt) ? 1 : 0;
      case StmtKind::loop: return of(*stmt.loop);
      case StmtKind::branch: return of(stmt.body);
      default: return 0;
    }
  }
  int64_t of(const Loop& loop) const {
    const int64_t length = value(loop.end) - value(loop.begin);
    const int64_t iterations = std::max<int64_t>(0, (length + loop.step - 1) / loop.step);
    int64_t each = of(loop.body);
    for (const Reduction& reduction : loop.reductions) each += static_cast<int64_t>(reduction.yielded.size());
    return iterations * each;
  }

  std::span<const int64_t> symbols_;
};

int64_t elements(const View& view) {
  int64_t product = 1;
  for (const int64_t size : view.sizes) product *= size;
  return product;
}

/// Rows of `left` times the whole of `right`, batches included: each element of the left operand meets the columns
/// of the right one.
int64_t product(const View& left, const View& right) {
  return right.sizes.empty() ? 0 : 2 * elements(left) * right.sizes.back();
}

struct Product {
  std::string_view name;
  size_t left;  ///< Operand; the right one is the next.
};
constexpr Product products[] = {{"aten::mm", 0},  {"aten::bmm", 0},    {"aten::matmul", 0},
                                {"aten::mv", 0},  {"aten::addmm", 1},  {"aten::baddbmm", 1},
                                {"aten::dot", 0}, {"aten::addbmm", 1}, {"aten::addmv", 1}};

}  // namespace

int64_t floating_operations(const Kernel& kernel, std::span<const int64_t> symbols) {
  return Counter(symbols).of(kernel.body);
}

int64_t floating_operations(const Plan& plan, const Step& step) {
  if (step.kind == StepKind::kernel)
    return floating_operations(*plan.kernels.at(step.kernel.kernel), step.kernel.symbols);
  const CallStep& call = step.call;
  const auto row = std::ranges::find(products, call.call.name, &Product::name);
  if (row != std::end(products) && call.operands.size() > row->left + 1) {
    const View &left = call.operands[row->left], &right = call.operands[row->left + 1];
    return right.sizes.size() < 2 ? 2 * elements(left) : product(left, right);
  }
  // Each element of the result takes one filter, or each of two products one row of keys or values.
  if (call.call.name == "aten::convolution" && call.operands.size() > 1 && !call.results.empty() &&
      call.results[0] >= 0 && !call.operands[1].sizes.empty()) {
    const View& weight = call.operands[1];
    return 2 * elements(whole(plan, static_cast<uint32_t>(call.results[0]))) * elements(weight) /
           std::max<int64_t>(1, weight.sizes[0]);
  }
  if (call.call.name == "aten::scaled_dot_product_attention" && call.operands.size() > 2) {
    const View &query = call.operands[0], &key = call.operands[1], &value = call.operands[2];
    if (query.sizes.size() < 2 || key.sizes.size() < 2 || value.sizes.empty()) return 0;
    const int64_t keys = key.sizes[key.sizes.size() - 2], width = query.sizes.back();
    return 2 * elements(query) * keys +
           2 * elements(query) / std::max<int64_t>(1, width) * keys * value.sizes.back();
  }
  return 0;
}

}  // namespace braze::loops
