#include "capture/trace.h"

namespace braze::capture {

void Bindings::let_go(const std::unordered_set<const c10::TensorImpl*>& kept_elsewhere) {
  for (size_t k = 0; k < tensors_.size(); ++k) {
    if (!tensors_[k].defined() || !kept_elsewhere.contains(tensors_[k].unsafeGetTensorImpl())) continue;
    // The place goes on naming the tensor, and owns it no longer.
    borrowed_.push_back(k);
    c10::raw::intrusive_ptr::decref(tensors_[k].unsafeGetTensorImpl());
  }
}

Bindings::~Bindings() {
  for (const size_t k : borrowed_) tensors_[k].unsafeReleaseTensorImpl();
}

}  // namespace braze::capture
