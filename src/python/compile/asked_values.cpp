// python/compile/asked_values.cpp
#include "python/compile/asked_values.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace braze::python {

namespace {

/// Others are about what there is and of which kind, rather than which one of many.
bool is_about_value(const guards::Guard& guard) {
  using enum guards::GuardKind;
  constexpr std::array kinds = {constant, length, dict_keys, deep};
  return std::ranges::find(kinds, guard.kind) != kinds.end() && !guard.sources.empty();
}

/// Nothing: what it is about is not there.
std::optional<bool> truth_of(const guards::Guard& guard, const guards::Call& call) {
  std::vector<PyObject*> values;
  for (const guards::Source* source : guard.sources) values.push_back(guards::evaluate(source, call));
  if (std::ranges::find(values, nullptr) != values.end()) return {};
  return guards::row(guard.kind).test(guard.expected(), values.data(), call);
}

}  // namespace

void ValueLog::arrive(int offset, size_t decisions, bool iterates) {
  const std::vector<guards::Guard>& all = guards_.guards();
  for (; seen_ < all.size(); ++seen_) {
    if (offset_ < 0) continue;
    const guards::Guard& guard = all[seen_];
    if (is_about_value(guard)) asked_.values.push_back({guard, offset_});
    if (guard.kind == guards::GuardKind::same_object) asked_.identities.push_back({guard, offset_});
    if (guard.kind == guards::GuardKind::tensor) meets_tensors_at_ = offset_;
  }
  if (decisions > decisions_ && asked_.decides < 0) asked_.decides = offset_;
  decisions_ = decisions;
  offset_ = offset;
  if (iterates) iterates_at_ = offset;
}

void ValueLog::finish() {
  // How many items an iterator gives is known at the end of the run.
  const std::vector<guards::Guard>& all = guards_.guards();
  for (; seen_ < all.size() && iterates_at_ >= 0; ++seen_)
    if (all[seen_].kind == guards::GuardKind::items_left) asked_.values.push_back({all[seen_], iterates_at_});
  // So is which tensors are others, of which the run has met the last ones there.
  for (const guards::Guard& guard : all)
    if (guard.kind == guards::GuardKind::objects && meets_tensors_at_ >= 0)
      asked_.identities.push_back({guard, meets_tensors_at_});
  if (asked_.decides < 0) return;
  const auto decides = [](const guards::Guard& guard) { return guard.kind == guards::GuardKind::shapes; };
  const auto shapes = std::ranges::find_if(guards_.guards(), decides);
  if (shapes == guards_.guards().end()) return;
  // Of other things than these sizes and numbers nothing is read there.
  for (const guards::Guard& guard : guards_.guards()) {
    const bool is_first = guard.kind == guards::GuardKind::type || guard.kind == guards::GuardKind::tensor;
    if (is_first && std::ranges::find(shapes->sources, guard.sources[0]) != shapes->sources.end())
      asked_.decisions.push_back(guard);
  }
  asked_.decisions.push_back(*shapes);
}

std::optional<int> ValueLog::first_of(const std::function<bool(const guards::Source*)>& is_such) const {
  const auto found =
      std::ranges::find_if(asked_.values, [&](const AskedValue& one) { return is_such(one.guard.sources[0]); });
  return found == asked_.values.end() ? std::nullopt : std::optional(found->offset);
}

static bool is_other(const AskedValue& one, const guards::Call& call) {
  PyObject* value = guards::evaluate(one.guard.sources[0], call);
  const bool is_number = one.guard.kind == guards::GuardKind::constant;
  // What is of another type is another matter.
  if (!value || (is_number && Py_TYPE(value) != Py_TYPE(one.guard.object.get()))) return false;
  return !guards::row(one.guard.kind).test(one.guard.expected(), &value, call);
}

bool AskedValues::is_for_other_scalar(const guards::Call& call) const {
  using enum guards::GuardKind;
  return std::ranges::any_of(values, [&](const AskedValue& one) {
    return (one.guard.kind == constant || one.guard.kind == deep) && is_other(one, call);
  });
}

void AskedValues::add_others(const guards::Call& call, std::set<std::string>& paths) const {
  for (const AskedValue& one : values)
    if (is_other(one, call)) paths.insert(guards::to_text(one.guard.sources[0]));
}

std::optional<int> AskedValues::first_other(const guards::Call& call) const {
  const auto fails = [&](const AskedValue& one) { return is_other(one, call); };
  if (const auto found = std::ranges::find_if(values, fails); found != values.end()) return found->offset;
  const auto differs = [&](const AskedValue& one) { return !truth_of(one.guard, call).value_or(true); };
  if (const auto found = std::ranges::find_if(identities, differs); found != identities.end()) return found->offset;
  const auto is_decided = [&](const guards::Guard& guard) { return !truth_of(guard, call).value_or(false); };
  const auto first = std::ranges::find_if(decisions, is_decided);
  const bool decides_otherwise = first != decisions.end() && first == std::prev(decisions.end());
  return decides_otherwise ? std::optional(decides) : std::nullopt;
}

}  // namespace braze::python
