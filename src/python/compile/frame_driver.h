// python/compile/frame_driver.h: runs the frames of a compiled function that has graph breaks.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>

#include "python/compile/code_table.h"
#include "python/compile/operators.h"
#include "python/compile/settings.h"
#include "python/compile/sibling_modules.h"
#include "python/interpreter/frame_run.h"

namespace braze::python {

/// How the segments of one call ran.
struct CallCounts {
  int64_t captured = 0, replayed = 0;        ///< Segments.
  int64_t compiled = 0, native = 0;          ///< Operators.
  std::map<std::string, int64_t> reasons{};  ///< Why the native ones are, with how many each.
  bool wants_gradients = false;              ///< That is why some were not captured.
  std::optional<Place> end{};                ///< The first where a graph ended and did not go on.
};

/// What is known of calls that were captured whole until their programs served one call each.
struct WholeCalls {
  SizeHistory sizes;           ///< What captures have found.
  std::set<std::string> many;  ///< The values that were others.
};

/// Of one call. Frames of functions that are given tensors or modules are run as chains of segments: where a
/// specialisation holds it is replayed, where none does one is captured, and what is between them runs natively,
/// the functions that it calls likewise. All other frames go to CPython.
class FrameDriver final : public interpreter::FrameDriver {
 public:
  /// \param capture  whether new segments may be captured.
  /// \param whole    null: calls were never captured whole.
  FrameDriver(CodeTable& table, const Settings& settings, bool capture, const WholeCalls* whole = nullptr);

  PyObject* drive(PyThreadState* thread, interpreter::Frame* frame) override;
  const CallCounts& counts() const { return counts_; }

 private:
  enum class Advance : uint8_t { no, moved, returned };
  /// Why an instruction runs natively.
  struct Why {
    Why() = default;
    Why(const Place& place) : id(place.id), text(place.text()) {}  // NOLINT: a place says why

    interpreter::Break id = interpreter::Break::other;
    std::string text;
  };
  /// The frame stands behind an instruction that `why` is about: perhaps the read of a value.
  void note_read(CodeState& code, interpreter::FrameRun& run, interpreter::Break why);
  /// What it gave, uppermost, is made of one of many.
  void note_many(interpreter::FrameRun& run, interpreter::Break why);
  bool is_of_many(const guards::Source* source, interpreter::FrameRun& run) const;
  /// It was given what lies uppermost, whose sizes tensors' elements have decided.
  void note_sizes(interpreter::FrameRun& run, interpreter::Break why);
  /// The variables that hold such values vary, and what a loop with a break carries on.
  void expect_numbers(CodeState& code, Start& start, interpreter::FrameRun& run) const;
  /// A graph ends here in this call, and perhaps goes on.
  void note_end(const Place& place);
  /// Operators that the frame calls, natively, between two segments.
  class NativePiece;
  bool is_worth_a_run(CodeState& code, uint64_t look);
  struct Chosen {
    std::shared_ptr<Specialisation> one = {};  ///< Null: what follows runs natively.
    bool is_new = false;
  };
  /// What is to run where the frame stands. `values` become those of its guards.
  Chosen choose(CodeState& code, interpreter::FrameRun& run, std::vector<PyObject*>& values);
  Chosen repeat(CodeState& code, interpreter::FrameRun& run, std::vector<PyObject*>& values);
  bool holds(Specialisation& one, interpreter::FrameRun& run, std::vector<PyObject*>& values) const;
  /// Replays the segment that begins where the frame stands, if there is one or can be one.
  /// \param why  what follows runs natively.
  Advance advance(CodeState& code, interpreter::FrameRun& run, guards::Ref& result, Why& why);
  void note_class(CodeState& code, interpreter::FrameRun& run);
  std::shared_ptr<Specialisation> find(Start& start, interpreter::FrameRun& run, std::vector<PyObject*>& values);
  std::string explain_miss(const Start& start, interpreter::FrameRun& run) const;
  /// What programs from here ask for that served one call each ends graphs from now on.
  void note_asked_values(CodeState& code, const Start& start, interpreter::FrameRun& run) const;
  std::shared_ptr<Specialisation> capture(CodeState& code, int offset, interpreter::FrameRun& run);
  void move(interpreter::FrameRun& run, const Outcome& outcome, std::vector<guards::Ref>& results);

  CodeTable& table_;
  const Settings& settings_;
  const bool may_capture_;
  const WholeCalls* whole_;
  const size_t hooks_outside_;  ///< On saved tensors, set by the caller.
  const bool modes_outside_;    ///< A mode that is given every operator was there before the call.
  const uint64_t number_;       ///< Of the call.
  bool is_capturing_ = false;
  std::optional<SiblingModules> siblings_;  ///< Since the outermost frame has begun.
  /// In this call, of tensors' elements, after which a graph goes on; and at breaks.
  std::vector<guards::Ref> numbers_read_, floats_read_;
  std::vector<int64_t> sizes_read_;  ///< In this call: sizes that tensors' elements decided.
  size_t shape_reads_ = 0;           ///< How often they did.
  /// Addresses of what this call has made of what is another value at each call. Objects there may have died, and
  /// others be there: then graphs end that need not.
  std::unordered_set<const PyObject*> made_of_many_;
  PyObject* whole_code_ = nullptr;         ///< Of the frame that whole calls begin with.
  std::vector<guards::Ref> classes_made_;  ///< By this call, natively: weak references.
  NativeOperators operators_;
  CallCounts counts_;
};

}  // namespace braze::python
