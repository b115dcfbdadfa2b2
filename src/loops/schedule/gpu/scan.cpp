// loops/schedule/gpu/scan.cpp: a row a thread.
#include "loops/schedule/gpu/units.h"
#include "loops/schedule/scan_builder.h"
#include "loops/schedule/statements.h"

namespace braze::loops {

namespace {

class GpuScan final : public ScanBuilder {
 public:
  using ScanBuilder::ScanBuilder;

  void build() override {
    Size rows = 1;
    Sizes sizes;
    for (size_t k = outer_.size(); k-- > 0; rows = rows * sizes.back()) sizes.push_back(sizes_[outer_[k]]);
    const auto units = open_units(kernel_, extents_, target_.gpu, rows, false);
    Row row = first_row();
    const std::vector<Affine> parts = take_apart(extents_, Builder(kernel_, units->body), units->number, sizes);
    for (size_t k = 0; k < parts.size(); ++k) move(row, outer_[outer_.size() - 1 - k], parts[k]);
    scan(units->body, {row});
    close_units(kernel_, *units);
  }
};

}  // namespace

std::unique_ptr<ScanBuilder> make_gpu_scan(const ir::Node& node, const Facts& facts, KernelDraft& draft) {
  return std::make_unique<GpuScan>(node, facts, draft);
}

}  // namespace braze::loops
