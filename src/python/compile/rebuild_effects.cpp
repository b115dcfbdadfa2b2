// python/compile/rebuild_effects.cpp: changes of objects that existed before, and hooks on gradients.
#include <torch/csrc/autograd/python_variable.h>

#include "python/compile/gradient_marks.h"
#include "python/compile/rebuild.h"
#include "python/guards/keys.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/tensor_hooks.h"
#include "python/interpreter/watch/warnings.h"

namespace braze::python {

using guards::Ref;
using interpreter::HookEffect;

void Rebuilder::effect(const interpreter::Effect& effect) {
  if (HookEffect::is_one(effect)) return hooks(effect);
  PyObject* list = interpreter::list_of_warnings(effect.target.get());
  if (list && values_.is_known(list)) throw NotRebuilt{"a list that takes warnings is read"};
  std::vector<Node> operands;
  std::vector<const Ref*> all = {&effect.target, &effect.key, &effect.value};
  for (const Ref& operand : effect.rest) all.push_back(&operand);
  binds_methods_ = true;  // `module.shows = seen.append`: of the list that this call makes.
  for (const Ref* operand : all) {
    if (!*operand) continue;
    hold(operand->get());
    const bool is_called = operand == &effect.target && PyCFunction_Check(operand->get());
    const bool is_method = is_called || Py_IS_TYPE(operand->get(), &PyMethodDescr_Type) ||
                           Py_IS_TYPE(operand->get(), &PyWrapperDescr_Type);
    operands.push_back(is_method ? constant(operand->get())  // Of an exact dict or deque.
                                 : node(operand->get()));
  }
  binds_methods_ = false;
  builder_.effect(effect.kind, operands);
}

/// The dict of a tensor's hooks takes what the run's own holds in the end. There it is the one that handles tell
/// of.
void Rebuilder::hooks(const interpreter::Effect& effect) {
  const HookEffect hooks(effect);
  const std::optional<int64_t> mark = gradient_mark(THPVariable_Unpack(hooks.tensor));
  if (!mark || PyLong_AsLongLong(hooks.mark) != *mark)
    throw NotRebuilt{"a tensor with hooks on its gradient is changed afterwards"};
  const Node operands[] = {constant(interpreter::take_hooks_function()), node(hooks.tensor), constant(hooks.kind)};
  builder_.effect(guards::EffectKind::call, operands);
  if (hooks.dict == Py_None) return;
  hold(hooks.dict);
  binds_methods_ = true;
  const Node dict = node(hooks.dict);
  const bool is_complete = guards::for_each_key(hooks.dict, [&](PyObject* key) {
    PyObject* hook = guards::entry_of_key(hooks.dict, key);
    if (!hook) return false;
    const Node entry[] = {dict, node(key), node(hook)};
    builder_.effect(guards::EffectKind::store_item, entry);
    return true;
  });
  binds_methods_ = false;
  if (!is_complete) throw NotRebuilt{"hooks on a gradient that cannot be read"};
}

/// Of a dict that the run was given for a tensor's hooks. Made before any effect happens, wherever it is met first.
std::optional<guards::RecipeNode> Rebuilder::dict_of_hooks(PyObject* dict) {
  if (!PyODict_CheckExact(dict)) return std::nullopt;
  for (const interpreter::Effect& effect : values_.effects().log()) {
    if (!HookEffect::is_one(effect)) continue;
    const HookEffect hooks(effect);
    if (hooks.dict != dict) continue;
    const Node arguments[] = {node_of(hooks.tensor), constant(hooks.kind)};
    return builder_.call(interpreter::take_hooks_function(), arguments);
  }
  return std::nullopt;
}

guards::RecipeNode Rebuilder::attribute(PyObject* object, const char* name) {
  static PyObject* const get = PyObject_GetAttrString(PyImport_AddModule("builtins"), "getattr");  // For good.
  const Ref text = Ref::steal(PyUnicode_InternFromString(name));
  if (!get || !text) throw NotRebuilt{"no memory"};
  const Node arguments[] = {node_of(object), constant(text.get())};
  return builder_.call(get, arguments);
}

}  // namespace braze::python
