// python/compile/checkpoint_choices.h: a checkpoint's second run goes the way of its first.
//
// torch.utils.checkpoint runs a function again in the backward, and counts what autograd saves both times. A
// program saves something else than eager, or than another program: of as many tensors of the same forms, nobody
// would notice that they are others. So what each call and segment of a compiled function ran as in the forward is
// kept with the checkpoint, and is what it runs as again, or the second run ends in an error.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "python/compile/specialisation.h"

namespace braze::python {

class CheckpointChoices {
 public:
  enum class Way : uint8_t { native, frames, program };
  struct Choice {
    const void* who;  ///< A function or code object, which is not looked into: it may be gone.
    int place;
    Way way;
    std::shared_ptr<Specialisation> program;
  };
  static constexpr int whole = -1;  ///< The place of whole calls and frames.

  /// In the forward of a checkpoint, the innermost on this thread: what runs now. Elsewhere nothing.
  static void note(const void* who, int place, Way way, const std::shared_ptr<Specialisation>& program = nullptr);
  /// A checkpoint is run again, and its innermost hooks are on this thread.
  static bool repeats();
  /// Then: what ran there the first time, behind what has run again. Nothing: it has not come there, so nothing
  /// was saved there, and what does not run natively now would save something else than eager.
  static std::optional<Choice> next(const void* who, int place);
  /// Whether one program saves as many tensors as another, with the same meaning.
  static bool saves_the_same(const Specialisation& one, const Specialisation& other);
  /// \param explanation  why the program of the first run does not hold.
  [[noreturn]] static void raise_changed(const std::string& explanation);
};

/// While it lives, vmap is away, under which a backward may run what a checkpoint runs again: of plain tensors.
class NoVmap {
 public:
  NoVmap();

 private:
  std::optional<c10::impl::ForceDispatchKeyGuard> without_;
};

}  // namespace braze::python
