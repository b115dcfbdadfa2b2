// capture/storage_places.cpp
#include "capture/storage_places.h"

#include <algorithm>

#include "support/error.h"

namespace braze::capture {

StoragePlaces::Place StoragePlaces::find(const at::Tensor& real) const {
  const auto begin = reinterpret_cast<intptr_t>(real.storage().data());
  Place place{begin, begin + static_cast<intptr_t>(real.storage().nbytes()), begin, nullptr};
  if (place.begin == place.end) return place;
  auto known = places_.upper_bound(place.begin);
  if (known != places_.begin()) --known;
  for (; known != places_.end() && known->first < place.end; ++known) {
    if (known->second.end <= place.begin) continue;
    if (place.memory)
      throw UserError("braze: a tensor shares memory with two others that share none. Pass it as a clone().");
    place.memory = known->second.memory;
    place.origin = known->second.origin;
  }
  return place;
}

void StoragePlaces::keep(Place place) {
  if (place.begin == place.end) return;
  auto known = places_.upper_bound(place.begin);
  if (known != places_.begin()) --known;
  while (known != places_.end() && known->first < place.end) {
    if (known->second.memory != place.memory) {
      ++known;
      continue;
    }
    place.begin = std::min(place.begin, known->second.begin);
    place.end = std::max(place.end, known->second.end);
    known = places_.erase(known);
  }
  places_.emplace(place.begin, place);
}

}  // namespace braze::capture
