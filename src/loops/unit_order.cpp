#include "loops/unit_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace braze::loops {

namespace {

constexpr size_t most_steps = 2048;  // of one search, or moved by one merge

bool among(std::span<const uint32_t> units, uint32_t unit) {
  return std::ranges::find(units, unit) != units.end();
}

}  // namespace

uint32_t UnitOrder::find(uint32_t unit) const {
  while (merged_into_[unit] != unit) unit = merged_into_[unit] = merged_into_[merged_into_[unit]];
  return unit;
}

void UnitOrder::connect(uint32_t unit, uint32_t other) {
  needs_[unit].push_back(other);
  users_[other].push_back(unit);
  level_[unit] = std::max(level_[unit], level_[other] + 1);
}

uint32_t UnitOrder::add(Units reads) {
  const auto unit = static_cast<uint32_t>(level_.size());
  needs_.emplace_back();
  users_.emplace_back();
  level_.push_back(0);
  merged_into_.push_back(unit);
  seen_.push_back(0);
  for (const uint32_t other : reads) connect(unit, other);
  return unit;
}

bool UnitOrder::needs_directly(uint32_t unit, uint32_t other) const {
  return std::ranges::any_of(needs_[unit], [&](uint32_t need) { return find(need) == other; });
}

bool UnitOrder::can_merge(Units members, Units reads) const {
  uint32_t lowest = UINT32_MAX;
  for (const uint32_t member : members) lowest = std::min(lowest, level_[member]);
  ++search_;
  std::vector<uint32_t> open;
  size_t steps = 0;
  auto visit = [&](uint32_t unit) {
    // Whatever needs a member is above it.
    if (level_[unit] <= lowest || seen_[unit] == search_ || among(members, unit)) return;
    seen_[unit] = search_;
    open.push_back(unit);
  };
  for (const uint32_t unit : reads) visit(unit);
  if (members.size() > 1)
    for (const uint32_t member : members)
      for (const uint32_t need : needs_[member]) visit(find(need));
  while (!open.empty()) {
    const uint32_t unit = open.back();
    open.pop_back();
    for (const uint32_t raw : needs_[unit]) {
      const uint32_t need = find(raw);
      if (++steps > most_steps || among(members, need)) return false;
      visit(need);
    }
  }
  return true;
}

bool UnitOrder::raise(Units group, uint32_t level) {
  std::vector<std::pair<uint32_t, uint32_t>> before;  // (unit, its level)
  std::vector<uint32_t> open;
  auto lift = [&](uint32_t unit, uint32_t to) {
    if (level_[unit] >= to) return;
    before.emplace_back(unit, level_[unit]);
    level_[unit] = to;
    if (!among(group, unit)) open.push_back(unit);
  };
  for (const uint32_t member : group) lift(member, level);
  size_t steps = 0;
  auto lift_users = [&](uint32_t unit, uint32_t to) {
    for (const uint32_t raw : users_[unit]) {
      const uint32_t user = find(raw);
      if (++steps > most_steps) return false;
      if (!among(group, user)) lift(user, to);
    }
    return true;
  };
  bool done = std::ranges::all_of(group, [&](uint32_t member) { return lift_users(member, level + 1); });
  while (done && !open.empty()) {
    const uint32_t unit = open.back();
    open.pop_back();
    done = lift_users(unit, level_[unit] + 1);
  }
  if (!done)
    for (size_t k = before.size(); k-- > 0;) level_[before[k].first] = before[k].second;
  return done;
}

bool UnitOrder::merge(Units members, Units reads) {
  uint32_t level = 0;
  for (const uint32_t member : members) level = std::max(level, level_[member]);
  for (const uint32_t unit : reads)
    if (!among(members, unit)) level = std::max(level, level_[unit] + 1);
  // A unit that only takes a node in stays where it is, as a rule.
  if ((members.size() > 1 || level > level_[members[0]]) && !raise(members, level)) return false;
  const uint32_t first = members[0];
  for (const uint32_t other : members.subspan(1)) {
    needs_[first].insert(needs_[first].end(), needs_[other].begin(), needs_[other].end());
    users_[first].insert(users_[first].end(), users_[other].begin(), users_[other].end());
    std::vector<uint32_t>().swap(needs_[other]);
    std::vector<uint32_t>().swap(users_[other]);
    merged_into_[other] = first;
  }
  for (const uint32_t unit : reads) {
    if (among(members, unit) || (!needs_[first].empty() && needs_[first].back() == unit)) continue;
    needs_[first].push_back(unit);
    users_[unit].push_back(first);
  }
  return true;
}

std::vector<uint32_t> UnitOrder::in_order(std::span<const uint32_t> position) const {
  const auto count = static_cast<uint32_t>(level_.size());
  std::vector<uint32_t> waiting(count), order;
  using Entry = std::pair<uint32_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (uint32_t unit = 0; unit < count; ++unit) {
    if (!alive(unit)) continue;
    for (const uint32_t need : needs_[unit]) waiting[unit] += find(need) != unit;
    if (!waiting[unit]) ready.emplace(position[unit], unit);
  }
  while (!ready.empty()) {
    const uint32_t unit = ready.top().second;
    ready.pop();
    order.push_back(unit);
    for (const uint32_t raw : users_[unit]) {
      const uint32_t user = find(raw);
      if (user != unit && --waiting[user] == 0) ready.emplace(position[user], user);
    }
  }
  return order;
}

}  // namespace braze::loops
