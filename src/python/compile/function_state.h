// python/compile/function_state.h: one compiled function: its programs, and how its calls run.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python/compile/capture.h"
#include "python/compile/frame_driver.h"
#include "python/compile/stance.h"

namespace braze::python {

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
  /// Calls by how they ran: "captured", "replayed", "native".
  py::dict counts() const;
  /// Why calls ran natively, with how many did.
  std::map<std::string, int64_t> reasons() const;
  /// All specialisations: of whole calls first, then of stretches of frames.
  std::vector<std::shared_ptr<const Specialisation>> specialisations() const;
  /// {"segments": [...], "counts": {...}}, as braze/_explain.py reads it.
  py::dict report() const;
  int visit(visitproc visit, void* argument) const;

 private:
  /// The same function, compiled by another backend.
  FunctionState& with_backend(PyObject* backend);
  std::optional<py::object> replay(const Arguments& arguments);
  py::object capture(const Arguments& arguments);
  py::object drive(const Arguments& arguments, Stance stance);
  py::object run_natively(const Arguments& arguments, const std::string& reason);
  /// Which guard of the program used last refuses the call, in words.
  std::string explain_miss(const Arguments& arguments) const;
  void report_miss(const Arguments& arguments) const;
  void warn_of_limit();

  py::object function_;
  Settings settings_;
  std::vector<std::shared_ptr<Specialisation>> calls_;  ///< The one used last comes first.
  CodeTable codes_;
  std::map<guards::Ref, std::unique_ptr<FunctionState>, ByAddress> variants_;  ///< By backend that was forced.
  std::map<std::string, int64_t> reasons_;
  Place first_break_;
  int64_t captured_ = 0, replayed_ = 0, native_ = 0;
  std::array<int, 2> failed_captures_{};  ///< In a row, by grad mode.
  bool has_breaks_ = false;               ///< Calls are not captured whole: frames are chains of stretches.
  bool is_variant_ = false, is_capturing_ = false, was_called_ = false, has_warned_ = false;
};

}  // namespace braze::python
