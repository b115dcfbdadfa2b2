// python/compile/rebuild.cpp
#include "python/compile/rebuild.h"

#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>

#include <array>
#include <span>

#include "capture/traceable.h"
#include "python/compile/rebuild_parts.h"
#include "python/compile/stand_ins.h"
#include "python/compile/tensor_classes.h"
#include "python/guards/array.h"
#include "python/guards/keys.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/guards/type_params_312.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/traced_arrays.h"
#include "python/interpreter/watch/wrapper_world.h"

namespace braze::python {

namespace {

using guards::Ref;

constexpr int deepest_container = 200;  // Levels of what must be there before what holds it is made.

/// A class statement made it, or type() did. C code makes classes on the heap too, as pybind11 does, whose
/// instances hold more than Python sees.
bool is_made_by_python(PyTypeObject* type) {
  static const destructor dealloc_of_classes = [] {
    const Ref probe =
        Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){}", "probe"));
    return probe ? reinterpret_cast<PyTypeObject*>(probe.get())->tp_dealloc : nullptr;
  }();
  return type->tp_flags & Py_TPFLAGS_HEAPTYPE && type->tp_dealloc == dealloc_of_classes;
}

/// The nearest base that C code made.
PyTypeObject* builtin_base(PyTypeObject* type) {
  while (is_made_by_python(type) && type->tp_base) type = type->tp_base;
  return type;
}

/// A C struct sequence: torch.return_types.max.
bool is_structure(PyTypeObject* type) {
  return PyType_IsSubtype(type, &PyTuple_Type) && !(type->tp_flags & Py_TPFLAGS_BASETYPE) &&
         guards::class_dict(type) && PyDict_GetItemString(guards::class_dict(type), "n_sequence_fields");
}

bool reduces_to_names(PyTypeObject* type) {
  const std::string_view name = type->tp_name;
  return name == "operator.itemgetter" || name == "operator.attrgetter" || name == "operator.methodcaller";
}

/// The items in another order than a set built anew of them would have: it had more items once.
bool has_order_of_its_own(PyObject* set) {
  const Ref again = Ref::steal(PySet_New(nullptr));
  if (!again) return true;
  PyObject *item, *other;
  Py_hash_t hash;
  bool orderly = true;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set, &at, &item, &hash);) {
    if (PySet_Add(again.get(), item) < 0) return true;
    orderly &= guards::is_scalar(item);
  }
  if (!orderly) return false;  // Hashed by address: the order means nothing.
  for (Py_ssize_t at = 0, other_at = 0; _PySet_NextEntry(set, &at, &item, &hash);)
    if (!_PySet_NextEntry(again.get(), &other_at, &other, &hash) || other != item) return true;
  return false;
}

/// `seen.append`.
bool is_method_of_container(PyObject* method) {
  PyObject* self = PyCFunction_GET_SELF(method);
  return self &&
         (PyList_CheckExact(self) || PyDict_CheckExact(self) || PySet_CheckExact(self) || PyODict_CheckExact(self));
}

}  // namespace

// ---------------------------------------------------------------------------------------------- which node

guards::RecipeNode Rebuilder::node(PyObject* value) {
  const Node made = node_of(value);
  while (!unfilled_.empty()) {
    const auto [object, unfilled] = unfilled_.back();
    unfilled_.pop_back();
    fill(object, unfilled);
  }
  return made;
}

guards::RecipeNode Rebuilder::tuple_of(PyObject* tuple, std::span<const Node> items) {
  const auto found = nodes_.find(tuple);
  return found != nodes_.end() ? found->second : remember(tuple, builder_.tuple(items));
}

Rebuilder::Node Rebuilder::remember(PyObject* value, Node node) {
  if (nodes_.try_emplace(value, node).second) hold(value);
  return node;
}

Rebuilder::Node Rebuilder::node_of(PyObject* value) {
  if (const auto found = nodes_.find(value); found != nodes_.end()) return found->second;
  if (guards::is_scalar(value)) return remember(value, scalar(value));
  if (PyObject* method = interpreter::method_of_numpy(value)) return remember(value, constant(method));
  if (values_.is_own_class(value)) return remember(value, OwnClass::make(*this, value));
  const bool is_constant =
      values_.tensors().is_plain(value) || values_.is_constant(value) || guards::is_array_dtype(value);
  if (is_constant) return remember(value, constant(value));
  if (const guards::Source* source = values_.source_of(value)) return remember(value, sourced(value, source));
  if (guards::is_array_scalar(value)) return remember(value, constant(value));
  if (depth_ > deepest_container) refuse("an object that is nested too deeply", value);
  ++depth_;
  const Node made = create(value);
  --depth_;
  return remember(value, made);
}

/// A number or text that was given is handed on as the object that it is. Where one object was read in several
/// places, it is one on later calls too.
Rebuilder::Node Rebuilder::scalar(PyObject* scalar) {
  if (values_.is_address(scalar)) refuse("the address of an object", scalar);
  const std::vector<const guards::Source*> sources = values_.scalar_sources(scalar);
  if ((values_.numbers().size_of(scalar) || values_.numbers().derived_of(scalar)) && sources.empty()) {
    outputs_.push_back(scalar);
    return builder_.output(static_cast<uint32_t>(outputs_.size() - 1));
  }
  if (sources.empty() && values_.numbers().was_size(scalar)) {
    const Ref plain = Ref::steal(PyLong_FromLongLong(PyLong_AsLongLong(scalar)));
    return constant(plain.get());
  }
  if (sources.empty()) return constant(scalar);
  if (values_.is_constant(scalar)) {
    for (const guards::Source* source : sources) guards_.identity(source, scalar);
    return constant(scalar);
  }
  for (const guards::Source* source : sources) guards_.same_object(sources.front(), source);
  return builder_.value(guards_.want(sources.front()));
}

/// A cell that existed before is known by the source of its contents.
Rebuilder::Node Rebuilder::sourced(PyObject* value, const guards::Source* source) {
  if (PyCell_Check(value)) source = source->parent;
  if (!source) refuse("a closure cell whose function is not known", value);
  const guards::Source* root = source;
  while (root->parent) root = root->parent;
  if (values_.is_own_class(root->key.get())) {
    if (PyTuple_CheckExact(value) && interpreter::is_data(value)) return constant(value);  // Of texts: `_fields`.
    refuse("a part of a class that the function makes", value);
  }
  return builder_.value(guards_.want(source));
}

Rebuilder::Node Rebuilder::create(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  if (values_.tensors().is_tensor(value)) return tensor(value);
  if (values_.is_own_class(reinterpret_cast<PyObject*>(type))) return OwnClass::instance(*this, value);
  if (guards::is_number_array(value)) return array(value);
  if (interpreter::is_traced_array(value)) return traced_array(value);
  // What a C function puts into its result is new, or reachable from arguments that are known: a tuple is either.
  if (!values_.is_made(value) && !PyTuple_CheckExact(value)) refuse("an object of unknown origin", value);
  if (PyTuple_Check(value)) return tuple(value);
  if (PyAnySet_Check(value)) return set(value);
  if (PyFunction_Check(value)) return function(value);
  if (PyCell_Check(value)) {
    const Node cell = builder_.cell();
    unfilled_.emplace_back(value, cell);
    return cell;
  }
  if (Py_IS_TYPE(value, &PyMethod_Type) && interpreter::is_traced_array(PyMethod_GET_SELF(value))) {
    PyObject* twin = interpreter::method_of_numpy(PyMethod_GET_FUNCTION(value));
    const Ref name = Ref::steal(twin ? PyObject_GetAttrString(twin, "__name__") : nullptr);
    if (!name) throw NotRebuilt{"a method of an array: " + guards::describe(value)};
    return attribute(PyMethod_GET_SELF(value), PyUnicode_AsUTF8(name.get()));
  }
  if (Py_IS_TYPE(value, &PyMethod_Type))
    return builder_.method(node_of(PyMethod_GET_FUNCTION(value)), node_of(PyMethod_GET_SELF(value)));
  if (PyCFunction_CheckExact(value)) {
    // As a hook, or where an effect stores it. Elsewhere what is in the container counts.
    if (!binds_methods_ || !is_method_of_container(value))
      throw NotRebuilt{"a C function: " + guards::describe(value)};
    return attribute(PyCFunction_GET_SELF(value), reinterpret_cast<PyCFunctionObject*>(value)->m_ml->ml_name);
  }
  if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    return builder_.slice(node_of(slice->start), node_of(slice->stop), node_of(slice->step));
  }
  if (PyRange_Check(value)) return range(value);
  if (PyCode_Check(value)) return constant(value);
  if (PyDictKeys_Check(value)) return view(value, "keys");
  if (PyDictValues_Check(value)) return view(value, "values");
  if (PyDictItems_Check(value)) return view(value, "items");
  if (Py_IS_TYPE(value, &PyDictProxy_Type)) return proxy(value);
  if (is_iterator_in_flight(type)) return iterator(value);
  if (std::string_view(type->tp_name) == "functools.partial") return partial(value);
  if (std::string_view(type->tp_name) == "collections.deque") return deque(value);
  if (PyWeakref_CheckRefExact(value)) return weak_reference(value);
  if (reduces_to_names(type)) return getter(value);
  return instance(value);
}

Rebuilder::Node Rebuilder::tensor(PyObject* tensor) {
  if (!values_.is_known(tensor)) refuse("a tensor of unknown origin", tensor);
  if (values_.tensors().wrappers()->is_wrapper(tensor)) return Wrapper::make(*this, tensor);
  PyTypeObject* type = Py_TYPE(tensor);
  const bool is_derived = reinterpret_cast<PyObject*>(type) != values_.tensors().tensor_type();
  if (is_derived && !(values_.tensors().keep_tensor_class(type) && can_become(type)))
    refuse("a tensor of a subclass", tensor);
  if (capture::is_transformed(THPVariable_Unpack(tensor))) refuse("a tensor that leaves its transform", tensor);
  outputs_.push_back(tensor);
  const Node made = builder_.output(static_cast<uint32_t>(outputs_.size() - 1));
  PyObject** attributes = _PyObject_GetDictPtr(tensor);
  if (attributes && *attributes && PyDict_GET_SIZE(*attributes) > 0) unfilled_.emplace_back(tensor, made);
  const at::Tensor& computed = THPVariable_Unpack(tensor);
  if (computed.requires_grad() && computed.is_leaf()) {  // By requires_grad_(), under no_grad().
    const Ref method = Ref::steal(PyObject_GetAttrString(values_.tensors().tensor_type(), "requires_grad_"));
    if (!method) throw NotRebuilt{"a tensor that requires grad"};
    const Node operands[] = {constant(method.get()), made};
    builder_.effect(guards::EffectKind::call, operands);
  }
  if (is_derived) {
    const Ref name = Ref::steal(PyUnicode_InternFromString("__class__"));
    const Node operands[] = {made, constant(name.get()), constant(reinterpret_cast<PyObject*>(type))};
    builder_.effect(guards::EffectKind::store_attribute, operands);
  }
  return made;
}

// ---------------------------------------------------------------------------------------------- containers

std::vector<guards::RecipeNode> Rebuilder::nodes_of(PyObject* tuple, Py_ssize_t from) {
  std::vector<Node> items;
  for (Py_ssize_t i = from; i < PyTuple_GET_SIZE(tuple); ++i) items.push_back(node_of(PyTuple_GET_ITEM(tuple, i)));
  return items;
}

Rebuilder::Node Rebuilder::tuple(PyObject* tuple) {
  PyTypeObject* type = Py_TYPE(tuple);
  if (PyTuple_CheckExact(tuple) && PyTuple_GET_SIZE(tuple) == 0) return constant(tuple);  // There is but one.
  const Node items = builder_.tuple(nodes_of(tuple), is_structure(type) ? &PyTuple_Type : type);
  if (is_structure(type)) return call(type, items);
  PyObject* dict = guards::instance_dict(tuple);
  if (dict && PyDict_GET_SIZE(dict) > 0) unfilled_.emplace_back(tuple, items);
  return items;
}

Rebuilder::Node Rebuilder::set(PyObject* set) {
  PyTypeObject* type = Py_TYPE(set);
  if (!PyAnySet_CheckExact(set)) refuse("a set of a subclass", set);
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  std::vector<Node> items;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set, &at, &item, &hash);) {
    if (!guards::is_plain_key(item)) refuse("a set of objects that hash themselves", item);
    items.push_back(node_of(item));
  }
  if (has_order_of_its_own(set)) refuse("a set whose order depends on what was in it", set);
  return type == &PySet_Type ? builder_.set(items) : builder_.frozenset(items);
}

/// Lists, dicts and plain objects, and what derives from them: made empty, filled when all else is there.
Rebuilder::Node Rebuilder::instance(PyObject* object) {
  PyTypeObject *type = Py_TYPE(object), *base = builtin_base(type);
  if (stands_for_other(type)) refuse("an object of a kind that is not rebuilt", object);
  if (const auto hooks = dict_of_hooks(object)) return *hooks;
  const Node node = [&] {
    const std::string_view name = base->tp_name;
    if (base == &PyList_Type) return builder_.list({}, type);
    if (base == &PyDict_Type || base == &PyODict_Type || name == "collections.defaultdict")
      return builder_.dict({}, type);
    if (base == &PyBaseObject_Type && type != base) return builder_.object(type);
    if (type == &PyBaseObject_Type || (type == base && name == "types.SimpleNamespace"))
      return builder_.call(reinterpret_cast<PyObject*>(type), {});
    refuse("an object of a kind that is not rebuilt", object);
  }();
  if (PyDict_CheckExact(object) && instance_dicts_.contains(object)) refuse("the __dict__ of an object", object);
  unfilled_.emplace_back(object, node);
  return node;
}

void Rebuilder::fill(PyObject* object, Node node) {
  if (PyCell_Check(object)) {
    if (PyObject* contents = PyCell_GET(object)) builder_.add_item(node, node_of(contents));
    return;
  }
  if (PyList_Check(object))
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i)
      builder_.add_item(node, node_of(PyList_GET_ITEM(object, i)));
  if (PyDict_Check(object)) fill_entries(object, node);
  if (!PyFunction_Check(object) && !PyTuple_Check(object) && !values_.tensors().is_tensor(object))
    fill_slots(object, node);
  fill_attributes(object, node);
}

void Rebuilder::fill_entries(PyObject* dict, Node node) {
  const bool complete = guards::for_each_key(dict, [&](PyObject* key) {
    if (!guards::is_plain_key(key) && !guards::is_tensor_key(key))
      refuse("a dict of objects that hash themselves", key);
    PyObject* value = guards::entry_of_key(dict, key);
    if (!value) return false;
    const Node key_node = node_of(key);
    builder_.add_entry(node, key_node, node_of(value));
    return true;
  });
  if (!complete) refuse("a dict that cannot be read", dict);
}

void Rebuilder::fill_attributes(PyObject* object, Node node) {
  PyObject* dict = guards::instance_dict(object);
  if (!dict) return;
  instance_dicts_.insert(dict);
  if (nodes_.contains(dict)) refuse("the __dict__ of an object", object);
  Py_ssize_t at = 0;
  PyObject *name, *value;
  while (PyDict_Next(dict, &at, &name, &value)) {
    PyObject* in_type = PyUnicode_CheckExact(name) ? _PyType_Lookup(Py_TYPE(object), name) : nullptr;
    const bool is_slot = in_type && Py_IS_TYPE(in_type, &PyMemberDescr_Type);
    if (!PyUnicode_CheckExact(name) || is_slot) refuse("an object with an attribute that is hidden", object);
    builder_.attribute(node, name, node_of(value));
  }
}

void Rebuilder::fill_slots(PyObject* object, Node node) {
  PyTypeObject* type = Py_TYPE(object);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    Py_ssize_t at = 0;
    PyObject *name, *descriptor;
    while (PyDict_Next(guards::class_dict(base), &at, &name, &descriptor)) {
      if (!guards::is_object_member(descriptor)) continue;
      const Py_ssize_t offset = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member->offset;
      if (offset == type->tp_dictoffset) continue;  // types.SimpleNamespace shows its instance dict so.
      PyObject* value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
      if (!value) continue;
      if (_PyType_Lookup(type, PyDescr_NAME(descriptor)) != descriptor)
        refuse("an object with a slot that is hidden", object);
      builder_.attribute(node, PyDescr_NAME(descriptor), node_of(value));
    }
  }
}

// ------------------------------------------------------------------------------------- functions and the like

/// A dict that belongs to another object alone, such as the keyword defaults of a function.
Rebuilder::Node Rebuilder::own_dict(PyObject* dict) {
  if (const auto found = nodes_.find(dict); found != nodes_.end()) return found->second;
  const Node node = remember(dict, builder_.dict(std::span<const Node>{}));
  unfilled_.emplace_back(dict, node);
  return node;
}

Rebuilder::Node Rebuilder::function(PyObject* object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  const Node none = constant(Py_None);
  std::vector<Node> parts{constant(function->func_code), constant(function->func_globals)};
  parts.push_back(function->func_defaults ? node_of(function->func_defaults) : none);
  parts.push_back(function->func_kwdefaults ? own_dict(function->func_kwdefaults) : none);
  if (function->func_closure) {
    // The tuple of cells is the function's own.
    parts.push_back(builder_.tuple(nodes_of(function->func_closure)));
  } else {
    parts.push_back(none);
  }
  parts.push_back(node_of(function->func_name));
  parts.push_back(node_of(function->func_qualname));
  PyObject* annotations = function->func_annotations ? PyFunction_GetAnnotations(object) : nullptr;
  parts.push_back(annotations ? own_dict(annotations) : none);
  const Node node = builder_.function(parts);
  if (function->func_doc)
    builder_.attribute(node, Ref::steal(PyUnicode_InternFromString("__doc__")).get(), node_of(function->func_doc));
  if (function->func_module)
    builder_.attribute(node, Ref::steal(PyUnicode_InternFromString("__module__")).get(),
                       node_of(function->func_module));
  PyObject* const* type_params = guards::type_params_of(object);
  if (type_params && *type_params && PyTuple_GET_SIZE(*type_params) > 0)
    builder_.attribute(node, Ref::steal(PyUnicode_InternFromString("__type_params__")).get(),
                       node_of(*type_params));
  if (function->func_dict && PyDict_GET_SIZE(function->func_dict) > 0) unfilled_.emplace_back(object, node);
  return node;
}

/// functools.partial: what `__reduce__` of the exact type says.
Rebuilder::Node Rebuilder::partial(PyObject* partial) {
  const Ref reduced = taken(PyObject_CallMethod(partial, "__reduce__", nullptr), partial);
  if (!PyTuple_Check(reduced.get()) || PyTuple_GET_SIZE(reduced.get()) != 3) refuse("a partial", partial);
  PyObject* state = PyTuple_GET_ITEM(reduced.get(), 2);  // function, arguments, keywords, dict
  if (!PyTuple_Check(state) || PyTuple_GET_SIZE(state) != 4) refuse("a partial", partial);
  PyObject *function = PyTuple_GET_ITEM(state, 0), *arguments = PyTuple_GET_ITEM(state, 1);
  PyObject *keywords = PyTuple_GET_ITEM(state, 2), *dict = PyTuple_GET_ITEM(state, 3);
  const bool flattens = Py_IS_TYPE(function, Py_TYPE(partial));
  if (flattens || (dict != Py_None && PyDict_GET_SIZE(dict) > 0)) refuse("a partial of a partial", partial);
  hold(reduced.get());
  std::vector<Node> parts{node_of(function)};
  for (const Node argument : nodes_of(arguments)) parts.push_back(argument);
  return call_with(reinterpret_cast<PyObject*>(Py_TYPE(partial)), std::move(parts), keywords);
}

/// A call with keywords behind the positional arguments.
Rebuilder::Node Rebuilder::call_with(PyObject* callable, std::vector<Node> arguments, PyObject* keywords) {
  const Ref names = taken(PySequence_Tuple(keywords), keywords);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i)
    arguments.push_back(node_of(PyDict_GetItem(keywords, PyTuple_GET_ITEM(names.get(), i))));
  return builder_.call(callable, arguments, names.get());
}

/// Without a callback. To what is gone by then: nothing that could be made again.
Rebuilder::Node Rebuilder::weak_reference(PyObject* reference) {
  PyObject* referent = PyWeakref_GET_OBJECT(reference);
  const bool calls_back = reinterpret_cast<PyWeakReference*>(reference)->wr_callback;
  if (referent == Py_None || calls_back || values_.tensors().is_tensor(referent))
    refuse("a weak reference", reference);
  return call(Py_TYPE(reference), node_of(referent));
}

/// operator.itemgetter, attrgetter or methodcaller. The last tells a call of a partial of it where it has keywords.
Rebuilder::Node Rebuilder::getter(PyObject* getter) {
  const Ref reduced = taken(PyObject_CallMethod(getter, "__reduce__", nullptr), getter);
  hold(reduced.get());
  PyObject* maker = PyTuple_GET_ITEM(reduced.get(), 0);
  const std::vector<Node> parts = nodes_of(PyTuple_GET_ITEM(reduced.get(), 1));
  if (PyType_Check(maker)) return builder_.call(maker, parts);
  const Ref name = taken(PyObject_GetAttrString(maker, "args"), getter);
  const Ref keywords = taken(PyObject_GetAttrString(maker, "keywords"), getter);
  hold(name.get());
  hold(keywords.get());
  std::vector<Node> all = nodes_of(name.get());
  all.insert(all.end(), parts.begin(), parts.end());
  return call_with(reinterpret_cast<PyObject*>(Py_TYPE(getter)), std::move(all), keywords.get());
}

/// A deque of its items and maxlen. It does not contain itself.
Rebuilder::Node Rebuilder::deque(PyObject* deque) {
  const Ref items = taken(PySequence_Tuple(deque), deque);
  const Ref most = taken(PyObject_GetAttrString(deque, "maxlen"), deque);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
    if (PyTuple_GET_ITEM(items.get(), i) == deque) refuse("a deque that contains itself", deque);
  hold(items.get());
  hold(most.get());
  const Node parts[] = {node_of(items.get()), node_of(most.get())};
  return builder_.call(reinterpret_cast<PyObject*>(Py_TYPE(deque)), parts);
}

Rebuilder::Node Rebuilder::range(PyObject* range) {
  std::array<Node, 3> parts{};
  for (size_t i = 0; i < parts.size(); ++i) {
    const Ref part = taken(PyObject_GetAttrString(range, std::array{"start", "stop", "step"}[i]), range);
    hold(part.get());
    parts[i] = node_of(part.get());
  }
  return builder_.call(reinterpret_cast<PyObject*>(&PyRange_Type), parts);
}

/// The method of dict, or of OrderedDict, called on it.
Rebuilder::Node Rebuilder::view(PyObject* view, const char* method) {
  auto* dict = reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(view)->dv_dict);
  const bool is_ordered = std::string_view(Py_TYPE(view)->tp_name).starts_with("odict_");
  auto* type = reinterpret_cast<PyObject*>(is_ordered ? &PyODict_Type : &PyDict_Type);
  const Ref unbound = taken(PyObject_GetAttrString(type, method), view);
  return call(unbound.get(), node_of(dict));
}

Rebuilder::Node Rebuilder::proxy(PyObject* proxy) {
  PyObject* mapping = interpreter::mapping_of_proxy(proxy);
  const guards::Source* source = mapping ? values_.source_of(mapping) : nullptr;
  const bool is_of_class = source && source->kind == guards::SourceKind::dict_of;
  if (!mapping || is_of_class) refuse("the __dict__ of an object", proxy);
  return call(&PyDictProxy_Type, node_of(mapping));
}

}  // namespace braze::python
