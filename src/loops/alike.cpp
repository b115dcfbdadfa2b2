#include "loops/alike.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

namespace braze::loops {

namespace {

// Less than this is written out, or simplified away.
constexpr int64_t least_number = 4;
// Of the length of a vector loop: vectors of f32, of which one or two go side by side.
constexpr int64_t most_divided = 32, least_divided = 16;
// Each may be a register for as long as the kernel runs.
constexpr size_t most_symbols = 8;

/// The factor of a vector loop's length that code relies on to leave no rest.
int64_t relied_on(int64_t length) {
  return std::min<int64_t>(most_divided, length & -length);
}

/// One kernel, with the numbers that may vary put aside.
class Form {
 public:
  explicit Form(Kernel& kernel) : kernel_(kernel), in_lanes_(kernel.types.size()), lanes_use_(in_lanes_) {
    note_lanes(kernel.body, false);
    take(kernel.body, 0);
    for (Buffer& buffer : kernel.buffers) {
      if (buffer.is_parameter || !buffer.size.is_constant()) continue;
      rooms_.emplace_back(&buffer.size.constant, buffer.size.constant);
      buffer.size = 1;
    }
  }

  /// What kernels have in common that differ in nothing but numbers.
  Hash128 hash(ir::DeviceKind device) const { return kernel_hash(kernel_, device); }

  /// Puts all numbers back.
  void restore() {
    for (const Place& place : places_) set(place, Extent(place.factor * place.value));
    for (const auto& [figure, value] : rooms_) *figure = value;
    for (const auto& [figure, value] : grains_) *figure = value;
  }

  /// Makes this one kernel for all of `forms`, of which it is the first.
  /// \param values  what its symbols are for each of them.
  /// \return false if they would be too many: then nothing is changed.
  bool unite(const std::vector<Form*>& forms, std::vector<std::vector<int64_t>>& values) {
    std::vector<std::vector<int64_t>> symbols;
    std::vector<Extent> numbers;
    for (size_t p = 0; p < places_.size(); ++p) {
      std::vector<int64_t> column;
      int64_t divisor = 0;
      for (const Form* form : forms) {
        column.push_back(form->places_[p].value);
        divisor = std::gcd(divisor, column.back());
      }
      const int64_t factor = places_[p].factor;
      if (std::ranges::all_of(column, [&](int64_t value) { return value == column.front(); })) {
        numbers.emplace_back(factor * column.front());
        continue;
      }
      for (int64_t& value : column) value /= divisor;
      auto symbol = std::ranges::find(symbols, column);
      if (symbol == symbols.end()) symbol = symbols.insert(symbol, std::move(column));
      Extent& number = numbers.emplace_back();
      number.factor = factor * divisor;
      number.symbol = static_cast<uint32_t>(symbol - symbols.begin());
    }
    if (symbols.size() > most_symbols) return false;
    for (size_t p = 0; p < places_.size(); ++p) set(places_[p], numbers[p]);
    const auto largest = [&](auto member, size_t k) {
      int64_t most = 0;
      for (const Form* form : forms) most = std::max(most, (form->*member)[k].second);
      return most;
    };
    for (size_t k = 0; k < rooms_.size(); ++k) *rooms_[k].first = largest(&Form::rooms_, k);
    // The largest, since a launch knows by the bytes that it moves where that is too large.
    for (size_t k = 0; k < grains_.size(); ++k) *grains_[k].first = largest(&Form::grains_, k);
    values.assign(forms.size(), {});
    for (size_t s = 0; s < symbols.size(); ++s) {
      kernel_.symbols.push_back("n" + std::to_string(s));
      for (size_t f = 0; f < forms.size(); ++f) values[f].push_back(symbols[s][f]);
    }
    return true;
  }

 private:
  /// Where a number stood: `factor` times `value`, of which only `value` may vary.
  struct Place {
    Extent* extent;  ///< Or a constant that is a statement of its own.
    Stmt* constant;
    int64_t factor, value;
  };

  void set(const Place& place, const Extent& number) const {
    if (place.extent) {
      *place.extent = number;
      return;
    }
    Stmt& stmt = *place.constant;
    stmt.kind = number.is_constant() ? StmtKind::constant : StmtKind::affine;
    stmt.index.offset = number.is_constant() ? Extent() : number;
  }

  void take(Extent* extent, Stmt* constant, int64_t number, int64_t factor = 1) {
    Extent symbol;
    symbol.factor = factor;
    symbol.symbol = static_cast<uint32_t>(places_.size());
    places_.push_back({extent, constant, factor, number / factor});
    set(places_.back(), symbol);
  }
  void take(Extent& extent) {
    if (extent.is_constant() && std::abs(extent.constant) >= least_number) take(&extent, nullptr, extent.constant);
  }

  /// What differs between lanes, and what lanes compute with.
  void note_lanes(const Block& block, bool lanes) {
    for (const Stmt& stmt : block) {
      if (lanes && stmt.result != none) in_lanes_[stmt.result] = true;
      if (lanes)
        for (const ValueId value : stmt.args) lanes_use_[value] = true;
      if (stmt.loop) {
        const bool inner = lanes || stmt.loop->schedule.vector;
        if (inner) in_lanes_[stmt.loop->var] = true;
        note_lanes(stmt.loop->body, inner);
      }
      note_lanes(stmt.body, lanes);
    }
  }

  /// Lanes that lie far apart are written one by one at any distance. Loads are more often what takes the time.
  void take(Affine& index, bool stored) {
    for (Affine::Term& term : index.terms) {
      const bool is_far = stored && term.factor.is_constant() && std::abs(term.factor.constant) >= least_divided;
      if (!in_lanes_[term.value] || is_far) take(term.factor);
    }
    take(index.offset);
  }

  void take(Loop& loop, int depth) {
    grains_.emplace_back(&loop.schedule.grain, loop.schedule.grain);
    loop.schedule.grain = 1;
    const bool counted =
        loop.begin_value == none && loop.end_value == none && loop.begin == Extent(0) && loop.end.is_constant();
    if (!counted || lanes_) return;  // what lanes repeat is written out where it is short
    const int64_t length = loop.end.constant;
    if (depth == 0) {  // a phase is told where to begin and end
      if (loop.step == 1 && length > 0) take(&loop.end, nullptr, length);
    } else if (!loop.schedule.vector) {
      if (loop.schedule.unroll == 1) take(loop.end);
    } else if (length >= most_divided && relied_on(length) >= least_divided) {
      take(&loop.end, nullptr, length, relied_on(length));
    }
  }

  void take(Block& block, int depth) {
    for (Stmt& stmt : block) {
      switch (stmt.kind) {
        case StmtKind::constant:
          if (stmt.type == DType::i64 && !lanes_ && !lanes_use_[stmt.result] && !stmt.number.floating &&
              std::abs(stmt.number.i) >= least_number)
            take(nullptr, &stmt, stmt.number.i);
          break;
        case StmtKind::affine:
        case StmtKind::load: take(stmt.index, false); break;
        case StmtKind::store:
        case StmtKind::atomic: take(stmt.index, true); break;
        case StmtKind::loop: {
          take(*stmt.loop, depth);
          const bool outer = std::exchange(lanes_, lanes_ || stmt.loop->schedule.vector);
          take(stmt.loop->body, depth + 1);
          lanes_ = outer;
          break;
        }
        case StmtKind::branch: take(stmt.body, depth + 1); break;
        default: break;
      }
    }
  }

  Kernel& kernel_;
  std::vector<bool> in_lanes_, lanes_use_;
  bool lanes_ = false;  ///< Within a vector loop.
  std::vector<Place> places_;
  std::vector<std::pair<int64_t*, int64_t>> rooms_, grains_;  ///< And what stood there.
};

bool has_transposes(const Block& block) {
  return std::ranges::any_of(block, [](const Stmt& stmt) {
    return stmt.kind == StmtKind::transpose || has_transposes(stmt.body) ||
           (stmt.loop && has_transposes(stmt.loop->body));
  });
}

/// The kernels that run on a CPU and are of numbers alone. Tiles that registers transpose are of fixed sizes.
std::vector<bool> candidates(const Plan& plan) {
  std::vector<bool> may(plan.kernels.size());
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::kernel || step.kernel.buffers.empty()) continue;
    const Kernel& kernel = *plan.kernels[step.kernel.kernel];
    may[step.kernel.kernel] = plan.buffers[step.kernel.buffers[0]].device.kind == ir::DeviceKind::cpu &&
                              kernel.symbols.empty() && !has_transposes(kernel.body);
  }
  return may;
}

}  // namespace

void share_alike_kernels(Plan& plan) {
  const std::vector<bool> may = candidates(plan);
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint32_t>> alike;
  std::vector<std::unique_ptr<Form>> forms(plan.kernels.size());
  for (uint32_t k = 0; k < forms.size(); ++k) {
    if (!may[k]) continue;
    forms[k] = std::make_unique<Form>(*plan.kernels[k]);
    const Hash128 hash = forms[k]->hash(ir::DeviceKind::cpu);
    alike[{hash.high, hash.low}].push_back(k);
  }

  std::vector<uint32_t> becomes(forms.size());
  std::iota(becomes.begin(), becomes.end(), 0);
  std::vector<std::vector<int64_t>> symbols(forms.size());
  for (const auto& [hash, group] : alike) {
    std::vector<Form*> members;
    for (const uint32_t k : group) members.push_back(forms[k].get());
    std::vector<std::vector<int64_t>> values;
    if (group.size() == 1 || !members[0]->unite(members, values)) {
      for (Form* form : members) form->restore();
      continue;
    }
    for (size_t m = 0; m < group.size(); ++m) {
      becomes[group[m]] = group[0];
      symbols[group[m]] = std::move(values[m]);
    }
    Kernel& kernel = *plan.kernels[group[0]];
    plan.kernel_hashes[group[0]] = kernel_hash(kernel, ir::DeviceKind::cpu);
    const size_t digits = kernel.name.rfind('_') + 1;
    kernel.name.replace(digits, std::string::npos, plan.kernel_hashes[group[0]].hex().substr(0, 8));
  }

  std::vector<uint32_t> place(forms.size());
  uint32_t kept = 0;
  for (uint32_t k = 0; k < forms.size(); ++k) {
    if (becomes[k] != k) continue;
    place[k] = kept;
    plan.kernels[kept] = std::move(plan.kernels[k]);
    plan.kernel_hashes[kept++] = plan.kernel_hashes[k];
  }
  plan.kernels.resize(kept);
  plan.kernel_hashes.resize(kept);
  for (Step& step : plan.steps) {
    if (step.kind != StepKind::kernel) continue;
    const uint32_t kernel = step.kernel.kernel;
    if (!symbols[kernel].empty()) step.kernel.symbols = symbols[kernel];
    step.kernel.kernel = place[becomes[kernel]];
  }
}

}  // namespace braze::loops
