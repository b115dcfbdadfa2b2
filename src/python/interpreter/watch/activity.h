// python/interpreter/watch/activity.h: what the running instruction of a frame does, as far as it is understood.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "ir/shape_env.h"
#include "python/guards/derived.h"

namespace braze::interpreter {

/// Which Python functions the running instruction may enter.
enum class Entry : uint8_t {
  none,
  known,    ///< Those that are sourced or made.
  tensor,   ///< Also those that are methods of torch.Tensor.
  around,   ///< Code of PyTorch's that runs unwatched, and around what it calls (trusted_code.h).
  trusted,  ///< Any: a function of the library that is known to read nothing but its guarded arguments.
};

/// One a frame, new for each of its instructions.
struct Activity {
  Entry entry = Entry::none;
  bool is_trusted = false;              ///< The frame runs what Entry::trusted entered.
  bool is_around = false;               ///< The frame runs what Entry::around entered, and is not watched.
  bool makes_result = false;            ///< What the instruction leaves on top is made by it, if it is not known.
  bool makes_signature = false;         ///< That is one of inspect.signature().
  bool makes_constant = false;          ///< Likewise, and it is the same object in every run.
  bool makes_class = false;             ///< Likewise, and it is a class.
  bool asks_whether_compiling = false;  ///< Reads the flag that is true in captures only.
  PyObject* answer = nullptr;           ///< What a call gives in place of its own result.
  bool on_default_device = false;       ///< A factory makes a tensor there (tensor_world.h).
  bool passes_slice = false;            ///< Makes a slice object for a __getitem__.
  PyObject* reduces = nullptr;          ///< Takes this object apart for a copy.
  bool is_direct = false;               ///< Calls a Python function and does nothing else.
  bool looks = false;                   ///< C code that looks into what Python functions give it.
  PyObject* collects = nullptr;         ///< A generator whose items C code puts into a list or tuple as they are.
  bool asks_length = false;             ///< len() of an object with a __len__ in Python.
  PyObject* asks_keys = nullptr;        ///< The `keys` of a mapping, what it returns is gone through by C code.
  PyObject *fills = nullptr, *key = nullptr;            ///< An older defaultdict that gets an entry, and its key.
  PyObject* sets_variable = nullptr;                    ///< A context variable.
  PyObject* iterator = nullptr;                         ///< Asked for its next item. Only compared.
  PyTypeObject* constructs = nullptr;                   ///< A class whose __init__ is given a new instance.
  bool shares = false;                                  ///< C code that may release the GIL, with effects hidden.
  bool holds_changes = false;                           ///< C code that has something changed in its hands.
  bool makes_address = false;                           ///< A number that is another one in every run.
  bool is_quiet = false;                                ///< Trusted, and computes nothing with tensors.
  std::optional<ir::Size> size = {};                    ///< What the number is that the instruction leaves on top.
  std::shared_ptr<const guards::Derived> derived = {};  ///< Likewise.
  bool packs_arguments = false;                         ///< The tuples that are passed are made by the C function.
};

}  // namespace braze::interpreter
