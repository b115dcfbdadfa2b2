// python/interpreter/watch/looks.h: what each instruction reads and changes.
//
// The tables of opcodes name one of these functions for each. It answers as Watcher::before() does, with the
// operands still on the stack. Functions that end in allow_made_result() say that the instruction makes what it
// leaves on top.
#pragma once

#include "python/interpreter/activation.h"
#include "python/interpreter/watch/watcher.h"

namespace braze::interpreter {

/// A generator of this code that is closed where it stands runs code of the user's.
bool has_handlers(PyCodeObject* code);

struct Watcher::Looks {
  using Look = bool (*)(Watcher&, Activation&, int);

  static bool unknown(Watcher&, Activation&, int);
  static bool splits_group(Watcher&, Activation&, int);
  // ---- the stack, locals and constants
  static bool nothing(Watcher&, Activation&, int);
  static bool makes(Watcher&, Activation&, int);
  // ---- operators
  static bool operand(Watcher&, Activation&, int);
  static bool truth(Watcher&, Activation&, int);
  static bool binary(Watcher&, Activation&, int);
  static bool deletes_item(Watcher&, Activation&, int);
  static bool compares(Watcher&, Activation&, int);
  static bool identity(Watcher&, Activation&, int);
  static bool contains(Watcher&, Activation&, int);
  static bool subscript(Watcher&, Activation&, int);
  static bool stores_item(Watcher&, Activation&, int);
  static bool formats(Watcher&, Activation&, int);
  // ---- variables and attributes
  static bool global_variable(Watcher&, Activation&, int);
  static bool cell(Watcher&, Activation&, int);
  static bool stores_cell(Watcher&, Activation&, int);
  static bool deletes_cell(Watcher&, Activation&, int);
  static bool stores_global(Watcher&, Activation&, int);
  static bool free_variables(Watcher&, Activation&, int);
  static bool attribute(Watcher&, Activation&, int);
  static bool stores_attribute(Watcher&, Activation&, int);
  static bool deletes_attribute(Watcher&, Activation&, int);
  static bool module(Watcher&, Activation&, int);
  // ---- containers
  static bool set_display(Watcher&, Activation&, int);
  static bool map_display(Watcher&, Activation&, int);
  static bool grows(Watcher&, PyObject*);
  static bool adds_to_list(Watcher&, Activation&, int);
  static bool adds_to_set(Watcher&, Activation&, int);
  static bool adds_to_map(Watcher&, Activation&, int);
  static bool extends(Watcher&, Activation&, int);
  // ---- calls
  static bool takes_method_apart(Watcher&, Activation&, int);
  static bool call(Watcher&, Activation&, int);
  static bool call_unpacked(Watcher&, Activation&, int);
  // ---- iteration and generators
  static bool iterates(Watcher&, Activation&, int);
  static bool iterates_or_generator(Watcher&, Activation&, int);
  static bool next_item(Watcher&, Activation&, int);
  static bool sends(Watcher&, Activation&, int);
  // ---- exceptions and with
  static bool exception_class(Watcher&, Activation&, int);
  static bool enters_with(Watcher&, Activation&, int);
  static bool raises(Watcher&, Activation&, int);
  static bool reraises(Watcher&, Activation&, int);
  static bool exits_with(Watcher&, Activation&, int);
  static bool known_code(Watcher&, Activation&, int);
  // ---- match
  static bool known_object(Watcher&, Activation&, int);
  static bool length(Watcher&, Activation&, int);
  static bool match_keys(Watcher&, Activation&, int);
  static bool match_class(Watcher&, Activation&, int);
  // ---- 3.12 (looks_312.cpp)
  static bool compares_shifted(Watcher&, Activation&, int);
  static bool attribute_or_method(Watcher&, Activation&, int);
  static bool super_attribute(Watcher&, Activation&, int);
  static bool slice(Watcher&, Activation&, int);
  static bool stores_slice(Watcher&, Activation&, int);
  static bool returns_constant(Watcher&, Activation&, int);
  static bool intrinsic_1(Watcher&, Activation&, int);
};

}  // namespace braze::interpreter
