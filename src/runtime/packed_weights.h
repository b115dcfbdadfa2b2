// runtime/packed_weights.h: copies of weights in the form that a library reads fastest, kept while the weights stay
// as they are.
//
// A copy is right as long as its weight is the same tensor, over the same storage, with the same version. In-place
// operators, optimizers, load_state_dict(), set_() and a swapped parameter are seen at the next call that way;
// writes through `.data`, NumPy or a raw pointer move no version that anybody sees, which is why copies are made
// only for those who ask for them (ProgramOptions::prepack_weights), and who say forget_packed_weights() after such
// a write.
//
//   PackedWeight packed(format);                       // one use of a weight, in one step of a program
//   if (packed.stays(weight))                          // as it was at the last call
//     copy = packed.copy(weight, [&] { return ...; }); // undefined while another thread makes it
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "support/hash.h"

namespace braze::runtime {

/// All copies of the process are made anew when they are next wanted.
void forget_packed_weights();
/// The same for copies of what lies in the storages of these tensors. Optimizers whose step moves no version (fused
/// ones, and those that write through `.data`) have it called by the Python package.
void forget_packed_weights(c10::ArrayRef<at::Tensor> weights);
/// Of the copies that the process holds. Lets go of those whose weights are gone.
int64_t packed_weight_bytes();

namespace detail {
struct PackedCopy;
/// What a copy is right for. Addresses only: a copy keeps its tensor's and storage's from being used again.
struct WeightState {
  const void* tensor = nullptr;
  const void* storage = nullptr;
  const void* data = nullptr;
  uint32_t version = 0;
  uint64_t epoch = 0;  ///< How many forget_packed_weights() there had been.
  bool operator==(const WeightState&) const = default;
};
}  // namespace detail

/// One use of a weight. Uses with the same format share the copy, in whatever program they are; it is let go of
/// with the last of them, when the weight changes and when it dies. Thread-safe; nothing is locked while a copy is
/// made, so that a fork can only lose one that was in the making.
class PackedWeight {
 public:
  /// \param format  Of the copy: all that decides about it, the weight's layout too, but for the contents.
  explicit PackedWeight(const Hash128& format) : format_(format) {}

  /// The weight is what it was at the last call of stays() or copy(). A tensor without a version, of inference
  /// mode, never is.
  bool stays(const at::Tensor& weight) const;
  /// The copy of a weight that stays; `make` is called if there is none yet. Undefined, and to be done without, if
  /// the weight does not stay, or while another thread makes the copy. Throws what `make` throws.
  at::Tensor copy(const at::Tensor& weight, const std::function<at::Tensor()>& make) const;
  /// It turned out not to pay.
  void release() const;
  int64_t bytes() const;  ///< Of the copy; shared ones count in every use.

 private:
  const Hash128 format_;
  mutable std::mutex mutex_;  ///< Protects the rest.
  mutable detail::WeightState seen_;
  mutable std::shared_ptr<detail::PackedCopy> copy_;
};

}  // namespace braze::runtime
