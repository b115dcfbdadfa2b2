// python/compile/code_table.h: what is known of each code object that runs under a compiled function.
//
// A frame's run is a chain of segments. Each begins at the start of the code, or just after a *breakpoint*: an
// instruction that no capture understands, which runs natively.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "python/compile/refusals.h"
#include "python/compile/size_history.h"
#include "python/compile/specialisation_cache.h"
#include "python/interpreter/liveness.h"

namespace braze::python {

/// So many programs that have lost their tensors or modules say that the next one should not be bound to any.
inline constexpr size_t few_dropped = 2;

/// A place in a code object where a segment may begin.
struct Start {
  SpecialisationCache specialisations;
  SizeHistory sizes;                ///< What captures have found.
  Refusals refused;                 ///< Captures that came to nothing.
  Place why;                        ///< The last of them did.
  bool is_given_new_class = false;  ///< Uppermost lies what a call before it has made: another one each time.
  bool is_resumed = false;          ///< It lies behind a break.
  bool is_shared = false;           ///< The layers of a model run it: its programs are bound to none of them.
  bool is_idle = false;             ///< Nothing is computed from here to the next breakpoint: not worth a replay.
  uint32_t idle_visits = 0;  ///< Since then. Other arguments may go another way: tried anew when they have doubled.
};

/// Which variables a code object reads, and how.
struct Variables {
  explicit Variables(PyCodeObject* code);

  interpreter::Liveness liveness;
  /// By slot: more than one instruction assigns it, such as what a loop carries on from one iteration to the next.
  std::vector<bool> are_reassigned;
  /// By slot: a loop gives it the item of an iteration, or adds to what it holds.
  std::vector<bool> are_counters;
  bool are_read_by_name;  ///< By other means than instructions: locals(), eval() and their like.
};

/// Its instructions name something that shows variables of frames: locals(), eval(), sys._getframe().
bool reads_variables_by_name(PyCodeObject* code);

/// A call in it, or in a function made in it, has a keyword argument of that name, by which autograd is told that
/// gradients will be differentiated again.
bool names_create_graph(PyCodeObject* code);

struct CodeState {
  explicit CodeState(PyCodeObject* code);
  /// There is, or was, a program for this place that does not hold, perhaps since it is for the tensors of another
  /// object; or there will be, as several modules share the code.
  bool has_other_tensors(int offset) const {
    const auto found = starts.find(offset);
    if (found == starts.end()) return false;
    const Start& start = found->second;
    return start.is_shared || !start.specialisations.empty() || start.specialisations.dropped() > 0;
  }
  /// Programs for this place lose the tensors that they are bound to, again and again.
  bool loses_tensors(int offset) const {
    const auto found = starts.find(offset);
    return found != starts.end() && found->second.specialisations.dropped() >= few_dropped;
  }
  /// Worked out when it is first asked for: every segment that ends inside of the code does.
  const Variables& variables();

  guards::Ref code;
  /// Its frames go to CPython: torch's own Python and the standard library's.
  bool is_library = false;
  /// It names create_graph. Where gradients are wanted, what comes before the last break in its frames runs
  /// natively with all that it calls.
  bool differentiates_twice = false;
  interpreter::Offsets breakpoints;
  interpreter::Offsets ask_for_many;      ///< Instructions before which graphs end (asked_values.h); empty: none.
  std::unordered_map<int, Start> starts;  ///< By offset in code units.
  Refusals runs_without_gain;             ///< Runs in which nothing was replayed, by what they were given.
  int fruitless = 0;                      ///< Captures that came to nothing.

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
  void clear() {
    states_.clear();
    told_breaks_.clear();
  }
  /// In the log of graph breaks; each once.
  void tell_break(const Place& place);
  int visit(visitproc visit, void* argument) const;

 private:
  std::unordered_map<PyCodeObject*, std::shared_ptr<CodeState>> states_;
  std::unordered_set<std::string> told_breaks_;
};

}  // namespace braze::python
