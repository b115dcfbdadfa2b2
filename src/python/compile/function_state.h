// python/compile/function_state.h: one compiled function: its programs, and how its calls run.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python/compile/capture.h"
#include "python/compile/frame_driver.h"
#include "python/compile/stance.h"

namespace braze::python {

/// "f (model.py:12)", as far as it has a name and a place.
std::string describe_function(const py::object& function);

class FunctionState {
  struct ByAddress {
    bool operator()(const guards::Ref& a, const guards::Ref& b) const { return std::less<>()(a.get(), b.get()); }
  };

 public:
  FunctionState(py::object function, Settings settings)
      : function_(std::move(function)), settings_(std::move(settings)) {}

  /// What `function(*arguments)` gives, by whatever way is fastest.
  py::object call(const Arguments& arguments);
  /// Forgets all programs.
  void reset();

  const py::object& function() const { return function_; }
  /// Calls by how they ran: "captured", "replayed", "native". One that wants gradients is native where most of its
  /// operators are.
  py::dict counts() const;
  /// Why calls ran natively, with how many did.
  std::map<std::string, int64_t> reasons() const;
  /// Operators of all calls: "compiled", "native", and "reasons": why the native ones are, with how many each.
  py::dict operators() const;
  /// All specialisations: of whole calls first, then of segments of frames.
  std::vector<std::shared_ptr<const Specialisation>> specialisations() const;
  /// {"segments": [...], "counts": {...}}, as braze/_explain.py reads it.
  py::dict report() const;
  int visit(visitproc visit, void* argument) const;

 private:
  /// The same function, compiled by another backend.
  FunctionState& with_backend(PyObject* backend);
  py::object repeat(const Arguments& arguments, Stance stance);
  Specialisation::Replay replay(const Arguments& arguments, py::object* result);
  Specialisation::Replay replay(Specialisation& one, PyObject* const* values, py::object* result);
  Captured capture_now(const Arguments& arguments);
  py::object capture(const Arguments& arguments);
  bool is_one_of_many(const Arguments& arguments) const;
  void go_on_in_parts(const Arguments& arguments);
  py::object drive(const Arguments& arguments, Stance stance);
  /// `count()` comes at its end, also where it raises.
  template <typename Count>
  py::object call_natively_and(const Count& count, const Arguments& arguments);
  /// \param op_count  how many operators that has, if it is known; else they are counted.
  py::object run_natively(const Arguments& arguments, const std::string& reason,
                          std::optional<int64_t> op_count = std::nullopt);
  /// Which guard of the program used last refuses the call, in words.
  std::string explain_miss(const Arguments& arguments) const;
  void warn_of_limit();
  void warn_of_gradients();
  void add_native(const std::string& reason, int64_t operators);

  /// Calls that want gradients, as their guards say.
  struct Wanting {
    guards::GuardProgram guards;
    int64_t op_count;
  };

  py::object function_;
  Settings settings_;
  SpecialisationCache calls_;        ///< Of whole calls.
  SizeHistory sizes_;                ///< What captures of those have found.
  std::optional<WholeCalls> whole_;  ///< Now they are not captured whole any more.
  CodeTable codes_;
  std::map<guards::Ref, std::unique_ptr<FunctionState>, ByAddress> variants_;  ///< By backend that was forced.
  std::vector<Wanting> wanting_;
  std::map<std::string, int64_t> reasons_, native_reasons_;  ///< Of calls and of operators.
  int64_t compiled_operators_ = 0, native_operators_ = 0;
  Place first_break_;
  int64_t captured_ = 0, replayed_ = 0, native_ = 0;
  Refusals failed_captures_;
  int put_off_ = 0;          ///< Captures that waited for a native run.
  bool has_breaks_ = false;  ///< Calls are not captured whole: frames are chains of segments.
  bool is_variant_ = false, is_capturing_ = false, was_called_ = false, has_warned_ = false,
       has_warned_of_gradients_ = false;
};

}  // namespace braze::python
