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
    load.offset = extents_.of(from_.offset);
    left_ = rules_.hint(node_.results[0].type->symbolic_numel());
    if (outer_.empty()) return scan(Builder(kernel_, kernel_.body).loop(0, 1).body, {{load, store}});
    const bool lanes = outer_.back() > dim_;
    Block* block = &kernel_.body;
    for (const size_t k : outer_) {
      if (k == outer_.back() && !lanes) return add_rows(*block, load, store);
      Loop& loop = Builder(kernel_, *block).loop(0, extents_.of(sizes_[k]), schedule_of(k, 1));
      extents_.add(load, from_.strides[k], loop.var);
      extents_.add(store, to_[k], loop.var);
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
    left_ /= std::max<int64_t>(1, rules_.hint(sizes_[k]));
    schedule.vector = lanes && k == outer_.back();
    schedule.parallel = k == outer_.front();
    if (!schedule.parallel) return schedule;
    schedule.grain =
        std::max<int64_t>(1, target_.cpu.thread_work / times_slower / std::max<int64_t>(1, left_ * rows));
    if (schedule.vector) schedule.grain = whole_lines(schedule.grain, target_);
    return schedule;
  }

  void add_rows(Block& block, const Affine& load, const Affine& store) {
    const size_t k = outer_.back();
    const Size count = sizes_[k];
    int64_t together = target_.cpu.rows_together;
    if (count.is_constant()) together = std::min(together, count.constant());
    const Size steps = floor_div(count, together), whole = steps * together;
    const Schedule schedule = schedule_of(k, together);
    const auto add = [&](Size begin, Extent end, int64_t step) {
      // What a phase begins with is a number.
      const Size first = begin.is_constant() ? Size(0) : begin;
      Loop& loop = Builder(kernel_, block).loop(extents_.of(begin - first), end, schedule, step);
      std::vector<Row> rows(step, Row{load, store});
      for (int64_t i = 0; i < step; ++i) {
        extents_.add(rows[i].load, from_.strides[k], loop.var);
        extents_.add(rows[i].store, to_[k], loop.var);
        extents_.add_offset(rows[i].load, (first + i) * from_.strides[k]);
        extents_.add_offset(rows[i].store, (first + i) * to_[k]);
      }
      scan(loop.body, rows);
    };
    add(0, extents_.multiple(together, steps), together);
    if (whole != count) add(whole, extents_.of(whole.is_constant() ? count : count - whole), 1);
  }

  int64_t left_ = 1;  ///< Elements in an iteration of the loops so far.
};

}  // namespace

std::unique_ptr<ScanBuilder> make_cpu_scan(const ir::Node& node, const Facts& facts, KernelDraft& draft) {
  return std::make_unique<CpuScan>(node, facts, draft);
}

}  // namespace braze::loops
