#include "capture/guess_shapes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <ranges>
#include <set>

#include "capture/arguments.h"
#include "capture/call.h"
#include "capture/devices.h"
#include "capture/library_call.h"
#include "capture/numbers_in_calls.h"
#include "capture/shapes.h"
#include "capture/size_node.h"
#include "support/error.h"

namespace braze::capture {
namespace {

using Values = std::vector<int64_t>;
using Held = std::vector<bool>;  ///< By symbol: it stays what it is in the example. Empty: none does.

constexpr int64_t whole_step = 16;  // From here on steps are multiples of what sizes are divided by, as of patches.
// Beside the example. A wrong expression seldom fits as many; between two bounds there may be no more than a few.
constexpr size_t wanted_points = 4, fewest_points = 2;

// ---- values of symbols

/// Values that keep all guards, unlike the example's. `step` and its number tell them apart.
std::optional<Values> values_at(ir::ShapeEnv& env, int64_t step, uint32_t number, bool in_step, const Held& held) {
  const std::span<const int64_t> examples = env.examples();
  Values values(examples.begin(), examples.end());
  std::vector<std::pair<uint32_t, ir::Size>> bound;  // Symbols that others decide.
  for (uint32_t slot = 0; slot < values.size(); ++slot) {
    const ir::Size symbol = *env.table().find(env.table().name(slot));
    const ir::Size known = env.simplify(symbol);
    if (known.is_constant()) continue;
    if (known != symbol) {
      bound.emplace_back(slot, known);
      continue;
    }
    if (!held.empty() && held[slot]) continue;
    const ir::SymbolFacts& facts = env.table().facts(slot);
    // No symbol is to grow as another one does, or as half of it, from point to point.
    const int64_t beside = step < whole_step ? slot % 3 : 0;
    const int64_t by = in_step ? step : step * (1 + slot * (number + 1) % 5) + beside;
    values[slot] += facts.modulus * by;
    if (values[slot] > facts.range.high) values[slot] = examples[slot] - facts.modulus * by;
    if (!facts.range.has(values[slot])) return std::nullopt;
  }
  const SizesAt at(values);
  for (const auto& [slot, size] : bound) values[slot] = at(size);
  if (Values(examples.begin(), examples.end()) == values || env.broken(values)) return std::nullopt;
  return values;
}

/// \param in_step  all symbols grow alike, so that what is equal in the example stays so: of square matrices.
std::vector<Values> points(ir::ShapeEnv& env, bool in_step, const Held& held = {}) {
  // 12 keeps what is divided by small numbers, 32 what is halved again and again.
  constexpr std::array<int64_t, 16> steps = {1, 2, 3, 4, 5, 6, 8, 12, 24, 36, 32, 64, 96, 128, 192, 256};
  std::vector<Values> all;
  // Down where there is no more room above, as in a buffer.
  for (const int64_t sign : {1, -1})
    for (uint32_t number = 0; number < steps.size() && all.size() < wanted_points; ++number) {
      std::optional<Values> values = values_at(env, sign * steps[number], number, in_step, held);
      if (values && std::ranges::find(all, *values) == all.end()) all.push_back(*std::move(values));
    }
  return all;
}

// ---- what sizes are made of

/// An expression with its values at the example and at the points.
struct Known {
  Dim dim;
  Values values;
};

class Expressions {
 public:
  explicit Expressions(std::vector<SizesAt> at) : at_(std::move(at)) {}

  void add(Dim dim) {
    if (dim.is_number() ||
        std::ranges::any_of(known_, [&](const Known& one) { return one.dim.size() == dim.size(); }))
      return;
    Known one{dim, {}};
    for (const SizesAt& at : at_) one.values.push_back(at(dim));
    known_.push_back(std::move(one));
  }

  /// The first of: a number; one of the known; a multiple of one, and a number; a part of one; half of one; the
  /// pairs that there are of so many; two of them.
  std::optional<Dim> find(const Values& wanted) const {
    if (std::ranges::all_of(wanted, [&](int64_t value) { return value == wanted[0]; })) return wanted[0];
    for (const Known& one : known_)
      if (one.values == wanted) return one.dim;
    for (const Known& one : known_) {
      const int64_t run = one.values[1] - one.values[0], rise = wanted[1] - wanted[0];
      if (run != 0 && rise % run == 0) {
        const Dim line = one.dim * (rise / run) + (wanted[0] - one.values[0] * (rise / run));
        if (fits(line, wanted)) return line;
      }
      if (wanted[0] > 1 && one.values[0] % wanted[0] == 0) {  // As channels of blocks.
        const Dim part = ir::floor_div(one.dim.size(), one.values[0] / wanted[0]);
        if (fits(part, wanted)) return part;
      }
      const Dim half = ir::floor_div(one.dim.size(), 2);
      const Dim shifted = half + (wanted[0] - at_[0](half));
      if (fits(shifted, wanted)) return shifted;
      for (const int64_t other : {1, -1})  // Pairs.
        if (const Dim pairs = ir::floor_div((one.dim * (one.dim + other)).size(), 2); fits(pairs, wanted))
          return pairs;
    }
    for (size_t a = 0; a < known_.size(); ++a)
      for (size_t b = 0; b < known_.size(); ++b) {
        const Dim one = known_[a].dim, other = known_[b].dim;
        for (const Dim made : {one + other, one * other, smaller(one, other), larger(one, other), one - other})
          if (fits(made, wanted)) return made;
      }
    return std::nullopt;
  }

  std::optional<Sizes> find_all(const std::vector<Places>& wanted) const {
    Sizes sizes;
    for (size_t k = 0; k < wanted[0].size(); ++k) {
      Values column;
      for (const Places& row : wanted) column.push_back(row[k]);
      const std::optional<Dim> size = find(column);
      if (!size) return std::nullopt;
      sizes.push_back(*size);
    }
    return sizes;
  }

  bool fits(DimsRef dims, const std::vector<Places>& wanted) const {
    for (size_t p = 0; p < at_.size(); ++p)
      if (at_[p](dims) != wanted[p]) return false;
    return true;
  }

 private:
  bool fits(Dim dim, const Values& wanted) const {
    for (size_t p = 0; p < at_.size(); ++p)
      if (at_[p](dim) != wanted[p]) return false;
    return true;
  }

  const std::vector<SizesAt> at_;
  std::vector<Known> known_;
};

// ---- asking

std::vector<at::Tensor> tensors_of(std::span<const c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(values, [&](const at::Tensor& tensor, uint32_t, int32_t) { tensors.push_back(tensor); });
  return tensors;
}

Expressions expressions_of(ir::ShapeEnv& env, std::span<const c10::IValue> arguments, std::vector<SizesAt> at) {
  Expressions known(std::move(at));
  for (const at::Tensor& tensor : tensors_of(arguments)) {
    for (const Dim size : dims_of(tensor)) known.add(size);
  }
  for (const c10::IValue& argument : arguments) {
    if (!has_symbols(argument)) continue;
    if (argument.isSymInt())
      known.add(dim_of(argument));
    else if (argument.isList())
      for (const c10::IValue& each : argument.toListRef()) known.add(dim_of(each));
  }
  for (const at::Tensor& tensor : tensors_of(arguments)) known.add(numel(dims_of(tensor)));
  // What sizes of operands are made of, as in 9*n.
  for (uint32_t slot = 0; slot < env.table().symbol_count(); ++slot)
    known.add(env.simplify(*env.table().find(env.table().name(slot))));
  return known;
}

/// The form of tensor number `k`, of which there is one for the example and each point. False: it is none that
/// fits.
bool find_form(const Expressions& known, const std::vector<std::vector<at::Tensor>>& tensors, size_t k,
               Shapes& shapes) {
  std::vector<Places> sizes, strides;
  for (const std::vector<at::Tensor>& row : tensors) {
    const at::Tensor& tensor = row[k];
    if (tensor.dim() != tensors[0][k].dim() || tensor.storage_offset() != 0) return false;
    if (tensor.layout() != c10::kStrided || tensor.scalar_type() != tensors[0][k].scalar_type()) return false;
    sizes.emplace_back(tensor.sizes().begin(), tensor.sizes().end());
    strides.emplace_back(tensor.strides().begin(), tensor.strides().end());
  }
  const std::optional<Sizes> found = known.find_all(sizes);
  if (!found) return false;
  Sizes lie = packed_strides(*found, strides[0]);
  if (!known.fits(lie, strides)) return false;
  if (!DimsRef(*found).is_numbers() || !DimsRef(lie).is_numbers())
    shapes.forms[tensors[0][k].unsafeGetTensorImpl()] = {*found, std::move(lie)};
  return true;
}

/// A written argument keeps its form, gaps included.
void keep_forms(const OpEntry& entry, std::span<const c10::IValue> arguments, Shapes& shapes) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!is_written(entry, i, arguments)) continue;
    const std::vector<at::Tensor> mine = tensors_of(arguments.subspan(i, 1)),
                                  asked = tensors_of({&shapes.arguments[i], 1});
    for (size_t k = 0; k < mine.size(); ++k) {
      const DimsRef sizes = dims_of(mine[k]), strides = strides_of(mine[k]);
      if (sizes.is_numbers() && strides.is_numbers()) continue;
      shapes.forms[asked[k].unsafeGetTensorImpl()] = {{sizes.begin(), sizes.end()},
                                                      {strides.begin(), strides.end()}};
    }
  }
}

/// Operators whose shapes have been guessed in this process.
class Guessed {
 public:
  static Guessed& instance() {
    static Guessed one;
    return one;
  }
  void add(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    names_.insert(name);
  }
  bool has(std::string_view name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return names_.contains(name);
  }

 private:
  std::mutex mutex_;
  std::set<std::string, std::less<>> names_;
};

/// Tensors that lie as a node's operands do, on their device, whose kernel answers; put where the call wants them.
/// Nobody reads their elements.
void put_operands(const ir::Node& node, CallPayload& payload, const SizesAt& at) {
  for (const CallPayload::Slot& slot : payload.slots) {
    if (slot.element == kNumberSlot) {
      payload.stack[slot.argument] = 1.0;  // No shape depends on it.
      continue;
    }
    const ir::Type& type = *ir::Graph::resolve(node.operands[slot.operand])->type;
    const at::Tensor operand =
        at::empty_strided(at(type.sizes), at(type.strides),
                          at::TensorOptions(to_scalar_type(type.dtype)).device(to_torch(type.device)));
    c10::IValue& argument = payload.stack[slot.argument];
    if (slot.element < 0) {
      argument = operand;
    } else if (argument.isTensorList()) {
      argument = argument.toTensorList().copy();
      argument.toTensorList().set(static_cast<size_t>(slot.element), operand);
    } else {
      argument = argument.toOptionalTensorList().copy();
      argument.toOptionalTensorList().set(static_cast<size_t>(slot.element), operand);
    }
  }
}

void check_call(const ir::Node& node, CallPayload payload, const SizesAt& at) {
  put_operands(node, payload, at);
  OpEntry entry(payload.op);
  entry.arguments = static_cast<uint32_t>(payload.stack.size());
  entry.returns = static_cast<uint32_t>(payload.op.schema().returns().size());
  entry.random = draws_numbers(payload.op);
  const Shapes shapes = ask_shapes(nullptr, entry, payload.stack);
  for (size_t k = 0; k < payload.results.size(); ++k) {
    const auto [returned, element] = payload.results[k];
    if (returned < 0) continue;  // A written argument.
    const c10::IValue& value = shapes.results.at(static_cast<size_t>(returned));
    const at::Tensor real =
        element < 0 ? value.toTensor() : value.toTensorVector().at(static_cast<size_t>(element));
    const ir::Type& type = *node.results[k].type;
    if (real.sizes() != at(type.sizes) || real.strides() != at(type.strides))
      throw UserError(concat(payload.op.schema().name(), " gives results of other shapes for these sizes"));
  }
}

std::optional<Shapes> guess_at(ir::ShapeEnv& env, const std::vector<Values>& others, const OpEntry& entry,
                               std::span<const c10::IValue> arguments) {
  if (others.size() < fewest_points) return std::nullopt;
  std::vector<SizesAt> at{SizesAt()};
  for (const Values& values : others) at.emplace_back(values);
  std::vector<Shapes> asked;
  std::vector<std::vector<at::Tensor>> tensors;
  try {
    for (const SizesAt& one : at) {
      asked.push_back(ask_shapes(nullptr, entry, arguments, one));
      std::vector<c10::IValue> fresh;  // What is written is among the arguments.
      for (size_t r = 0; r < entry.returns; ++r)
        if (!entry.op.schema().returns()[r].alias_info()) fresh.push_back(asked.back().results.at(r));
      tensors.push_back(tensors_of(fresh));
      if (tensors.back().size() != tensors[0].size()) return std::nullopt;
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  Shapes shapes = std::move(asked[0]);
  const Expressions known = expressions_of(env, arguments, at);
  for (size_t k = 0; k < tensors[0].size(); ++k)
    if (!find_form(known, tensors, k, shapes)) return std::nullopt;
  Guessed::instance().add(entry.op.schema().name());  // Also of sizes that seem to be the same for all.
  keep_forms(entry, arguments, shapes);
  return shapes;
}

/// Symbols that the operator does not take at another value while all others are the example's, as many columns
/// beside so many rows of another tensor: there is no expression to be found while they vary. Nullopt: all of them,
/// or none.
std::optional<Held> symbols_to_hold(ir::ShapeEnv& env, const OpEntry& entry,
                                    std::span<const c10::IValue> arguments) {
  constexpr size_t most_symbols = 16, tries = 2;
  const size_t count = env.table().symbol_count();
  if (count > most_symbols) return std::nullopt;
  const auto takes = [&](const Values& values) {
    try {
      ask_shapes(nullptr, entry, arguments, SizesAt(values));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  };
  Held held(count, false);
  bool any_free = false;
  for (size_t slot = 0; slot < count; ++slot) {
    Held others(count, true);
    others[slot] = false;
    std::vector<Values> alone = points(env, false, others);
    if (alone.empty()) continue;  // Others decide it.
    alone.resize(std::min(alone.size(), tries));
    held[slot] = std::ranges::none_of(alone, takes);
    any_free |= !held[slot];
  }
  if (!any_free || std::ranges::none_of(held, std::identity())) return std::nullopt;
  return held;
}

}  // namespace

bool may_guess_shapes(Recorder& recorder, const OpEntry& entry, std::span<const c10::IValue> arguments) {
  if (entry.moves_view || entry.outs > 0 || is_dynamic(entry, arguments) ||
      has_known_shape(recorder, entry, arguments))
    return false;
  for (const c10::Argument& result : entry.op.schema().returns())
    if (result.alias_info() && !result.alias_info()->isWrite()) return false;  // A view.
  return true;
}

std::optional<Shapes> guess_shapes(Recorder& recorder, const OpEntry& entry,
                                   std::span<const c10::IValue> arguments) {
  // A graph does not tell such types apart, and check_guesses() has nothing else to make operands of.
  const auto is_untold = [](const at::Tensor& tensor) {
    return to_dtype(tensor.scalar_type()) == ir::DType::other;
  };
  if (std::ranges::any_of(tensors_of(arguments), is_untold)) return std::nullopt;
  ir::ShapeEnv& env = *recorder.symbols()->env;
  std::optional<Shapes> shapes = guess_at(env, points(env, false), entry, arguments);
  if (!shapes) shapes = guess_at(env, points(env, true), entry, arguments);
  if (shapes) return shapes;
  const std::optional<Held> held = symbols_to_hold(env, entry, arguments);
  if (held) shapes = guess_at(env, points(env, false, *held), entry, arguments);
  if (!shapes) return std::nullopt;
  for (uint32_t slot = 0; slot < held->size(); ++slot)
    if ((*held)[slot]) static_cast<void>(static_cast<int64_t>(Dim(*env.table().find(env.table().name(slot)))));
  return shapes;
}

void check_guesses(const Trace& trace, std::span<const int64_t> symbols) {
  const SizesAt at(symbols);
  ir::for_each_node(*trace.graph, [&](const ir::Node* node) {
    if (node->op != ir::Op::call || !Guessed::instance().has(node->text_attr("target"))) return;
    const auto operands = node->operands | std::views::transform(ir::Graph::resolve);
    const auto is_untold = [](const ir::Value* value) { return value->type->dtype == ir::DType::other; };
    if (std::ranges::any_of(operands, is_untold)) return;  // Not guessed: see guess_shapes().
    const auto varies = [](const ir::Value& value) {
      return !value.type->sizes.is_constant() || !value.type->strides.is_constant();
    };
    bool any = std::ranges::any_of(node->results, varies);
    for (const ir::Value* operand : operands) any |= varies(*operand);
    ir::LibraryCall call = ir::library_call(*node);
    ir::for_each_size(std::span<ir::Argument>(call.arguments), [&](ir::Argument& argument) {
      any = true;
      auto& table =
          const_cast<ir::SizeTable&>(trace.graph->find_shape_env()->table());  // Interns, and learns nothing.
      argument = ir::Argument::of(ir::Argument::Kind::integer, at(ir::parse_size(argument.text, table)));
    });
    if (any) check_call(*node, payload_of(call, trace.objects), at);
  });
}

}  // namespace braze::capture
