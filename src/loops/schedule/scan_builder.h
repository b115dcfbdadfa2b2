// loops/schedule/scan_builder.h: running sums and the like along one axis. The scanned dimension is a serial loop,
// inside of the loops over all others, which are a target's.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "loops/schedule/extents.h"
#include "loops/schedule/schedule.h"

namespace braze::loops {

class ScanBuilder {
 public:
  ScanBuilder(const ir::Node& node, const Facts& facts, KernelDraft& draft);
  virtual ~ScanBuilder() = default;
  virtual void build() = 0;

 protected:
  struct Row {
    Affine load, store;  ///< Of its first element.
  };
  Row first_row();
  void move(Row& row, size_t dim, const Affine& index);
  /// The serial loop, over rows that are scanned side by side.
  void scan(Block& block, const std::vector<Row>& rows);

  const ir::Node& node_;
  const Window& from_;
  const Sizes& to_;  ///< Strides of the result.
  std::span<const Size> sizes_;
  size_t dim_;
  Kernel& kernel_;
  const SizeRules& rules_;
  Extents extents_;
  const Target& target_;
  DType type_;
  std::vector<size_t> outer_;  ///< The other dimensions, but for those of size 1.

 private:
  void add_buffer(const ir::Value* value, const char* name, Access access);
};

std::unique_ptr<ScanBuilder> make_cpu_scan(const ir::Node& node, const Facts& facts, KernelDraft& draft);
std::unique_ptr<ScanBuilder> make_gpu_scan(const ir::Node& node, const Facts& facts, KernelDraft& draft);

}  // namespace braze::loops
