// python/compile/capture.h: runs Python under the watcher, and makes a specialisation of it.
//
// A capture changes nothing that existed before it: afterwards all that it did is dropped, the frame is put back as
// it was, and the new specialisation is replayed like any other. So giving up is always safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "python/compile/code_table.h"
#include "python/compile/settings.h"
#include "python/compile/specialisation.h"

namespace braze::python {

/// The vectorcall arguments of a call as they came.
struct Arguments {
  PyObject* const* values;
  size_t flags;
  PyObject* names;

  std::span<PyObject* const> all() const {
    const auto named = static_cast<size_t>(names ? PyTuple_GET_SIZE(names) : 0);
    return {values, static_cast<size_t>(PyVectorcall_NARGS(flags)) + named};
  }
  guards::Call call() const { return {values, static_cast<size_t>(PyVectorcall_NARGS(flags)), names}; }
};

/// Why nothing is captured where eager's results would require grad.
inline constexpr std::string_view gradients_text = interpreter::row_of(interpreter::Break::gradients).text;

/// What came of a capture.
struct Captured {
  enum class Kind : uint8_t {
    whole,      ///< `made` goes to the end of the call or frame.
    broken,     ///< `made` goes to an instruction that is not understood; calls: nothing is made.
    idle,       ///< There is such an instruction, and no operator before it.
    gradients,  ///< Eager's results would require grad.
    later,      ///< It depends on what a native run does once.
    refused,    ///< Something else; another time it may come out better.
    failed,     ///< Nothing is wrong with the code: no memory, say. What was captured before stays as it is.
  } kind;
  std::unique_ptr<Specialisation> made = {};
  /// `made` would never be replayed, or is nothing; another capture, which is due, knows better.
  bool is_outdated = false;
  Place place = {};  ///< All but `whole`: why it is not.
  /// Whole calls that want gradients: what says of later calls that they do, and how many operators they have.
  std::optional<guards::GuardProgram> wanting = {};
  size_t op_count = 0;
  std::vector<int> breakpoints = {};  ///< Frames: such instructions that were met, by their offset in code units.
};

/// A call of `function`, from its arguments to its result.
/// \param is_first  no other call of it was captured.  \param dropped  so many programs of it have lost tensors.
Captured capture_call(const py::object& function, const Arguments& arguments, const Settings& settings,
                      bool is_first, size_t dropped, SizeHistory& history);

/// The rest of a frame's run. The frame is as before afterwards. \param code  of the frame.
/// \param classes_made  weak references to the classes that the call has made natively so far.
/// \param is_many       what is read there is known to be another value at each call.
Captured capture_frame(interpreter::FrameRun& run, CodeState& code, const Settings& settings,
                       const std::vector<guards::Ref>& classes_made,
                       const std::function<bool(const guards::Source*)>& is_many);

/// What the guards of a frame's segment read: the function, then the frame's slots. Owned by the frame.
std::vector<PyObject*> frame_values(interpreter::FrameRun& run);

}  // namespace braze::python
