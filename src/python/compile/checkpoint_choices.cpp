#include "python/compile/checkpoint_choices.h"

#include <vector>

#include "python/errors.h"
#include "python/guards/saved_tensor_hooks.h"
#include "python/guards/storage_access.h"
#include "python/imported.h"
#include "support/error.h"

namespace braze::python {

namespace {

using guards::Ref;
using guards::SavedTensorHooks;
using Choice = CheckpointChoices::Choice;
using Choices = std::vector<Choice>;

constexpr const char* capsule_name = "braze.checkpoint_choices";

/// What a variable of the function holds that it has from around it; null: it has none of that name.
Ref free_variable(PyObject* function, const char* name) {
  PyObject* cells = PyFunction_GET_CLOSURE(function);
  const Ref names = Ref::steal(PyCode_GetFreevars(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))));
  for (Py_ssize_t k = 0; names && cells && k < PyTuple_GET_SIZE(names.get()); ++k)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), k), name) == 0)
      return Ref::borrow(PyCell_GET(PyTuple_GET_ITEM(cells, k)));
  return {};
}

/// A Python object's, kept by it as long as it lives.
Choices* choices_of(PyObject* owner, bool makes_them) {
  PyObject* attributes = guards::instance_dict(owner);
  if (!attributes) return nullptr;
  if (PyObject* kept = PyDict_GetItemString(attributes, capsule_name))
    return static_cast<Choices*>(PyCapsule_GetPointer(kept, capsule_name));
  if (!makes_them) return nullptr;
  auto made = std::make_unique<Choices>();
  const Ref capsule = Ref::steal(PyCapsule_New(made.get(), capsule_name, [](PyObject* dying) {
    delete static_cast<Choices*>(PyCapsule_GetPointer(dying, capsule_name));
  }));
  if (!capsule) throw_python_error();
  Choices* const choices = made.release();
  if (PyDict_SetItemString(attributes, capsule_name, capsule.get()) < 0) throw_python_error();
  return choices;
}

/// Where the second run stands: how many choices of the first it has passed. Kept by the function that packs, of
/// which each second run has one of its own.
struct Repetition {
  PyObject* pack;
  const Choices* choices;
  size_t passed;

  void pass(size_t until) const {
    const Ref count = Ref::steal(PyLong_FromSize_t(until));
    const Ref attributes = Ref::steal(PyObject_GenericGetDict(pack, nullptr));
    if (!count || !attributes || PyDict_SetItemString(attributes.get(), capsule_name, count.get()) < 0)
      throw_python_error();
  }
};

std::optional<Repetition> repetition() {
  PyObject* const pack = guards::pack_hook();
  const Ref reference = free_variable(pack, "target_frame_ref");
  if (!reference || !PyWeakref_Check(reference.get())) return {};
  const Ref checkpoint = Ref::steal(PyObject_CallNoArgs(reference.get()));
  if (!checkpoint) throw_python_error();
  const Choices* const choices = choices_of(checkpoint.get(), /*makes_them=*/false);
  if (!choices) return {};  // The checkpoint has nothing to do with compiled functions, or is gone.
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(pack)->func_dict;
  PyObject* passed = attributes ? PyDict_GetItemString(attributes, capsule_name) : nullptr;
  return Repetition{pack, choices, passed ? PyLong_AsSize_t(passed) : 0};
}

}  // namespace

void CheckpointChoices::note(const void* who, int place, Way way, const std::shared_ptr<Specialisation>& program) {
  if (guards::saved_tensor_hooks() != SavedTensorHooks::checkpoint) return;
  const Ref checkpoint = free_variable(guards::pack_hook(), "frame");
  if (!checkpoint) return;
  if (Choices* const choices = choices_of(checkpoint.get(), /*makes_them=*/true))
    choices->push_back({who, place, way, program});
}

bool CheckpointChoices::repeats() {
  return guards::saved_tensor_hooks() == SavedTensorHooks::recomputation;
}

std::optional<Choice> CheckpointChoices::next(const void* who, int place) {
  const std::optional<Repetition> again = repetition();
  for (size_t k = again ? again->passed : 0; again && k < again->choices->size(); ++k) {
    const Choice& choice = (*again->choices)[k];
    if (choice.who != who) continue;
    // A frame that ran in parts will come to its parts.
    if (choice.place != place && place == whole) break;
    if (choice.place != place) continue;
    again->pass(k + 1);
    return choice;
  }
  return {};
}

namespace {

/// Without numbers: those of the program, and sizes, which the checkpoint compares.
std::string form_of(const Specialisation& one) {
  std::string text = one.program->code("graph");
  std::erase_if(text, [](char letter) { return letter >= '0' && letter <= '9'; });
  return text;
}

}  // namespace

bool CheckpointChoices::saves_the_same(const Specialisation& one, const Specialisation& other) {
  return form_of(one) == form_of(other);
}

void CheckpointChoices::raise_changed(const std::string& explanation) {
  const py::object type = imported("torch.utils.checkpoint").attr("CheckpointError");
  const std::string text = concat(
      "torch.utils.checkpoint: a compiled function does something else in the recomputation than in the original "
      "forward, and would save other tensors: ",
      explanation);
  PyErr_SetString(type.ptr(), text.c_str());
  throw_python_error();
}

NoVmap::NoVmap() {
  constexpr c10::DispatchKeySet vmap({c10::DispatchKey::VmapMode, c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                                      c10::DispatchKey::FuncTorchDynamicLayerBackMode});
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  if ((keys.included_ & vmap).empty()) return;
  keys.included_ = keys.included_ - vmap;
  without_.emplace(keys);
}

}  // namespace braze::python
