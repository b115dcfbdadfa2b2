// python/interpreter/watch/sizes.h: sizes that may be other ones at later calls.
//
// Where sizes of tensors are symbols of the trace, the run sees them as numbers, those of this call, and as numbers
// they behave; but each is an object that nothing else in the run is, so that its expression is known by identity,
// as where other objects come from. Whatever an instruction does with one is one of three:
//
//   it only moves it, or puts it somewhere            nothing is guarded
//   it computes with it what expressions can say,     the result is an expression; the answer is decided for this
//   compares it, branches on it                       call and guarded ("n >= 5")
//   anything else: `range(n)`, f"{n}", a dict's key   it is specialised: a guard says which number it is
//
// Operators of tensors are given what PyTorch has for such sizes, torch.SymInt, and what they give is turned back.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "python/interpreter/watch/domain.h"

namespace braze::interpreter {

enum class UnaryOperation : uint8_t;
struct GivenOperands;

/// A list, tuple or torch.Size.
bool is_sequence(PyObject* value);
/// A dict or OrderedDict, and no subclass: what it does with a key is known.
bool is_plain_dict(PyObject* value);
/// Attributes and methods by which a tensor tells what it is, and not how large: a tracer is another tensor.
bool says_of_itself(std::string_view name);
/// It stands for a number that may be another one at a later call.
bool is_varying(const Values& values, PyObject* value);
/// The function that partials end in, borrowed.
PyObject* behind_partials(PyObject* callable);

/// Sizes that may be other ones at later calls.
class Sizes final : Domain {
 public:
  using Domain::Domain;

  /// Before an instruction is looked at: a tensor whose sizes vary is the tracer that stands for it wherever sizes
  /// may be read.
  void put_tracers(Activation& a, int opcode, int arg);
  /// After an instruction was looked at: what it does with sizes.
  void look_at_sizes(Activation& a, int opcode, int arg);
  /// What stands for a number that varies is of this value only: somebody asks which object it is. Of a small one
  /// there is one object, which is put in its place.
  void put_number(PyObject*& operand);
  /// Whether both stand for one object, read once or at one place; the first is put in the place of the second.
  bool put_one_number(PyObject* first, PyObject*& second);
  /// The tensor itself in the place of what stands for it, likewise.
  void put_tensor(PyObject*& operand);
  /// Somebody reads sizes of the tensors that a value is, holds or is bound to, without being given their tracers:
  /// they are those of this call.
  void settle_tensors_within(PyObject* value);
  /// What an instruction has left on top, with sizes as the run sees them.
  void take_sizes(Activation& a);

 private:
  std::optional<ir::Size> as_size(PyObject* value) const;
  Ref for_tensors(PyObject* value, int depth = 0);
  void give_to_tensors(PyObject*& operand);
  bool give_number(PyObject*& operand, PyObject* beside);
  void put_tracer(PyObject*& operand);
  void put_tracers_of_call(Activation& a, int arg);
  void settle_tensors_within(PyObject* value, std::unordered_set<PyObject*>& seen);
  /// `a[b:c]` and `a[b:c] = d`. \param sliced  the depth of a.
  void look_at_slice(Activation& a, int sliced, bool stores);
  void select_by_sizes(PyObject*& tensor, PyObject*& index);
  void give_numbers(const GivenOperands& given, std::string_view name);
  void give_floats(const GivenOperands& given);
  void give_data(Activation& a, std::string_view name, int count);
  void give_scalars(const GivenOperands& given, std::string_view name);
  void give_operands(const GivenOperands& given);
  void give_flat(PyObject* function, std::vector<Ref>& items, std::vector<Ref>& values,
                 const std::vector<PyObject*>& names);
  bool operator_of_sizes(Activation& a, PyObject* callable, int count);
  bool give_held(Activation& a, int arg, PyObject* function);
  bool give_unpacked(PyObject* function, PyObject*& items, PyObject** named);
  bool tells_truths(PyObject* sequence, bool until);
  std::optional<ir::Size> as_expression(ir::Size a, ir::Size b, int operation);
  void compute_size(PyObject*& left, PyObject*& right, int operation);
  void compute_unary(PyObject* operand, UnaryOperation operation);
  std::optional<bool> are_equal(PyObject* one, PyObject* other);
  bool compare_sequences(PyObject* left, PyObject* right, int comparison);
  bool contains_size(PyObject* container, PyObject* value, bool asks_all = false);
  bool finds_key(PyObject* container, PyObject* key, bool stores = false);
  void settle_operands(Activation& a, int opcode, int arg);
  void look_at_key(PyObject* container, PyObject* key);
  bool sorts_sizes(PyObject* sequence, bool is_reverse);
  void compare_sizes(PyObject*& left, PyObject*& right, int comparison);
  bool builtin_of_sizes(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  bool combine_sizes(PyObject* sequence, bool is_product, PyObject* start);
  void give_sizes(Activation& a, int arg);
  void give_unpacked_sizes(Activation& a, int arg);

  std::unordered_set<PyObject*> size_keyed_;  ///< Dicts into which sizes were stored as keys. Only compared.
};

}  // namespace braze::interpreter
