#include "capture/taps.h"

#include <algorithm>

namespace braze::capture {
namespace {

/// More taps than these are a dimension of their own, which a reduction removes.
constexpr size_t kMostTerms = 8;
/// So few elements that each is multiplied with a row of weights: along a row, reading them one by one costs more.
constexpr int64_t kFewElements = 8;

/// The weighted sums of one dimension: tables of places and weights, one row a tap. Where an element has fewer taps
/// than others, its last place is read once more and does not count: 0 times an infinity would.
class WeightedSums {
 public:
  WeightedSums(Arithmetic& a, ir::Value* value, int64_t dim, const Taps& taps, DType dtype)
      : a_(a), value_(value), dim_(dim), taps_(taps), dtype_(dtype) {
    fewest_ = taps.of.empty() ? 0 : taps.of[0].size();
    for (const auto& one : taps.of) {
      fewest_ = std::min(fewest_, one.size());
      most_ = std::max(most_, one.size());
      for (const Tap& tap : one) weighs_ |= tap.weight != 1;
    }
  }

  ir::Value* run() {
    if (most_ == 0) return a_.expand(a_.number(dtype_, 0), sizes());
    const bool is_last = dim_ + 1 == std::ssize(to_ref(value_->type->sizes));
    if (is_last && taps_.size <= kFewElements && taps_.size <= std::ssize(taps_.of)) return by_element();
    return most_ <= kMostTerms ? terms() : reduced();
  }

 private:
  Sizes sizes() const {
    const DimsRef known = value_->type->sizes;
    Sizes sizes(known.begin(), known.end());
    sizes[dim_] = std::ssize(taps_.of);
    return sizes;
  }

  ir::Value* terms() {
    ir::Value* sum = nullptr;
    for (size_t t = 0; t < most_; ++t) {
      std::vector<int64_t> places;
      std::vector<double> weights, present;
      for (size_t o = 0; o < taps_.of.size(); ++o) add(o, t, places, weights, present);
      ir::Value* const index[] = {a_.constant(places)};
      ir::Value* one = weighted(a_.index(value_, dim_, index), weights, present, t >= fewest_,
                                {static_cast<int64_t>(taps_.of.size())});
      sum = sum ? a_.op(Op::add, sum, one) : one;
    }
    return sum;
  }

  ir::Value* reduced() {
    std::vector<int64_t> places;
    std::vector<double> weights, present;
    for (size_t o = 0; o < taps_.of.size(); ++o)
      for (size_t t = 0; t < most_; ++t) add(o, t, places, weights, present);
    const Sizes table{static_cast<int64_t>(taps_.of.size()), static_cast<int64_t>(most_)};
    ir::Value* const index[] = {a_.reshape(a_.constant(places), table)};
    ir::Value* all = weighted(a_.index(value_, dim_, index), weights, present, fewest_ < most_, table);
    return a_.reduce(Op::sum, all, {dim_ + 1});
  }

  /// Of each element that is read, what all of the results take. Of several taps on it they have one.
  ir::Value* by_element() {
    const Taps given = taps_.transposed();
    ir::Value* sum = nullptr;
    for (int64_t place = 0; place < taps_.size; ++place) {
      std::vector<double> weights(taps_.of.size()), present(taps_.of.size());
      for (const Tap& tap : given.of[static_cast<size_t>(place)]) {
        weights[static_cast<size_t>(tap.place)] = tap.weight;
        present[static_cast<size_t>(tap.place)] = 1;
      }
      const bool is_ragged = given.of[static_cast<size_t>(place)].size() < weights.size();
      ir::Value* one = weighted(a_.slice(value_, dim_, place, 1), weights, present, is_ragged,
                                {static_cast<int64_t>(weights.size())});
      sum = sum ? a_.op(Op::add, sum, one) : one;
    }
    return a_.expand(sum, sizes());
  }

  void add(size_t o, size_t t, std::vector<int64_t>& places, std::vector<double>& weights,
           std::vector<double>& present) const {
    const auto& one = taps_.of[o];
    const bool is_there = t < one.size();
    places.push_back(one.empty() ? 0 : one[std::min(t, one.size() - 1)].place);
    weights.push_back(is_there ? one[t].weight : 0);
    present.push_back(is_there);
  }

  /// `picked` has the dimensions `table` from dim_ on.
  ir::Value* weighted(ir::Value* picked, const std::vector<double>& weights, const std::vector<double>& present,
                      bool is_ragged, const Sizes& table) {
    picked = a_.cast(picked, dtype_);
    Sizes shape(table.begin(), table.end());
    shape.resize(picked->type->sizes.size() - static_cast<size_t>(dim_), 1);
    const auto along = [&](const std::vector<double>& numbers) {
      return a_.reshape(a_.constant(numbers, to_scalar_type(dtype_)), shape);
    };
    if (weighs_) picked = a_.op(Op::mul, picked, along(weights));
    if (!is_ragged) return picked;
    return a_.where(a_.op(Op::ne, along(present), a_.number(dtype_, 0)), picked, a_.number(dtype_, 0));
  }

  Arithmetic& a_;
  ir::Value* value_;
  int64_t dim_;
  const Taps& taps_;
  DType dtype_;
  size_t fewest_ = 0, most_ = 0;
  bool weighs_ = false;
};

}  // namespace

Taps Taps::transposed() const {
  Taps other{std::ssize(of), std::vector<std::vector<Tap>>(static_cast<size_t>(size))};
  for (int64_t o = 0; o < other.size; ++o)
    for (const Tap& tap : of[static_cast<size_t>(o)]) {
      auto& back = other.of[static_cast<size_t>(tap.place)];
      if (!back.empty() && back.back().place == o)  // Two taps on one place, at an edge.
        back.back().weight += tap.weight;
      else
        back.push_back({o, tap.weight});
    }
  return other;
}

Taps window_taps(int64_t size, std::span<const Window> windows) {
  Taps taps{size, {}};
  for (const Window& window : windows) {
    auto& one = taps.of.emplace_back();
    for (int64_t place = window.begin; place < window.end; ++place) one.push_back({place, window.weight});
  }
  return taps;
}

Window adaptive_window(int64_t o, int64_t size, int64_t out) {
  return {o * size / out, ((o + 1) * size + out - 1) / out, 1};
}

ir::Value* weighted_sums(Arithmetic& a, ir::Value* value, int64_t dim, const Taps& taps, DType dtype) {
  return WeightedSums(a, value, dim, taps, dtype).run();
}

}  // namespace braze::capture
