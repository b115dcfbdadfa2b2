// python/compile/code_table.cpp
#include "python/compile/code_table.h"

#include <opcode.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "python/compile/events.h"
#include "python/imported.h"
#include "python/interpreter/flow.h"
#include "python/interpreter/instructions.h"

namespace braze::python {

namespace {

namespace py = pybind11;

struct LibraryPaths {
  std::string standard_library, packages, torch, arrays;
  LibraryPaths() {
    const py::module_ os = imported("os");
    const py::object path = os.attr("path");
    standard_library = path.attr("dirname")(os.attr("__file__")).cast<std::string>() + "/";
    const py::object torch_directory = path.attr("dirname")(imported("torch").attr("__file__"));
    torch = torch_directory.cast<std::string>() + "/";
    // braze's own code in the place of NumPy's.
    arrays = path.attr("dirname")(imported("braze").attr("__file__")).cast<std::string>() + "/_array";
    packages = path.attr("dirname")(torch_directory).cast<std::string>() + "/";
  }
};

const LibraryPaths& library_paths() {
  static const LibraryPaths paths;  // Of modules that stay loaded.
  return paths;
}

}  // namespace

bool reads_variables_by_name(PyCodeObject* code) {
  constexpr std::string_view kReaders[] = {"locals",   "vars",     "dir",       "eval",
                                           "exec",     "globals",  "_getframe", "breakpoint",
                                           "f_locals", "tb_frame", "f_back",    "currentframe"};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->co_names, i));
    if (!name)
      PyErr_Clear();
    else if (std::find(std::begin(kReaders), std::end(kReaders), name) != std::end(kReaders))
      return true;
  }
  return false;
}

namespace {

/// Which of a call's keywords, from the last one, is `create_graph`. Nothing: none is.
std::optional<Py_ssize_t> place_of_create_graph(PyObject* names) {
  if (!PyTuple_CheckExact(names)) return std::nullopt;
  const Py_ssize_t count = PyTuple_GET_SIZE(names);
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* name = PyTuple_GET_ITEM(names, k);
    if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "create_graph") == 0) return count - 1 - k;
  }
  return std::nullopt;
}

bool loads_constant(const interpreter::Instruction& one, PyCodeObject* code, PyObject* value) {
  return one.opcode == LOAD_CONST && PyTuple_GET_ITEM(code->co_consts, one.arg) == value;
}

/// Behind the instructions that have put a call's arguments on the stack: `create_graph` is not False, or how it
/// came there is not seen.
bool may_create_graph(PyCodeObject* code, std::span<const interpreter::Instruction> before, Py_ssize_t behind) {
  for (auto one = before.rbegin(); one != before.rend(); ++one, --behind) {
    if (behind == 0) return !loads_constant(*one, code, Py_False);
    if (one->opcode != LOAD_CONST && one->opcode != LOAD_FAST) return true;
  }
  return true;
}

}  // namespace

bool names_create_graph(PyCodeObject* code) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i) {
    PyObject* constant = PyTuple_GET_ITEM(code->co_consts, i);
    if (PyCode_Check(constant) && names_create_graph(reinterpret_cast<PyCodeObject*>(constant))) return true;
  }
  const std::vector<interpreter::Instruction> all = interpreter::instructions_of(code);
  for (size_t k = 0; k < all.size(); ++k) {
    const bool has_names =
        all[k].opcode == KW_NAMES || all[k].opcode == LOAD_CONST;  // The latter for a dict of them.
    if (!has_names) continue;
    const auto behind = place_of_create_graph(PyTuple_GET_ITEM(code->co_consts, all[k].arg));
    if (behind && (all[k].opcode == LOAD_CONST || may_create_graph(code, std::span(all).first(k), *behind)))
      return true;
  }
  return false;
}

namespace {

/// An instruction of a loop computes the new value of the variable, that `stores` assigns, from the old one.
bool adds_to_variable(const std::vector<interpreter::Instruction>& code, size_t stores) {
  if (stores == 0 || code[stores - 1].opcode != BINARY_OP) return false;
  if (code[stores - 1].arg >= NB_INPLACE_ADD) return true;
  const interpreter::Instruction* left = stores >= 3 ? &code[stores - 3] : nullptr;
  return left && interpreter::local_use(left->opcode) == interpreter::LocalUse::copies &&
         left->arg == code[stores].arg;
}

std::vector<bool> counters_of(PyCodeObject* code, size_t slots) {
  using interpreter::Flow;
  const std::vector<interpreter::Instruction> all = interpreter::instructions_of(code);
  std::vector<bool> is_in_loop(static_cast<size_t>(Py_SIZE(code)) + 1), are_counters(slots);
  for (const interpreter::Instruction& one : all) {
    const Flow flow = interpreter::flow_of(one.opcode);
    if (flow == Flow::backward || flow == Flow::maybe_backward)
      std::fill(is_in_loop.begin() + one.next - one.arg, is_in_loop.begin() + one.next, true);
  }
  int items = 0;  // That the loop has given and are still to be assigned.
  for (size_t k = 0; k < all.size(); ++k) {
    const interpreter::Instruction& one = all[k];
    const bool stores = interpreter::local_use(one.opcode) == interpreter::LocalUse::stores;
    if (stores && (items > 0 || (is_in_loop[static_cast<size_t>(one.start)] && adds_to_variable(all, k))))
      are_counters[static_cast<size_t>(one.arg)] = true;
    if (one.opcode == FOR_ITER)
      items = 1;
    else if (one.opcode == UNPACK_SEQUENCE && items > 0)
      items += one.arg - 1;
    else
      items = stores && items > 0 ? items - 1 : 0;
  }
  return are_counters;
}

}  // namespace

Variables::Variables(PyCodeObject* code)
    : liveness(code),
      are_reassigned(static_cast<size_t>(code->co_nlocalsplus)),
      are_counters(counters_of(code, are_reassigned.size())),
      are_read_by_name(reads_variables_by_name(code)) {
  std::vector<bool> are_assigned(are_reassigned.size());
  for (int offset = 0; offset < Py_SIZE(code);) {
    const interpreter::Instruction one = interpreter::instruction_at(code, offset);
    if (interpreter::local_use(one.opcode) == interpreter::LocalUse::stores) {
      const auto slot = static_cast<size_t>(one.arg);
      are_reassigned[slot] = are_assigned[slot];
      are_assigned[slot] = true;
    }
    offset = one.next;
  }
}

const Variables& CodeState::variables() {
  if (!variables_) variables_.emplace(reinterpret_cast<PyCodeObject*>(code.get()));
  return *variables_;
}

void load_library_paths() {
  library_paths();
}

CodeState::CodeState(PyCodeObject* code)
    : code(guards::Ref::borrow(reinterpret_cast<PyObject*>(code))),
      is_library(is_library_code(code)),
      differentiates_twice(names_create_graph(code)) {
  breakpoints.resize(static_cast<size_t>(Py_SIZE(code)) + 1);
}

bool is_library_code(PyCodeObject* code) {
  const LibraryPaths& paths = library_paths();
  const char* text = PyUnicode_AsUTF8(code->co_filename);
  const std::string_view file = text ? text : "<";
  if (file.starts_with("<frozen") || file.starts_with(paths.arrays)) return true;
  if (file.starts_with(paths.torch)) {
    const std::string_view inside = file.substr(paths.torch.size());
    const bool is_layer = inside.starts_with("nn/modules/") && inside != "nn/modules/module.py";
    return !is_layer && inside != "nn/functional.py";
  }
  return file.starts_with(paths.standard_library) && !file.starts_with(paths.packages) &&
         file.find("/site-packages/") == std::string_view::npos;
}

std::shared_ptr<CodeState> CodeTable::state(PyCodeObject* code) {
  std::shared_ptr<CodeState>& state = states_[code];
  if (!state) state = std::make_shared<CodeState>(code);
  return state;
}

void CodeTable::tell_break(const Place& place) {
  if (is_enabled(Event::graph_breaks) && told_breaks_.insert(place.text()).second)
    emit(Event::graph_breaks, place.text());
}

int CodeTable::visit(visitproc visit, void* arg) const {
  for (const auto& entry : states_) {
    Py_VISIT(entry.second->code.get());
    for (const auto& start : entry.second->starts)
      for (const auto& one : start.second.specialisations)
        if (const int stop = one->visit(visit, arg)) return stop;
  }
  return 0;
}

}  // namespace braze::python
