// runtime/autograd/saved_places.h: where tensors lay when a backward saved them.
//
// What is held for a backward is the tensor itself, whose `data` somebody may assign to; eager's view of it does
// not see that.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "runtime/geometry.h"

namespace braze::runtime {

class SavedPlaces {
 public:
  explicit SavedPlaces(size_t count = 0) : places_(count) {}

  /// None is noted, nor will be.
  bool empty() const { return places_.empty(); }
  void note(size_t number, const at::Tensor& saved) { places_[number] = {saved.storage(), saved.storage_offset()}; }
  void forget(size_t number) {
    if (!empty()) places_[number] = {};
  }
  /// Somebody has assigned to its `data` since it was noted. False for one that was not.
  bool has_moved(size_t number, const at::Tensor& saved) const;
  /// What was saved, in the memory that it had then. \param geometry  of it.
  at::Tensor in_its_memory(size_t number, at::Tensor saved, const Geometry& geometry) const;

 private:
  struct Place {
    c10::Storage storage;
    int64_t offset = 0;
  };
  std::vector<Place> places_;
};

}  // namespace braze::runtime
