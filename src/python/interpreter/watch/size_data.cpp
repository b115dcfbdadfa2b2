// python/interpreter/watch/size_data.cpp: tensors that are made of Python's numbers, sizes among them.
//
// PyTorch reads each number of `torch.tensor([n, 3])` by itself, and would have a constant of it. Here the tensor
// is put together in the graph before the call, which only converts it then.
#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "python/interpreter/activation.h"
#include "python/interpreter/watch/look_ups.h"
#include "python/interpreter/watch/scalar_world.h"
#include "python/interpreter/watch/sizes.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

namespace {

constexpr int deepest_data = 4;       // Levels of lists.
constexpr Py_ssize_t most_data = 64;  // Numbers in each: a node or two for each of them.

/// A number, or a list or tuple of such.
class Data {
 public:
  Data(Numbers& numbers, ScalarWorld& world) : numbers_(numbers), world_(world) {}

  /// False: something else is in it.
  bool look(PyObject* value, int level = 0) {
    if (is_sequence(value)) {
      const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
      if (level == deepest_data || count == 0 || count > most_data) return false;
      return std::all_of(PySequence_Fast_ITEMS(value), PySequence_Fast_ITEMS(value) + count,
                         [&](PyObject* item) { return look(item, level + 1); });
    }
    varies_ |= numbers_.size_of(value) || numbers_.derived_of(value);
    any_real_ |= PyFloat_CheckExact(value);
    any_whole_ |= PyLong_CheckExact(value);
    return PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value);
  }
  bool varies() const { return varies_; }

  /// Null: it cannot be made.
  Ref make(PyObject* value, bool is_typed) const {
    const ElementType type = any_real_ ? (is_typed ? ElementType::exact : ElementType::real)
                                       : (any_whole_ ? ElementType::whole : ElementType::truth);
    return make_of(value, type);
  }

 private:
  Ref make_of(PyObject* value, ElementType type) const {
    if (!is_sequence(value))
      return world_.element(value, numbers_.size_of(value), numbers_.derived_of(value), type);
    std::vector<Ref> parts;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      parts.push_back(make_of(PySequence_Fast_GET_ITEM(value, i), type));
      if (!parts.back()) return {};
    }
    return world_.stack(parts);
  }

  Numbers& numbers_;
  ScalarWorld& world_;
  bool varies_ = false, any_real_ = false, any_whole_ = false;
};

/// Only a type and a device are asked for. Nothing: something else is.
std::optional<bool> asks_for_type(Activation& a, PyObject* keywords) {
  bool any = false;
  const auto count = static_cast<int>(keywords ? PyTuple_GET_SIZE(keywords) : 0);
  for (int i = 0; i < count; ++i) {
    const std::string_view name = text_of(PyTuple_GET_ITEM(keywords, i));
    if (name != "dtype" && name != "device") return std::nullopt;
    any |= name == "dtype" && a.peek(count - i) != Py_None;
  }
  return any;
}

PyObject* as_tensor() {
  PyObject* torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  return torch && PyModule_Check(torch) ? PyDict_GetItemString(PyModule_GetDict(torch), "as_tensor") : nullptr;
}

}  // namespace

/// `torch.tensor(data)`, `as_tensor` and `asarray` become `torch.as_tensor(tensor)`, and `x.new_tensor(data)`
/// becomes `tensor.to(x)`.
void Sizes::give_data(Activation& a, std::string_view name, int count) {
  auto* const world = dynamic_cast<ScalarWorld*>(&values_.tensors().sizes());
  const bool is_new = name == "new_tensor";
  if (!world || !(is_new || name == "tensor" || name == "as_tensor" || name == "asarray")) return;
  PyObject* keywords = run_.keyword_names;
  const Py_ssize_t placed = count - (keywords ? PyTuple_GET_SIZE(keywords) : 0);
  const std::optional<bool> is_typed = asks_for_type(a, keywords);
  if (!is_typed || placed != (is_new ? 2 : 1) || (is_new && keywords)) return;
  PyObject*& data = a.peek(is_new ? 1 : count);
  PyObject* const to = class_entry(values_.tensors().tensor_type(), "to");
  PyObject*& callable = a.peek(count + 1);
  if (is_new ? !to || !Py_IS_TYPE(callable, &PyMethodDescr_Type) : !as_tensor()) return;
  Data numbers(values_.numbers(), *world);
  if (!numbers.look(data) || !numbers.varies()) return;
  Ref made = numbers.make(data, is_new || *is_typed);
  if (!made) return;
  values_.make(made.get());
  Ref::steal(std::exchange(data, made.release()));
  if (is_new) std::swap(a.peek(1), a.peek(2));
  Ref::steal(std::exchange(callable, Py_NewRef(is_new ? to : as_tensor())));
}

}  // namespace braze::interpreter
