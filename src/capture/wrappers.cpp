#include "capture/wrappers.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "capture/gate.h"

namespace braze::capture {

namespace {

/// Shows what TensorImpl keeps to those that derive from it: bits, to which there are no pointers.
struct Policies : c10::TensorImpl {
  /// What the tensor is asked for is answered by TensorImpl itself.
  static bool are_plain(const c10::TensorImpl& impl) {
    const auto& shown = static_cast<const Policies&>(impl);
    return !shown.matches_policy(SizesStridesPolicy::CustomStrides) && !shown.device_policy_ &&
           !shown.layout_policy_;
  }
};
static_assert(sizeof(Policies) == sizeof(c10::TensorImpl));

}  // namespace

bool is_dispatched(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->is_python_dispatch();
}

bool is_wrapper(const at::Tensor& tensor) {
  if (!is_dispatched(tensor)) return false;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  return !impl.has_symbolic_sizes_strides() && Policies::are_plain(impl) && impl.layout() == c10::kStrided &&
         storage && !storage->_mutable_data_ptr_no_checks().get() && !impl.is_conj() && !impl.is_neg() &&
         !impl.is_wrapped_number();
}

}  // namespace braze::capture
