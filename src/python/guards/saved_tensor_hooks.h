// python/guards/saved_tensor_hooks.h: whose hooks see what autograd saves.
#pragma once

#include <Python.h>

#include <cstdint>

namespace braze::guards {

/// The innermost hooks on saved tensors, which alone are called.
enum class SavedTensorHooks : uint8_t {
  none,           ///< Or those of save_on_cpu(): what is saved comes back as it was, whatever it is.
  checkpoint,     ///< Of torch.utils.checkpoint, in the forward.
  recomputation,  ///< Likewise, when it is run again in the backward.
  other           ///< Code of the user's, which may change what is saved, or count it.
};
SavedTensorHooks saved_tensor_hooks() noexcept;

/// The function that packs, borrowed; null: there are no hooks, or it is no function of Python's. What
/// torch._dynamo has been told to leave alone is itself, without the wrapper.
PyObject* pack_hook() noexcept;

}  // namespace braze::guards
