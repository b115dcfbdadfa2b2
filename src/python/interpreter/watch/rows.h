// python/interpreter/watch/rows.h: what the watcher knows of functions and classes written in C, by name.
//
// One row a builtin: its module and name, and what it does with what it is given. What has no row ends the graph.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string_view>

namespace braze::interpreter {

/// What C code does that is called with arguments which are guarded all through.
enum class Does : uint8_t {
  unknown,      ///< Nobody has said.
  computes,     ///< Reads nothing but its arguments, and changes nothing.
  writes_text,  ///< Likewise, but text, hashes or the order of a set show what the arguments are beside their
                ///< value.
  changes,      ///< Changes what it is given.
};

/// A function of a module.
Does what_function_does(std::string_view module, std::string_view name);
/// A method, or a slot called by name, of the builtin container whose storage is `type`.
Does what_container_method_does(PyTypeObject* type, std::string_view name);
/// Making an instance of a builtin class.
Does what_class_does(std::string_view name);

/// How an operator of module `operator` is understood: as the instruction that does the same.
struct OperatorRow {
  enum class As : uint8_t {
    binary,
    comparison,
    unary,
    contains,
    subscript,
    store,
    remove,
    identity,
    truth,
    call
  } as;
  int operation = 0;             ///< binary: NB_ADD and so on; comparison: Py_LT and so on.
  const char* method = nullptr;  ///< unary: the special method.
};
/// Null if it is none that an instruction does.
const OperatorRow* operator_row(std::string_view name);

}  // namespace braze::interpreter
