// python/interpreter/watch/classes.cpp
#include "python/interpreter/watch/classes.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "python/guards/scalar.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

/// What C code may ask a class for.
const std::vector<PyObject*>& protocol_names() {
  static const std::vector<PyObject*> names = [] {
    std::vector<PyObject*> all;
    const auto add = [&](const std::string& text) {
      all.push_back(PyUnicode_InternFromString(("__" + text + "__").c_str()));  // For good, as the table is.
    };
    for (const std::string name : {"add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow",
                                   "lshift", "rshift", "and", "or", "xor"})
      for (const char* form : {"", "r", "i"}) add(form + name);
    for (const char* name :
         {"neg",         "pos",     "abs",      "invert",       "lt",    "le",       "eq",
          "ne",          "gt",      "ge",       "hash",         "bool",  "len",      "getitem",
          "setitem",     "delitem", "contains", "iter",         "next",  "reversed", "index",
          "int",         "float",   "complex",  "round",        "trunc", "floor",    "ceil",
          "length_hint", "str",     "repr",     "format",       "call",  "get",      "missing",
          "fspath",      "bytes",   "getattr",  "getattribute", "class", "array",    "torch_function"})
      add(name);
    return all;
  }();
  return names;
}

}  // namespace

PyObject* interned(const char* name) {
  // Global, as CPython's own identifiers are: names of special methods, asked for at each attribute that is read.
  // Guarded by the GIL.
  static std::unordered_map<std::string_view, PyObject*> names;
  if (const auto known = names.find(name); known != names.end()) return known->second;
  PyObject* text = PyUnicode_InternFromString(name);
  if (const char* kept = text ? PyUnicode_AsUTF8(text) : nullptr) names.emplace(kept, text);
  return text;
}

const guards::Source* Classes::class_source(PyObject* type) {
  const guards::Source* source = values_.source_of(type);
  return source ? source : values_.sources().object(type, as_type(type)->tp_name);
}

bool Classes::special_function(PyObject* object, const char* name) {
  PyObject* key = interned(name);
  PyObject* found = key ? find_in_type(Py_TYPE(object), key) : nullptr;
  if (!found || !PyFunction_Check(found)) return false;
  return values_.learn(found, values_.sources().type_attribute(type_source(values_, object), key));
}

bool Classes::keep_in_class(PyObject* type, const guards::Source* source,
                            std::initializer_list<const char*> names) {
  if (!is_changeable(as_type(type))) return true;
  for (const char* name : names) {
    PyObject* key = interned(name);
    if (!key) return abandon("no memory");
    PyObject* found = find_in_type(as_type(type), key);
    // 0: CPython does not tell when the class changes.
    const unsigned version =
        PyType_HasFeature(as_type(type), Py_TPFLAGS_VALID_VERSION_TAG) ? as_type(type)->tp_version_tag : 0;
    unsigned& kept = kept_[{source, key}];
    if (version != 0 && kept == version) continue;
    const guards::Source* entry = values_.sources().type_attribute(source, key);
    if (!found)
      values_.guards().absent(entry);
    else if (!values_.learn(found, entry))
      return abandon("a special method that cannot be guarded", found);
    kept = version;
  }
  return true;
}

bool Classes::keep_special(PyObject* object, std::initializer_list<const char*> names) {
  return keep_in_class(reinterpret_cast<PyObject*>(Py_TYPE(object)), type_source(values_, object), names);
}

bool Classes::acts_as_builtin(PyObject* object, const char* slot) {
  PyTypeObject* storage = storage_type(object);
  if (!storage) return false;
  if (storage == Py_TYPE(object)) return true;
  PyObject* own = find_in_type(Py_TYPE(object), slot);
  return own && own == find_in_type(storage, slot) && keep_special(object, {slot});
}

bool Classes::class_name(PyObject* type, PyObject* name) {
  if (!is_changeable(as_type(type))) return allow_made_result();
  const bool is_short = PyUnicode_CompareWithASCIIString(name, "__name__") == 0;
  const guards::Source* source = class_source(type);
  auto* heap = reinterpret_cast<PyHeapTypeObject*>(type);
  const guards::Member member = is_short ? guards::Member::type_name : guards::Member::type_qualname;
  return values_.learn(is_short ? heap->ht_name : heap->ht_qualname, values_.sources().member(source, member));
}

bool Classes::open_classes(PyObject* classes) {
  if (!values_.is_known(classes)) return abandon("a class of unknown origin", classes);
  // A class whose metaclass answers in Python: what it runs is watched.
  if (PyType_Check(classes)) return keep_special(classes, {"__instancecheck__", "__subclasscheck__"});
  if (is_a(classes, "types.UnionType")) {
    if (values_.source_of(classes) && !values_.pin(classes))
      return abandon("classes that cannot be guarded", classes);
    const Ref parts = Ref::steal(PyObject_GetAttrString(classes, "__args__"));
    if (!parts || !PyTuple_CheckExact(parts.get())) return abandon("classes that cannot be guarded", classes);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts.get()); ++i) {
      PyObject* part = PyTuple_GET_ITEM(parts.get(), i);  // The same ones for as long as the union lives.
      if (!PyType_Check(part)) return abandon("classes that cannot be guarded", part);
      if (!values_.is_known(part)) values_.learn(part, values_.sources().object(part, "a part of a union"));
      if (!open_classes(part)) return false;
    }
    return true;
  }
  if (!PyTuple_Check(classes)) {
    special_function(classes, "__instancecheck__");
    return !abandoned();
  }
  if (!values_.open(classes)) return abandon("classes that cannot be guarded", classes);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i)
    if (!open_classes(PyTuple_GET_ITEM(classes, i))) return false;
  return true;
}

bool Classes::learn_class_entry(PyObject* found, const guards::Source* source) {
  const bool wraps = Py_IS_TYPE(found, &PyStaticMethod_Type) || Py_IS_TYPE(found, &PyClassMethod_Type);
  if (!values_.learn(found, source)) return abandon("an attribute of a class that cannot be guarded", found);
  if (!wraps) return guards::is_scalar(found) || keep_special(found, {"__get__", "__set__", "__delete__"});
  PyObject* descriptor = member_descriptor(Py_TYPE(found), "__func__");
  const Ref function = Ref::steal(PyObject_GetAttrString(found, "__func__"));
  if (!descriptor || !function) return abandon("a method that cannot be guarded", found);
  return values_.learn(function.get(), values_.sources().slot(source, descriptor)) ||
         abandon("a method that cannot be guarded", found);
}

void Values::keep_protocols(PyObject* value) {
  if (PyTuple_CheckExact(value))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) keep_protocols(PyTuple_GET_ITEM(value, i));
  PyTypeObject* type = Py_TYPE(value);
  if (!is_changeable(type) || !protocols_kept_.insert(type).second) return;
  auto* object = reinterpret_cast<PyObject*>(type);
  guards_.class_entries(sources().object(object, type->tp_name), type, protocol_names());
}

bool Classes::call_subclasses(PyObject* type) {
  if (!values_.is_known(type) || !is_changeable(as_type(type)))
    return abandon("classes that cannot be guarded", type);
  guards::SourceTable& sources = values_.sources();
  const guards::Source* source = sources.member(class_source(type), guards::Member::type_subclasses);
  PyObject* references = guards::load(*source, type, {});
  if (!references) {
    values_.guards().absent(source);
    return allow_made_result();
  }
  if (!PyDict_CheckExact(references) || !values_.learn(references, source) || !values_.open(references))
    return abandon("classes that cannot be guarded", type);
  Py_ssize_t at = 0;
  PyObject *key, *reference;
  while (PyDict_Next(references, &at, &key, &reference)) {
    PyObject* subclass = PyWeakref_CheckRef(reference) ? PyWeakref_GET_OBJECT(reference) : Py_None;
    const guards::Source* referent = values_.source_of(reference);
    if (subclass == Py_None || !referent ||
        !values_.learn(subclass, sources.member(referent, guards::Member::weakref_referent)) ||
        !values_.pin(subclass))
      return abandon("classes that cannot be guarded", type);
  }
  return allow_made_result();
}

/// The class has the bases that it has. Builtin classes keep theirs.
void Classes::keep_bases(PyTypeObject* type, const guards::Source* source) {
  if (!is_changeable(type)) return;
  values_.guards().identity(values_.sources().member(source, guards::Member::type_mro), type->tp_mro);
}

bool Classes::keep_class_of(PyObject* object) {
  if (guards::is_scalar(object)) return true;
  if (is_traced_array(object)) return abandon(Break::numpy);
  if (PyType_Check(object)) keep_bases(object);
  keep_bases(Py_TYPE(object), type_source(values_, object));
  if (!is_changeable(Py_TYPE(object)) || !values_.is_known(object)) return true;
  return values_.tensors().is_tensor(object) ||
         keep_special(object, {"__class__", "__getattribute__", "__getattr__"});
}

bool Classes::keep_pattern_flags(PyObject* object) {
  if (is_changeable(Py_TYPE(object))) values_.guards().abc_registrations();
  return true;
}

}  // namespace braze::interpreter
