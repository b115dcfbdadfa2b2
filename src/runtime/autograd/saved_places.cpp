#include "runtime/autograd/saved_places.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

namespace braze::runtime {

bool SavedPlaces::has_moved(size_t number, const at::Tensor& saved) const {
  if (empty() || !places_[number].storage) return false;
  const auto& [storage, offset] = places_[number];
  return saved.storage().unsafeGetStorageImpl() != storage.unsafeGetStorageImpl() ||
         saved.storage_offset() != offset;
}

at::Tensor SavedPlaces::in_its_memory(size_t number, at::Tensor saved, const Geometry& geometry) const {
  if (!has_moved(number, saved)) [[likely]]
    return saved;
  const at::NoGradGuard no_history;
  const bool is_named = geometry.dtype != c10::ScalarType::Undefined;
  at::Tensor kept = at::empty(
      {0}, at::TensorOptions().dtype(is_named ? geometry.dtype : saved.scalar_type()).device(geometry.device));
  return kept.set_(places_[number].storage, places_[number].offset, geometry.sizes, geometry.strides);
}

}  // namespace braze::runtime
