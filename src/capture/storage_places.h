// capture/storage_places.h: which memory of a trace lies where, of tensors that were there before.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>

namespace braze::capture {

struct Memory;

class StoragePlaces {
 public:
  /// Addresses of the storages of one memory, and the one that offsets are counted from.
  struct Place {
    intptr_t begin, end, origin;
    Memory* memory;
  };
  /// Where a real tensor's storage lies, with the memory known to lie there. Those that overlap are one memory,
  /// however many storages there are.
  Place find(const at::Tensor& real) const;
  void keep(Place place);

 private:
  std::map<intptr_t, Place> places_;  ///< By `begin`; none overlap.
};

}  // namespace braze::capture
