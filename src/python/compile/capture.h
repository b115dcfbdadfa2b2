// python/compile/capture.h: runs Python under the watcher, and makes a specialisation of it.
//
// A capture changes nothing that existed before it: afterwards all that it did is dropped, the frame is put back as
// it was, and the new specialisation is replayed like any other. So giving up is always safe.
#pragma once

#include <memory>

#include "python/compile/code_table.h"
#include "python/compile/settings.h"
#include "python/compile/specialisation.h"

namespace braze::python {

/// The vectorcall arguments of a call as they came.
struct Arguments {
  PyObject* const* values;
  size_t flags;
  PyObject* names;

  guards::Call call() const { return {values, static_cast<size_t>(PyVectorcall_NARGS(flags)), names}; }
};

/// What came of a capture.
struct Captured {
  enum class Kind : uint8_t {
    whole,      ///< `made` goes to the end of the call or frame.
    broken,     ///< `made` goes to an instruction that is not understood; calls: nothing is made.
    idle,       ///< There is such an instruction, and no operator before it.
    gradients,  ///< Eager's results would require grad.
    refused,    ///< Something else; another time it may come out better.
  } kind;
  std::unique_ptr<Specialisation> made = {};
  Place place = {};                   ///< All but `whole`: why it is not.
  std::vector<int> breakpoints = {};  ///< Frames: such instructions that were met, by their offset in code units.
};

/// A call of `function`, from its arguments to its result.
Captured capture_call(const py::object& function, const Arguments& arguments, const Settings& settings);

/// The rest of a frame's run. The frame is as before afterwards. \param code  of the frame.
Captured capture_frame(interpreter::FrameRun& run, CodeState& code, const Settings& settings);

/// What the guards of a frame's stretch read: the function, then the frame's slots. Owned by the frame.
std::vector<PyObject*> frame_values(interpreter::FrameRun& run);

}  // namespace braze::python
