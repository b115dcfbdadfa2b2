// api/signature.h: what a captured program depends on: arguments, environment, and the tensors bound into it.
//
// A signature is compared in full at every call, cheapest parts first; nothing is hashed, so nothing can collide.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

#include "api/environment.h"
#include "runtime/tensor_form.h"

namespace braze::api {

using Tensors = c10::ArrayRef<const at::Tensor*>;

/// An ordinary dense tensor on the CPU, whose bytes are the whole story.
bool is_plain(const at::Tensor& tensor);

/// Where a tensor lies among others.
struct Place {
  uint32_t same = 0;     ///< The first tensor that is this very one; itself if none.
  uint32_t storage = 0;  ///< The first tensor in this storage; itself if none.
  int64_t distance = 0;  ///< In bytes from that tensor's first element.
  bool operator==(const Place&) const = default;
};

/// Of a tensor, everything that a program depends on beside its place.
struct Form {
  explicit Form(const at::Tensor& tensor) : tensor(tensor), requires_grad(tensor.requires_grad()) {}
  bool matches(const at::Tensor& other) const;
  bool operator==(const Form&) const = default;

  runtime::TensorForm tensor;
  bool requires_grad;
};

/// The arguments of a call. Every one is_plain().
class Signature {
 public:
  Signature(const Environment& environment, std::string key, Tensors tensors);
  bool matches(const Environment& environment, const std::string& key, Tensors tensors) const;
  /// The same values beside tensors, and as many tensors, of which the same are the same.
  bool same_structure(const std::string& key, Tensors tensors) const;
  /// The arguments without those that are an earlier one.
  c10::SmallVector<const at::Tensor*, 8> distinct(Tensors tensors) const;
  /// Number of each argument among the distinct ones.
  std::vector<uint32_t> distinct_numbers() const;
  bool operator==(const Signature&) const = default;

 private:
  Environment environment_;
  std::string key_;
  std::vector<Form> forms_;
  std::vector<Place> places_;
};

/// The tensors that a program has bound: parameters, buffers, tensors that the function closes over. Their contents
/// are read at every call; what must not have changed is everything else.
class BoundTensors {
 public:
  /// \param arguments  the distinct tensors of the call that was captured.
  BoundTensors(const std::vector<at::Tensor>& bound, Tensors arguments);

  enum class State : uint8_t {
    same,
    released,  ///< A tensor has fewer owners than when captured: the function may have another one in its place.
    changed,
  };
  State compare(Tensors arguments) const;
  /// Counts the owners that the tensors have now.
  void count_owners();
  bool any_requires_grad() const;
  /// They are the same tensors in the same order.
  bool same_tensors(const BoundTensors& other) const;

 private:
  struct Bound {
    at::Tensor tensor;
    Form form;
    const void* storage;  ///< When captured.
    size_t owners = 0;    ///< At count_owners().
  };
  bool lie_as_captured(Tensors arguments) const;
  std::vector<Place> places(Tensors arguments) const;

  std::vector<Bound> bound_;
  std::vector<const void*> storages_;  ///< Of bound_, sorted.
  std::vector<Place> places_;          ///< Of the arguments, then of bound_.
  bool meets_arguments_ = false;       ///< An argument lies in the storage of a bound tensor.
};

}  // namespace braze::api
