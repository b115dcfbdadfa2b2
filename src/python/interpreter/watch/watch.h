// python/interpreter/watch/watch.h: a watched run and the domains that understand what it does.
//
//   names          variables, imports
//   classes        classes, generic_types, instances
//   attributes     attributes, tensor_attributes, autograd_functions
//   operators      operators, conversions
//   containers     containers, deques, iterables, views
//   calls          calls, builtins, methods, partials, given, stand_ins, trusted_code, library, copies, arrays,
//                  traced_arrays
//   frames         iterators, generators, root_slots
//   across         sizes, derived_numbers, random_numbers, other_threads
#pragma once

#include "python/interpreter/watch/arrays.h"
#include "python/interpreter/watch/attributes.h"
#include "python/interpreter/watch/autograd_functions.h"
#include "python/interpreter/watch/builtins.h"
#include "python/interpreter/watch/calls.h"
#include "python/interpreter/watch/classes.h"
#include "python/interpreter/watch/containers.h"
#include "python/interpreter/watch/conversions.h"
#include "python/interpreter/watch/copies.h"
#include "python/interpreter/watch/deques.h"
#include "python/interpreter/watch/derived_numbers.h"
#include "python/interpreter/watch/generators.h"
#include "python/interpreter/watch/generic_types.h"
#include "python/interpreter/watch/given.h"
#include "python/interpreter/watch/imports.h"
#include "python/interpreter/watch/instances.h"
#include "python/interpreter/watch/iterables.h"
#include "python/interpreter/watch/iterators.h"
#include "python/interpreter/watch/library.h"
#include "python/interpreter/watch/methods.h"
#include "python/interpreter/watch/operators.h"
#include "python/interpreter/watch/other_threads.h"
#include "python/interpreter/watch/partials.h"
#include "python/interpreter/watch/random_numbers.h"
#include "python/interpreter/watch/root_slots.h"
#include "python/interpreter/watch/sizes.h"
#include "python/interpreter/watch/stand_ins.h"
#include "python/interpreter/watch/tensor_attributes.h"
#include "python/interpreter/watch/traced_arrays.h"
#include "python/interpreter/watch/trusted_code.h"
#include "python/interpreter/watch/variables.h"
#include "python/interpreter/watch/views.h"
#include "python/interpreter/watch/watched_run.h"

namespace braze::interpreter {

struct Watch {
  Watch(guards::GuardSet& guards, TensorWorld& tensors, bool& abandoned) : run(guards, tensors, abandoned) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  WatchedRun run;
  Variables variables{*this, run};
  Imports imports{*this, run};
  Classes classes{*this, run};
  GenericTypes generic_types{*this, run};
  Attributes attributes{*this, run};
  TensorAttributes tensor_attributes{*this, run};
  AutogradFunctions autograd_functions{*this, run};
  Operators operators{*this, run};
  Containers containers{*this, run};
  Deques deques{*this, run};
  Views views{*this, run};
  Calls calls{*this, run};
  Builtins builtins{*this, run};
  Methods methods{*this, run};
  Instances instances{*this, run};
  Conversions conversions{*this, run};
  Partials partials{*this, run};
  Given given{*this, run};
  StandIns stand_ins{*this, run};
  TrustedCode trusted_code{*this, run};
  Library library{*this, run};
  Copies copies{*this, run};
  Arrays arrays{*this, run};
  TracedArrays traced_arrays{*this, run};
  Iterables iterables{*this, run};
  Iterators iterators{*this, run};
  Generators generators{*this, run};
  Sizes sizes{*this, run};
  DerivedNumbers derived_numbers{*this, run};
  RandomNumbers random_numbers{*this, run};
  RootSlots root_slots{*this, run};
  OtherThreads other_threads{*this, run};
};

}  // namespace braze::interpreter
