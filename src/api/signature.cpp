// api/signature.cpp
#include "api/signature.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/geometry.h"

namespace braze::api {

namespace {

const void* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

int64_t offset_in_bytes(const at::Tensor& tensor) {
  return tensor.storage_offset() * static_cast<int64_t>(tensor.element_size());
}

/// Of tensor i among those before it. Arguments are few: no table.
Place place_of(Tensors tensors, uint32_t i) {
  Place place{i, i, 0};
  const at::Tensor& tensor = *tensors[i];
  for (uint32_t k = 0; k < i; ++k) {
    if (storage_of(*tensors[k]) != storage_of(tensor)) continue;
    if (place.storage == i) {
      place.storage = k;
      place.distance = offset_in_bytes(tensor) - offset_in_bytes(*tensors[k]);
    }
    if (!tensors[k]->is_same(tensor)) continue;
    place.same = k;
    break;
  }
  return place;
}

}  // namespace

bool is_plain(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return runtime::is_plain(tensor, c10::kCPU) && impl->has_storage() && impl->device_type() == c10::kCPU &&
         !impl->is_wrapped_number();
}

bool Form::matches(const at::Tensor& other) const {
  return tensor.matches(other) && other.requires_grad() == requires_grad &&
         !other.unsafeGetTensorImpl()->is_wrapped_number();
}

// ---- arguments

Signature::Signature(const Environment& environment, std::string key, Tensors tensors)
    : environment_(environment), key_(std::move(key)) {
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    forms_.emplace_back(*tensors[i]);
    places_.push_back(place_of(tensors, i));
  }
}

bool Signature::matches(const Environment& environment, const std::string& key, Tensors tensors) const {
  if (tensors.size() != forms_.size() || key != key_ || !(environment == environment_)) return false;
  for (size_t i = 0; i < forms_.size(); ++i)
    if (!forms_[i].matches(*tensors[i])) return false;
  for (size_t i = 0; i < forms_.size(); ++i)
    if (!(place_of(tensors, i) == places_[i])) return false;
  return true;
}

bool Signature::same_structure(const std::string& key, Tensors tensors) const {
  if (tensors.size() != places_.size() || key != key_) return false;
  for (size_t i = 0; i < places_.size(); ++i)
    if (place_of(tensors, i).same != places_[i].same) return false;
  return true;
}

c10::SmallVector<const at::Tensor*, 8> Signature::distinct(Tensors tensors) const {
  c10::SmallVector<const at::Tensor*, 8> distinct;
  for (uint32_t i = 0; i < places_.size(); ++i)
    if (places_[i].same == i) distinct.push_back(tensors[i]);
  return distinct;
}

std::vector<uint32_t> Signature::distinct_numbers() const {
  std::vector<uint32_t> numbers;
  uint32_t next = 0;
  for (uint32_t i = 0; i < places_.size(); ++i)
    numbers.push_back(places_[i].same == i ? next++ : numbers[places_[i].same]);
  return numbers;
}

// ---- bound tensors

BoundTensors::BoundTensors(const std::vector<at::Tensor>& bound, Tensors arguments) {
  for (const at::Tensor& tensor : bound)
    if (tensor.defined()) bound_.push_back({tensor, Form(tensor), storage_of(tensor)});
  for (const Bound& b : bound_) storages_.push_back(b.storage);
  std::ranges::sort(storages_);
  for (const at::Tensor* argument : arguments)
    meets_arguments_ |= std::ranges::binary_search(storages_, storage_of(*argument));
  places_ = places(arguments);
}

std::vector<Place> BoundTensors::places(Tensors arguments) const {
  std::vector<const at::Tensor*> all(arguments.begin(), arguments.end());
  for (const Bound& bound : bound_) all.push_back(&bound.tensor);
  std::unordered_map<const void*, uint32_t> first;
  std::vector<Place> places;
  for (uint32_t i = 0; i < all.size(); ++i) {
    const uint32_t storage = first.try_emplace(storage_of(*all[i]), i).first->second;
    places.push_back({i, storage, offset_in_bytes(*all[i]) - offset_in_bytes(*all[storage])});
  }
  return places;
}

/// Usually no storage is another one than it was, and no argument lies in any of them.
bool BoundTensors::lie_as_captured(Tensors arguments) const {
  bool as_they_were = !meets_arguments_;
  for (const Bound& bound : bound_) as_they_were &= storage_of(bound.tensor) == bound.storage;
  for (const at::Tensor* argument : arguments)
    as_they_were = as_they_were && !std::ranges::binary_search(storages_, storage_of(*argument));
  return as_they_were || places(arguments) == places_;
}

BoundTensors::State BoundTensors::compare(Tensors arguments) const {
  bool released = false;
  for (const Bound& bound : bound_) {
    if (!bound.form.matches(bound.tensor)) return State::changed;
    released |= bound.tensor.use_count() < bound.owners;
  }
  if (!lie_as_captured(arguments)) return State::changed;
  return released ? State::released : State::same;
}

void BoundTensors::count_owners() {
  for (Bound& b : bound_) b.owners = b.tensor.use_count();
}

bool BoundTensors::any_requires_grad() const {
  return std::ranges::any_of(bound_, [](const Bound& b) { return b.form.requires_grad; });
}

bool BoundTensors::same_tensors(const BoundTensors& other) const {
  return std::ranges::equal(bound_, other.bound_,
                            [](const Bound& a, const Bound& b) { return a.tensor.is_same(b.tensor); });
}

}  // namespace braze::api
