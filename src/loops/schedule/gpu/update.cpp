// loops/schedule/gpu/update.cpp: an update a thread, as on CUDA eager: where several meet in one element, which one
// is the last is not said, and what they add up to is exact but for the order. What no atomic operation combines
// runs along the colliding dimensions in a thread.
#include "loops/schedule/gpu/units.h"
#include "loops/schedule/statements.h"
#include "loops/schedule/update_builder.h"

namespace braze::loops {

namespace {

class GpuUpdate final : public UpdateBuilder {
 public:
  using UpdateBuilder::UpdateBuilder;

 private:
  void build_loops() override {
    const std::optional<AtomicOp> atomic = atomic_op();
    const bool any_order = atomic || node_.text_attr("combine") == "set";
    Size count = 1;
    Sizes sizes;  // innermost first
    std::vector<size_t> dims;
    for (size_t k = sizes_.size(); k-- > 0;) {
      if (collides(k) && !any_order) continue;
      sizes.push_back(sizes_[k]);
      dims.push_back(k);
      count = count * sizes_[k];
    }
    const auto units = open_units(kernel_, extents_, facts_.target(&node_).gpu, count, false);
    const std::vector<Affine> parts = take_apart(extents_, Builder(kernel_, units->body), units->number, sizes);
    for (size_t k = 0; k < dims.size(); ++k) places_[dims[k]] = parts[k];
    Block* block = &units->body;
    for (size_t k = 0; k < sizes_.size(); ++k) {
      if (!collides(k) || any_order) continue;
      Loop& loop = Builder(kernel_, *block).loop(0, extents_.of(sizes_[k]));
      places_[k].add(1, loop.var);
      block = &loop.body;
    }
    emit_update(*block, atomic);
    close_units(kernel_, *units);
  }

  /// What PTX has: of 32 and 64 bits.
  std::optional<AtomicOp> atomic_op() const {
    const DType type = result_->type->dtype;
    const bool sized = type == DType::f32 || type == DType::f64 || type == DType::i32 || type == DType::i64;
    const std::string_view combine = node_.text_attr("combine");
    if (!sized) return std::nullopt;
    if (combine == "add") return AtomicOp::add;
    if (ir::is_floating(type)) return std::nullopt;  // none that lets NaN win
    if (combine == "max") return AtomicOp::max;
    if (combine == "min") return AtomicOp::min;
    return std::nullopt;
  }
};

}  // namespace

std::unique_ptr<UpdateBuilder> make_gpu_update(const ir::Node* node, const Facts& facts) {
  return std::make_unique<GpuUpdate>(node, facts);
}

}  // namespace braze::loops
