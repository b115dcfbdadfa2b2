// python/compile/code_table.h: what is known of each code object that runs under a compiled function.
//
// A frame's run is a chain of stretches. Each begins at the start of the code, or just after a *breakpoint*: an
// instruction that no capture understands, which runs natively.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "python/compile/specialisation.h"
#include "python/interpreter/liveness.h"

namespace braze::python {

/// A place in a code object where a stretch may begin.
struct Start {
  std::vector<std::shared_ptr<Specialisation>> specialisations;  ///< The one used last comes first.
  std::array<int, 2> refused{};  ///< Captures in a row that came to nothing, by grad mode.
  bool is_idle = false;          ///< Nothing is computed from here to the next breakpoint: not worth a replay.
};

/// Which variables a code object reads, and how.
struct Variables {
  explicit Variables(PyCodeObject* code);

  interpreter::Liveness liveness;
  bool are_read_by_name;  ///< By other means than instructions: locals(), eval() and their like.
};

struct CodeState {
  explicit CodeState(PyCodeObject* code);
  /// Worked out when it is first asked for: every stretch that ends inside of the code does.
  const Variables& variables();

  guards::Ref code;
  /// Its frames go to CPython: torch's own Python and the standard library's, or nothing was ever gained.
  bool is_skipped = false;
  interpreter::Offsets breakpoints;
  std::unordered_map<int, Start> starts;  ///< By offset in code units.
  int runs_without_gain = 0;
  int fruitless = 0;  ///< Captures that came to nothing.

 private:
  std::optional<Variables> variables_;
};

/// Code of Python's standard library, of torch but for torch.nn's layers and functions, or without a file.
bool is_library_code(PyCodeObject* code);
/// Once, before it is first asked: runs Python code.
void load_library_paths();

class CodeTable {
 public:
  /// Made when it is first asked for. Who runs a frame keeps it, so that the table may be cleared meanwhile.
  std::shared_ptr<CodeState> state(PyCodeObject* code);
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& entry : states_) visit(*entry.second);
  }
  void clear() { states_.clear(); }
  int visit(visitproc visit, void* argument) const;

 private:
  std::unordered_map<PyCodeObject*, std::shared_ptr<CodeState>> states_;
};

}  // namespace braze::python
