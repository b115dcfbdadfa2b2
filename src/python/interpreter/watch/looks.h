// python/interpreter/watch/looks.h: what each instruction reads and changes.
//
// The tables of opcodes name one of these functions for each. It answers as Watcher::before() does, with the
// operands still on the stack. Functions that end in allow_made_result() say that the instruction makes what it
// leaves on top.
#pragma once

#include "python/interpreter/activation.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace looks {

/// What the opcode says of itself.
bool look(Watch&, Activation&, int opcode, int arg);

bool unknown(Watch&, Activation&, int);
bool splits_group(Watch&, Activation&, int);
// ---- the stack, locals and constants
bool nothing(Watch&, Activation&, int);
bool assertion_error(Watch&, Activation&, int);
bool makes(Watch&, Activation&, int);
bool tuple_of_list(Watch&, Activation&, int);
bool makes_function(Watch&, Activation&, int);
// ---- operators
bool operand(Watch&, Activation&, int);
bool truth(Watch&, Activation&, int);
bool binary(Watch&, Activation&, int);
bool deletes_item(Watch&, Activation&, int);
bool compares(Watch&, Activation&, int);
bool identity(Watch&, Activation&, int);
bool contains(Watch&, Activation&, int);
bool subscript(Watch&, Activation&, int);
bool stores_item(Watch&, Activation&, int);
bool formats(Watch&, Activation&, int);
// ---- variables and attributes
bool global_variable(Watch&, Activation&, int);
bool class_builder(Watch&, Activation&, int);
bool cell(Watch&, Activation&, int);
bool stores_cell(Watch&, Activation&, int);
bool deletes_cell(Watch&, Activation&, int);
bool stores_global(Watch&, Activation&, int);
bool free_variables(Watch&, Activation&, int);
bool attribute(Watch&, Activation&, int);
bool stores_attribute(Watch&, Activation&, int);
bool deletes_attribute(Watch&, Activation&, int);
bool module(Watch&, Activation&, int);
// ---- containers
bool set_display(Watch&, Activation&, int);
bool map_display(Watch&, Activation&, int);
bool grows(Watch&, PyObject*);
bool adds_to_list(Watch&, Activation&, int);
bool adds_to_set(Watch&, Activation&, int);
bool adds_to_map(Watch&, Activation&, int);
bool extends(Watch&, Activation&, int);
bool merges(Watch&, Activation&, int);
// ---- calls
bool takes_method_apart(Watch&, Activation&, int);
bool call(Watch&, Activation&, int);
bool call_unpacked(Watch&, Activation&, int);
// ---- iteration and generators
bool iterates(Watch&, Activation&, int);
bool iterates_or_generator(Watch&, Activation&, int);
bool next_item(Watch&, Activation&, int);
bool sends(Watch&, Activation&, int);
// ---- exceptions and with
bool handles(Watch&, Activation&, int);
bool exception_class(Watch&, Activation&, int);
bool enters_with(Watch&, Activation&, int);
bool raises(Watch&, Activation&, int);
bool reraises(Watch&, Activation&, int);
bool exits_with(Watch&, Activation&, int);
bool known_code(Watch&, Activation&, int);
// ---- match
bool known_object(Watch&, Activation&, int);
bool length(Watch&, Activation&, int);
bool match_keys(Watch&, Activation&, int);
bool match_class(Watch&, Activation&, int);
// ---- 3.12 (looks_312.cpp)
bool compares_shifted(Watch&, Activation&, int);
bool attribute_or_method(Watch&, Activation&, int);
bool super_attribute(Watch&, Activation&, int);
bool slice(Watch&, Activation&, int);
bool stores_slice(Watch&, Activation&, int);
bool returns_constant(Watch&, Activation&, int);
bool intrinsic_1(Watch&, Activation&, int);

}  // namespace looks

}  // namespace braze::interpreter
