#include "capture/number.h"

#include <ATen/ATen.h>
#include <c10/core/ConstantSymNodeImpl.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymNodeImpl.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>
#include <vector>

#include "capture/numbers_in_calls.h"
#include "capture/recorder.h"
#include "capture/size_node.h"
#include "capture/unguarded_numbers.h"
#include "support/error.h"

namespace braze::capture {
namespace {

/// What a number is compared with.
class PlainNumber final : public c10::SymNodeImpl {
 public:
  explicit PlainNumber(double value) : value_(value) {}
  bool is_float() override { return true; }
  bool is_int() override { return false; }
  bool is_bool() override { return false; }
  double guard_float(const char*, int64_t) override { return value_; }
  std::string str() override { return "number"; }

 private:
  const double value_;
};

class NumberNode final : public c10::SymNodeImpl, public HasNumber {
 public:
  NumberNode(at::Tensor number, std::optional<NumberInCall> call)
      : number_(std::move(number)), call_(std::move(call)) {}
  at::Tensor number_of_trace() const override { return number_; }
  const std::optional<NumberInCall>& call() const { return call_; }

  bool is_float() override { return true; }
  bool is_int() override { return as_int; }
  bool is_bool() override { return false; }
  bool is_nested_int() const override { return false; }
  bool is_symbolic() override { return true; }
  bool is_constant() override { return false; }
  bool has_hint() override { return false; }
  c10::SymNode clone() override { return c10::make_intrusive<NumberNode>(number_, call_); }
  std::string str() override { return "number"; }
  std::string _graph_repr() override { return str(); }
  double guard_float(const char*, int64_t) override;
  c10::SymNode wrap_float(double value) override { return c10::make_intrusive<PlainNumber>(value); }
  /// Gradients ask whether a factor is one, to leave it out: they have it multiplied.
  c10::SymNode eq(const c10::SymNode&) override {
    return c10::make_intrusive<c10::ConstantSymNodeImpl<bool>>(false);
  }
  void fix() const {
    check_trace();
    call_->fix();
  }

  bool as_int = false;  ///< node_as_int() alone.

 private:
  /// Throws UserError where it is of a finished trace.
  void check_trace() const {
    if (Tracer* tracer = Tracer::current()) tracer->impl().view_of(number_);
  }
  const at::Tensor number_;
  const std::optional<NumberInCall> call_;
};

/// Of this thread, while it calls one operator.
struct Parsing {
  std::vector<c10::SymNode> numbers;  ///< That the parser has asked for.
  std::vector<Dim> sizes;             ///< Likewise, where it wants ints.
  std::string takes_sizes;            ///< The operator that it parses these for.
  bool in_lists = false;              ///< Some of these sizes may be items of lists.
  int operators = 0;                  ///< That run, one within the other.
  bool is_expected = false;
  c10::SymNode* asked = nullptr;  ///< Whoever is asked tells who it is.
};
thread_local Parsing parsing;  // NOLINT: operators are plain functions, and have no other way to it.

NumberNode& node_of(const c10::SymNode& number) {
  return static_cast<NumberNode&>(*number);
}

double NumberNode::guard_float(const char*, int64_t) {
  if (parsing.asked) {
    *parsing.asked = clone();
    return 0;
  }
  if (UnguardedNumbers::current()) return 0;
  if (WithinRule::current()) throw NumberWanted();
  if (!call_) throw UserError("braze: an operator wants the value of a number that inputs decide");
  if (parsing.is_expected && parsing.operators == 0)
    parsing.numbers.push_back(clone());
  else
    fix();
  return call_->value;
}

bool is_float(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return (optional ? optional->getElementType() : type)->kind() == c10::TypeKind::FloatType;
}

const HasNumber* node_behind(const c10::IValue& value) {
  if (!value.isSymFloat()) return nullptr;
  const c10::SymFloat number = value.toSymFloat();
  return number.is_symbolic() ? dynamic_cast<const HasNumber*>(number.toSymNodeImplUnowned()) : nullptr;
}

}  // namespace

thread_local bool WithinRule::current_ = false;
thread_local bool SizesForRules::refused_ = false;

/// PyTorch makes of a torch.SymFloat a node that asks what it holds by its Python object.
static void unwrap(c10::IValue& argument) {
  if (!argument.isSymFloat() || node_behind(argument) || !argument.toSymFloat().is_symbolic()) return;
  c10::SymNode number;
  parsing.asked = &number;
  try {
    argument.toSymFloat().guard_float(__FILE__, __LINE__);
  } catch (const std::exception&) {  // It is somebody else's.
    number.reset();
  }
  parsing.asked = nullptr;
  if (number) argument = c10::SymFloat(number);
}

namespace {

void specialise(Dim size) {
  static_cast<void>(static_cast<int64_t>(size));
}

/// An int, or a list of ints: not of what PyTorch takes as symbols.
bool takes_ints(const c10::Argument& argument, bool lists) {
  const auto optional = argument.real_type()->cast<c10::OptionalType>();
  const c10::TypePtr& type = optional ? optional->getElementType() : argument.real_type();
  if (type->kind() == c10::TypeKind::IntType) return !lists;
  const auto list = type->cast<c10::ListType>();
  return lists && list && list->getElementType()->kind() == c10::TypeKind::IntType;
}

/// Where an int stands among the arguments.
struct Place {
  size_t argument;
  std::optional<size_t> item;  ///< In a list.
};

std::vector<Place> places_of(int64_t value, const c10::OperatorHandle& op, std::span<const c10::IValue> arguments) {
  std::vector<Place> places;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& argument = op.schema().arguments()[i];
    if (arguments[i].isInt() && takes_ints(argument, false) && arguments[i].toInt() == value)
      places.push_back({i, std::nullopt});
    if (!arguments[i].isIntList() || !takes_ints(argument, true)) continue;
    const auto items = arguments[i].toDimVector();
    for (size_t k = 0; k < items.size(); ++k)
      if (items[k] == value) places.push_back({i, k});
  }
  return places;
}

/// One number for all items of a list, where none was given as an item: (2, n) is no n for both, whatever n is.
bool fills_list(const std::vector<Place>& places, std::span<const c10::IValue> arguments) {
  return !parsing.in_lists && !places.empty() && places[0].item &&
         std::ranges::all_of(places, [&](const Place& one) { return one.argument == places[0].argument; }) &&
         places.size() == arguments[places[0].argument].toDimVector().size();
}

void put_size(Dim size, const Place& place, std::span<c10::IValue> arguments) {
  c10::IValue& argument = arguments[place.argument];
  if (!place.item) {
    argument = to_sym_int(size);
    return;
  }
  std::vector<c10::SymInt> items;
  if (argument.isIntList())
    for (const int64_t item : argument.toDimVector()) items.emplace_back(item);
  else
    items = argument.toSymIntVector();
  items[*place.item] = to_sym_int(size);
  argument = c10::IValue(c10::SymIntArrayRef(items));
}

/// The parser asks in no known order. So it must be known which size is meant at each place of one value: all are
/// the same, and nothing else is among them.
void put_sizes(const c10::OperatorHandle& op, std::span<c10::IValue> arguments) {
  std::vector<Dim> sizes = std::exchange(parsing.sizes, {});
  std::vector<std::pair<Dim, Place>> found;
  while (!sizes.empty()) {
    const Dim size = sizes[0];
    std::vector<Dim> alike;
    std::ranges::copy_if(sizes, std::back_inserter(alike), [&](Dim one) { return one.hint() == size.hint(); });
    std::erase_if(sizes, [&](Dim one) { return one.hint() == size.hint(); });
    const std::vector<Place> places = places_of(size.hint(), op, arguments);
    const bool is_clear = op.schema().name() == parsing.takes_sizes &&
                          (places.size() == alike.size() || (alike.size() == 1 && fills_list(places, arguments)));
    if (is_clear && std::ranges::all_of(alike, [&](Dim one) { return one.size() == size.size(); }))
      for (const Place& place : places) found.emplace_back(size, place);
    else
      for (const Dim one : alike) specialise(one);
  }
  for (const auto& [size, place] : found) put_size(size, place, arguments);
}

}  // namespace

void fix_lists_of_integers(const c10::OperatorHandle& op, std::span<c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (has_symbols(arguments[i]) && takes_ints(op.schema().arguments()[i], true))
      arguments[i] = specialised(arguments[i]);
}

bool has_size_as_integer(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& argument = op.schema().arguments()[i];
    if (has_symbols(arguments[i]) && (takes_ints(argument, false) || takes_ints(argument, true))) return true;
  }
  return false;
}

void ParsedNumbers::put(const c10::OperatorHandle& op, std::span<c10::IValue> arguments) {
  for (c10::IValue& argument : arguments) unwrap(argument);
  put_sizes(op, arguments);
  for (const c10::SymNode& number : std::exchange(parsing.numbers, {})) {
    const NumberInCall& call = *node_of(number).call();
    c10::IValue* place = nullptr;
    bool is_one = op.schema().name() == call.name;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].isDouble() || !is_float(op.schema().arguments()[i].type())) continue;
      if (std::bit_cast<uint64_t>(arguments[i].toDouble()) != std::bit_cast<uint64_t>(call.value)) continue;
      is_one &= !place;
      place = &arguments[i];
    }
    if (place && is_one)
      *place = c10::SymFloat(number);
    else
      node_of(number).fix();
  }
}

void ParsedNumbers::expect() {
  parsing.is_expected = true;
}

void ParsedNumbers::expect_integers(std::string name, bool in_lists) {
  parsing.is_expected = true;
  parsing.in_lists = in_lists;
  parsing.takes_sizes = std::move(name);
}

bool ParsedNumbers::asks_for_integer(Dim size) {
  if (!parsing.is_expected || parsing.operators != 0 || parsing.takes_sizes.empty()) return false;
  parsing.sizes.push_back(size);
  return true;
}

void ParsedNumbers::fix() {
  parsing.is_expected = false;
  parsing.takes_sizes.clear();
  for (const Dim size : std::exchange(parsing.sizes, {})) specialise(size);
  for (const c10::SymNode& number : std::exchange(parsing.numbers, {})) node_of(number).fix();
}

void ParsedNumbers::forget() {
  parsing.is_expected = false;
  parsing.numbers.clear();
  parsing.sizes.clear();
  parsing.takes_sizes.clear();
}

ParsedNumbers::OperatorScope::OperatorScope() {
  ++parsing.operators;
}

ParsedNumbers::OperatorScope::~OperatorScope() {
  --parsing.operators;
}

bool ParsedNumbers::OperatorScope::is_outermost() const {
  return parsing.operators == 1;
}

at::Tensor to_number(const at::Tensor& tensor) {
  at::Tensor number = tensor.detach().reshape({}).to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

bool is_number(const at::Tensor& tensor) {
  return tensor.defined() && as_tracer(tensor) && tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
         tensor.scalar_type() == at::kDouble;
}

c10::SymFloat to_sym_float(const at::Tensor& number) {
  return c10::SymFloat(c10::SymNode(c10::make_intrusive<NumberNode>(number, std::nullopt)));
}

c10::SymFloat to_sym_float(const at::Tensor& number, NumberInCall call) {
  return c10::SymFloat(c10::SymNode(c10::make_intrusive<NumberNode>(number, std::move(call))));
}

c10::SymInt node_as_int(const c10::SymFloat& number) {
  const c10::SymNode node = number.toSymNodeImpl();
  bool& as_int = node_of(node).as_int;
  as_int = true;
  c10::SymInt made(node);
  as_int = false;
  return made;
}

at::Tensor number_behind(const c10::IValue& value) {
  const HasNumber* node = node_behind(value);
  return node ? node->number_of_trace() : at::Tensor();
}

bool can_be_fixed(const c10::IValue& value) {
  return example_behind(value).has_value();
}

namespace {

const NumberInCall* call_behind(const c10::IValue& value) {
  const auto* node = dynamic_cast<const NumberNode*>(node_behind(value));
  return node && node->call() ? &*node->call() : nullptr;
}

}  // namespace

std::optional<double> example_behind(const c10::IValue& value) {
  const NumberInCall* call = call_behind(value);
  return call ? std::optional(call->value) : std::nullopt;
}

std::optional<std::pair<ir::Size, ir::Size>> quotient_behind(const c10::IValue& value) {
  const NumberInCall* call = call_behind(value);
  return call ? call->quotient : std::nullopt;
}

}  // namespace braze::capture
