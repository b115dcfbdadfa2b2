// python/guards/source.cpp
#include "python/guards/source.h"

#include <structmember.h>

#include <cstring>

#include "python/guards/deque.h"
#include "python/guards/iterators.h"
#include "python/guards/keys.h"
#include "python/guards/random_state.h"
#include "python/guards/scalar.h"
#include "python/guards/sequence_place.h"
#include "python/guards/storage_access.h"
#include "python/guards/thread_locals.h"
#include "python/guards/torch_values.h"
#include "python/guards/type_params_312.h"
#include "support/error.h"

namespace braze::guards {

namespace {

Ref intern_name(const char* name) {
  Ref text = Ref::steal(PyUnicode_InternFromString(name));
  BRAZE_CHECK(text, "no memory for a name");
  return text;
}

// --------------------------------------------------------------------------------------------- members

struct MemberRow {
  const char* text;  ///< After the parent.
  /// Where the object keeps the pointer; null if it is of another kind. No function: `read` computes the value.
  PyObject* const* (*place)(PyObject* object) noexcept;
  PyObject* (*read)(PyObject* object) noexcept = nullptr;
  Ref (*make)(PyObject* object) noexcept = nullptr;  ///< Where no object is kept, but what one is made of.
};

using Place = PyObject* const*;

template <PyObject* PyFunctionObject::* field>
Place function_field(PyObject* object) noexcept {
  return PyFunction_Check(object) ? &(reinterpret_cast<PyFunctionObject*>(object)->*field) : nullptr;
}
template <PyObject* PyMethodObject::* field>
Place method_field(PyObject* object) noexcept {
  return PyMethod_Check(object) ? &(reinterpret_cast<PyMethodObject*>(object)->*field) : nullptr;
}
Place cell_contents(PyObject* object) noexcept {
  return PyCell_Check(object) ? &reinterpret_cast<PyCellObject*>(object)->ob_ref : nullptr;
}
Place builtin_self(PyObject* object) noexcept {
  return PyCFunction_Check(object) ? &reinterpret_cast<PyCFunctionObject*>(object)->m_self : nullptr;
}
Place type_mro(PyObject* object) noexcept {
  return PyType_Check(object) ? &reinterpret_cast<PyTypeObject*>(object)->tp_mro : nullptr;
}
template <PyObject* PyHeapTypeObject::* field>
Place type_field(PyObject* object) noexcept {
  const bool is_heap =
      PyType_Check(object) && reinterpret_cast<PyTypeObject*>(object)->tp_flags & Py_TPFLAGS_HEAPTYPE;
  return is_heap ? &(reinterpret_cast<PyHeapTypeObject*>(object)->*field) : nullptr;
}
PyObject* type_subclasses(PyObject* object) noexcept {
  const bool is_heap =
      PyType_Check(object) && reinterpret_cast<PyTypeObject*>(object)->tp_flags & Py_TPFLAGS_HEAPTYPE;
  return is_heap ? reinterpret_cast<PyObject*>(reinterpret_cast<PyTypeObject*>(object)->tp_subclasses) : nullptr;
}
PyObject* weakref_referent(PyObject* object) noexcept {
  if (!PyWeakref_Check(object)) return nullptr;
  PyObject* referent = PyWeakref_GET_OBJECT(object);
  return referent == Py_None ? nullptr : referent;
}

/// Beside its class, a getter refers to nothing else.
PyObject* getter_parts(PyObject* object) noexcept {
  const std::string_view name = Py_TYPE(object)->tp_name;
  if (name != "operator.itemgetter" && name != "operator.attrgetter") return nullptr;
  PyObject* parts = nullptr;
  const visitproc take = [](PyObject* referent, void* place) {
    if (!PyType_Check(referent)) *static_cast<PyObject**>(place) = referent;
    return 0;
  };
  Py_TYPE(object)->tp_traverse(object, take, &parts);
  return parts;
}

Ref deque_limit(PyObject* object) noexcept {
  if (!is_deque(object)) return {};
  Ref limit = Ref::steal(PyObject_GetAttrString(object, "maxlen"));
  if (!limit) PyErr_Clear();
  return limit;
}

Ref sequence_length(PyObject* object) noexcept {
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return {};
  Ref length = Ref::steal(PyLong_FromSsize_t(Py_SIZE(object)));
  if (!length) PyErr_Clear();
  return length;
}

/// By number of Member.
const MemberRow kMembers[] = {
    {".__code__", function_field<&PyFunctionObject::func_code>},
    {".__defaults__", function_field<&PyFunctionObject::func_defaults>},
    {".__kwdefaults__", function_field<&PyFunctionObject::func_kwdefaults>},
    {".__closure__", function_field<&PyFunctionObject::func_closure>},
    {".__globals__", function_field<&PyFunctionObject::func_globals>},
    {".__name__", function_field<&PyFunctionObject::func_name>},
    {".__qualname__", function_field<&PyFunctionObject::func_qualname>},
    {".__doc__", function_field<&PyFunctionObject::func_doc>},
    {".__module__", function_field<&PyFunctionObject::func_module>},
    {".__type_params__", type_params_of},
    {".__annotations__", function_field<&PyFunctionObject::func_annotations>},
    {".cell_contents", cell_contents},
    {".__func__", method_field<&PyMethodObject::im_func>},
    {".__self__", method_field<&PyMethodObject::im_self>},
    {"()", nullptr, weakref_referent},
    {".__self__", builtin_self},
    {".__mro__", type_mro},
    {".__name__", type_field<&PyHeapTypeObject::ht_name>},
    {".__qualname__", type_field<&PyHeapTypeObject::ht_qualname>},
    {".__subclasses__()", nullptr, type_subclasses},
    {".grad", nullptr, tensor_grad},
    {".iterated", iterator_source},
    {".parts", nullptr, getter_parts},
    {".maxlen", nullptr, nullptr, deque_limit},
    {" as a tensor", nullptr, nullptr, tensor_over},
    {".__len__()", nullptr, nullptr, sequence_length},
    {".storage_offset()", nullptr, nullptr, storage_offset},
    {".item()", nullptr, nullptr, array_number},
};
static_assert(std::size(kMembers) == static_cast<size_t>(Member::array_number) + 1);

PyObject* load_member(PyObject* object, uint32_t member, Ref& made) noexcept {
  const MemberRow& row = kMembers[member];
  if (row.read) return row.read(object);
  if (row.make) return (made = row.make(object)).get();
  const Place place = row.place(object);
  return place ? *place : nullptr;
}

// ----------------------------------------------------------------------------------------------- loads

PyObject* load_argument(const Source& source, const Call& call) noexcept {
  return source.index < call.size() ? call.arguments[source.index] : nullptr;
}

PyObject* const* slot_place(PyObject* object, PyObject* descriptor) noexcept {
  if (!PyObject_TypeCheck(object, PyDescr_TYPE(descriptor))) return nullptr;
  const Py_ssize_t offset = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member->offset;
  return reinterpret_cast<PyObject* const*>(reinterpret_cast<const char*>(object) + offset);
}

PyObject* load_slot(PyObject* object, PyObject* descriptor) noexcept {
  PyObject* const* place = slot_place(object, descriptor);
  if (!place) return nullptr;
  return !*place && reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member->type == T_OBJECT ? Py_None
                                                                                                   : *place;
}

PyObject* load_context_value(PyObject* variable) noexcept {
  if (!PyContextVar_CheckExact(variable)) return nullptr;
  PyObject* value = nullptr;
  if (PyContextVar_Get(variable, nullptr, &value) < 0) PyErr_Clear();
  Py_XDECREF(value);  // the context or the variable holds it
  return value;
}

PyObject* load_thread_local(PyObject* local, PyObject* name) noexcept {
  PyObject* dict = is_thread_local(local) ? thread_local_dict(local) : nullptr;
  PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (!value) PyErr_Clear();
  return value;
}

// ------------------------------------------------------------------------------------------------ text

/// Appended piece by piece: a capture of a large model names hundreds of tensors, each by a path of many parts.
template <typename... Parts>
std::string joined(const Parts&... parts) {
  std::string text;
  (text.append(parts), ...);
  return text;
}

std::string key_text(PyObject* key) {
  if (!PyUnicode_CheckExact(key)) return describe(key);
  const char* text = PyUnicode_AsUTF8(key);
  if (text && !std::strpbrk(text, "\"\\\n\t")) return joined("\"", text, "\"");
  PyErr_Clear();
  return describe(key);
}

std::string plain_name(PyObject* name) {
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text) PyErr_Clear();
  return text ? text : "?";
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// The dict in which nn.Module keeps what reads as attributes of it: `self.__dict__["_modules"]["layer"]`.
bool is_module_table(const Source* source) {
  if (source->kind != SourceKind::dict_item || source->parent->kind != SourceKind::dict_of) return false;
  if (!PyUnicode_CheckExact(source->key.get())) return false;
  for (const char* table : {"_modules", "_parameters", "_buffers"})
    if (PyUnicode_CompareWithASCIIString(source->key.get(), table) == 0) return true;
  return false;
}

std::string item_text(const Source* source) {
  const Source* dict = source->parent;
  PyObject* key = source->key.get();
  const bool named = PyUnicode_CheckExact(key);
  if (named && dict->kind == SourceKind::dict_of) return to_text(dict->parent) + "." + plain_name(key);
  if (named && is_module_table(dict)) {
    const std::string owner = to_text(dict->parent->parent), name = plain_name(key);
    return is_number(name) ? joined(owner, "[", name, "]") : joined(owner, ".", name);
  }
  return joined(to_text(dict), "[", key_text(key), "]");
}

}  // namespace

// ----------------------------------------------------------------------------------------------- table

bool SourceTable::Identity::operator==(const Identity& other) const noexcept {
  if (kind != other.kind || index != other.index || parent != other.parent) return false;
  if (key == other.key) return true;
  return key && other.key && kind != SourceKind::object && same_constant(key, other.key);
}

size_t SourceTable::IdentityHash::operator()(const Identity& identity) const noexcept {
  size_t hash = static_cast<size_t>(identity.kind) * 31 + identity.index;
  hash = hash * 0x9E3779B97F4A7C15u ^ reinterpret_cast<uintptr_t>(identity.parent) >> 4;
  if (!identity.key) return hash;
  const Py_hash_t key =
      identity.kind == SourceKind::object ? _Py_HashPointer(identity.key) : constant_hash(identity.key);
  return hash * 0x9E3779B97F4A7C15u ^ static_cast<size_t>(key);
}

Source* SourceTable::intern(SourceKind kind, const Source* parent, uint32_t index, PyObject* key,
                            std::string_view label) {
  const auto [at, added] = interned_.try_emplace(Identity{kind, index, parent, key}, nullptr);
  if (!added) return at->second;
  auto source = std::make_unique<Source>();
  source->kind = kind;
  source->index = index;
  source->number = static_cast<uint32_t>(sources_.size());
  source->parent = parent;
  source->key = Ref::borrow(key);
  source->label = label;
  at->second = source.get();
  sources_.push_back(std::move(source));
  return at->second;
}

const Source* SourceTable::argument(uint32_t index, std::string_view name) {
  return intern(SourceKind::argument, nullptr, index, nullptr, name);
}
const Source* SourceTable::object(PyObject* object, std::string_view text) {
  return intern(SourceKind::object, nullptr, 0, object, text);
}
const Source* SourceTable::function_mode(uint32_t index) {
  return intern(SourceKind::function_mode, nullptr, index, nullptr);
}
const Source* SourceTable::dict_of(const Source* object) {
  return intern(SourceKind::dict_of, object, 0, nullptr);
}
const Source* SourceTable::type_of(const Source* object) {
  return intern(SourceKind::type_of, object, 0, nullptr);
}

const Source* SourceTable::dict_item(const Source* dict, PyObject* key) {
  const Py_hash_t hash = is_plain_key(key) || is_tensor_key(key) ? hash_of_key(key) : 0;
  BRAZE_CHECK(hash != -1 || !PyErr_Occurred(), "a key without hash: ", describe(key));
  Source* source = intern(SourceKind::dict_item, dict, 0, key);
  source->hash = hash;
  return source;
}
const Source* SourceTable::dict_item(const Source* dict, const char* key) {
  return dict_item(dict, intern_name(key).get());
}
const Source* SourceTable::dict_key(const Source* dict, uint32_t position) {
  return intern(SourceKind::dict_key, dict, position, nullptr);
}
const Source* SourceTable::sequence_item(const Source* sequence, uint32_t index) {
  return intern(SourceKind::sequence_item, sequence, index, nullptr);
}
const Source* SourceTable::slot(const Source* object, PyObject* descriptor) {
  BRAZE_CHECK(is_object_member(descriptor), "not a member that holds an object: ", describe(descriptor));
  return intern(SourceKind::slot, object, 0, descriptor);
}
const Source* SourceTable::type_attribute(const Source* type, PyObject* name) {
  return intern(SourceKind::type_attribute, type, 0, name);
}
const Source* SourceTable::member(const Source* object, Member member) {
  return intern(SourceKind::member, object, static_cast<uint32_t>(member), nullptr);
}
const Source* SourceTable::context_value(const Source* variable) {
  return intern(SourceKind::context_value, variable, 0, nullptr);
}
const Source* SourceTable::thread_local_attribute(const Source* local, PyObject* name) {
  return intern(SourceKind::thread_local_attribute, local, 0, name);
}
const Source* SourceTable::next_item(const Source* iterator, uint32_t index) {
  return intern(SourceKind::next_item, iterator, index, nullptr);
}
const Source* SourceTable::next_key(const Source* iterator, uint32_t index) {
  return intern(SourceKind::next_key, iterator, index, nullptr);
}
const Source* SourceTable::drawn(const Source* generator, PyObject* draws) {
  return intern(SourceKind::drawn, generator, static_cast<uint32_t>(PyTuple_GET_SIZE(draws)), draws);
}

const Source* SourceTable::attribute(const Source* object, PyObject* name) {
  return dict_item(dict_of(object), name);
}
const Source* SourceTable::attribute(const Source* object, const char* name) {
  return attribute(object, intern_name(name).get());
}
const Source* SourceTable::closure_variable(const Source* function, uint32_t index, std::string_view name) {
  const Source* cell = sequence_item(member(function, Member::function_closure), index);
  const Source* contents = member(cell, Member::cell_contents);
  label(contents, name);
  return contents;
}

void SourceTable::label(const Source* source, std::string_view text) {
  Source& own = *sources_[source->number];
  BRAZE_CHECK(&own == source, "a source of another table");
  if (own.label.empty()) own.label = text;
}

// ------------------------------------------------------------------------------------------ evaluation

/// Where a sequence_item source finds its item.
static size_t place_in(PyObject* sequence, uint32_t index) noexcept {
  const bool has_items = PyList_Check(sequence) || PyTuple_Check(sequence);
  return has_items ? place_of_index(index, Py_SIZE(sequence)) : index;
}

PyObject* load(const Source& source, PyObject* parent, const Call& call) noexcept {
  switch (source.kind) {
    case SourceKind::argument: return load_argument(source, call);
    case SourceKind::object: return source.key.get();
    case SourceKind::function_mode: return function_mode_at(source.index);
    case SourceKind::dict_of: return instance_dict(parent);
    case SourceKind::type_of: return reinterpret_cast<PyObject*>(Py_TYPE(parent));
    case SourceKind::dict_item: return dict_entry(parent, source.key.get(), source.hash);
    case SourceKind::dict_key: return dict_key_at(parent, source.index);
    case SourceKind::sequence_item:
      return is_deque(parent) ? deque_item(parent, source.index) : item_at(parent, place_in(parent, source.index));
    case SourceKind::slot: return load_slot(parent, source.key.get());
    case SourceKind::type_attribute:
      return PyType_Check(parent) ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(parent), source.key.get())
                                  : nullptr;
    case SourceKind::member: return load_member(parent, source.index, source.made);
    case SourceKind::context_value: return load_context_value(parent);
    case SourceKind::thread_local_attribute: return load_thread_local(parent, source.key.get());
    case SourceKind::next_item: return next_item(parent, source.index, source.made);
    case SourceKind::next_key: return next_key(parent, source.index, source.made);
    case SourceKind::drawn: return (source.made = peek(parent, source.key.get())).get();
  }
  return nullptr;
}

PyObject* const* place_of(const Source& source, PyObject* parent) noexcept {
  switch (source.kind) {
    // Each thread has a dict of its own there.
    case SourceKind::dict_of: return is_thread_local(parent) ? nullptr : _PyObject_GetDictPtr(parent);
    case SourceKind::type_of: return reinterpret_cast<PyObject* const*>(&parent->ob_type);
    case SourceKind::slot: return slot_place(parent, source.key.get());
    case SourceKind::member: {
      const MemberRow& row = kMembers[source.index];
      return row.place ? row.place(parent) : nullptr;
    }
    case SourceKind::sequence_item: {
      const size_t index = place_in(parent, source.index);
      if (!item_at(parent, index)) return nullptr;
      return PyList_Check(parent) ? reinterpret_cast<PyListObject*>(parent)->ob_item + index
                                  : reinterpret_cast<PyTupleObject*>(parent)->ob_item + index;
    }
    default: return nullptr;
  }
}

PyObject* evaluate(const Source* source, const Call& call) noexcept {
  PyObject* parent = nullptr;
  if (source->parent) {
    parent = evaluate(source->parent, call);
    if (!parent) return nullptr;
  }
  return load(*source, parent, call);
}

std::string to_text(const Source* source) {
  if (!source->label.empty()) return source->label;
  const auto number = [&] { return std::to_string(source->index); };
  switch (source->kind) {
    case SourceKind::argument: return joined("args[", number(), "]");
    case SourceKind::object: return describe(source->key.get());
    case SourceKind::function_mode: return joined("torch function mode ", number());
    case SourceKind::dict_of: return to_text(source->parent) + ".__dict__";
    case SourceKind::type_of: return joined("type(", to_text(source->parent), ")");
    case SourceKind::dict_item: return item_text(source);
    case SourceKind::dict_key: return joined("list(", to_text(source->parent), ")[", number(), "]");
    case SourceKind::sequence_item:
      return joined(to_text(source->parent), "[", std::to_string(static_cast<int32_t>(source->index)), "]");
    case SourceKind::slot: return joined(to_text(source->parent), ".", plain_name(PyDescr_NAME(source->key.get())));
    case SourceKind::type_attribute:
    case SourceKind::thread_local_attribute:
      return joined(to_text(source->parent), ".", plain_name(source->key.get()));
    case SourceKind::member: return to_text(source->parent) + kMembers[source->index].text;
    case SourceKind::context_value: return to_text(source->parent) + ".get()";
    case SourceKind::next_item: return joined("list(", to_text(source->parent), ")[", number(), "]");
    case SourceKind::next_key: return joined("list(", to_text(source->parent), ")[", number(), "][0]");
    case SourceKind::drawn: return joined("number ", number(), " of ", to_text(source->parent));
  }
  return "?";
}

bool is_object_member(PyObject* descriptor) noexcept {
  if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return false;
  const int type = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member->type;
  return type == T_OBJECT || type == T_OBJECT_EX;
}

}  // namespace braze::guards
