// loops/schedule/cpu/scan.cpp: the innermost of the dimensions that are not scanned runs over lanes if it lies
// inside of the scanned one. If not, some rows are scanned side by side, as a step of one does not wait for the
// others.
#include <algorithm>

#include "loops/schedule/cpu/schedule.h"
#include "loops/schedule/scan_builder.h"

namespace braze::loops {

namespace {

class CpuScan final : public ScanBuilder {
 public:
  using ScanBuilder::ScanBuilder;

  void build() override {
    Affine load, store;
    load.offset = Extent(from_.offset);
    left_ = node_.results[0].type->numel();
    if (outer_.empty()) return scan(Builder(kernel_, kernel_.body).loop(0, 1).body, {{load, store}});
    const bool lanes = outer_.back() > dim_;
    Block* block = &kernel_.body;
    for (const size_t k : outer_) {
      if (k == outer_.back() && !lanes) return add_rows(*block, load, store);
      Loop& loop = Builder(kernel_, *block).loop(0, sizes_[k], schedule_of(k, 1));
      load.add(from_.strides[k], loop.var);
      store.add(to_[k], loop.var);
      block = &loop.body;
    }
    scan(*block, {{load, store}});
  }

 private:
  /// Of the loop over dimension k, `rows` of which are an iteration.
  Schedule schedule_of(size_t k, int64_t rows) {
    const bool lanes = outer_.back() > dim_;
    const int64_t times_slower = lanes ? target_.cpu.running_lanes : target_.cpu.running_rows;
    Schedule schedule;
    left_ /= sizes_[k];
    schedule.vector = lanes && k == outer_.back();
    schedule.parallel = k == outer_.front();
    if (!schedule.parallel) return schedule;
    schedule.grain = std::max<int64_t>(1, target_.cpu.thread_work / times_slower / (left_ * rows));
    if (schedule.vector) schedule.grain = whole_lines(schedule.grain, target_);
    return schedule;
  }

  void add_rows(Block& block, const Affine& load, const Affine& store) {
    const size_t k = outer_.back();
    const int64_t count = sizes_[k], together = std::min(target_.cpu.rows_together, count),
                  whole = count - count % together;
    const Schedule schedule = schedule_of(k, together);
    const auto add = [&](int64_t begin, int64_t end, int64_t step) {
      Loop& loop = Builder(kernel_, block).loop(begin, end, schedule, step);
      std::vector<Row> rows(step, Row{load, store});
      for (int64_t i = 0; i < step; ++i) {
        rows[i].load.add(from_.strides[k], loop.var);
        rows[i].store.add(to_[k], loop.var);
        rows[i].load.offset.constant += i * from_.strides[k];
        rows[i].store.offset.constant += i * to_[k];
      }
      scan(loop.body, rows);
    };
    add(0, whole, together);
    if (whole < count) add(whole, count, 1);
  }

  int64_t left_ = 1;  ///< Elements in an iteration of the loops so far.
};

}  // namespace

std::unique_ptr<ScanBuilder> make_cpu_scan(const ir::Node& node, const Facts& facts, KernelDraft& draft) {
  return std::make_unique<CpuScan>(node, facts, draft);
}

}  // namespace braze::loops
