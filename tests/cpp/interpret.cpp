// Statements of the interpreter: blocks, loops, reductions, memory.
#include "interpret.h"

#include <cmath>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "loops/transposes.h"
#include "support/error.h"

namespace braze::loops {

using namespace oracle;

namespace {

using Numbers = std::vector<Number>;

Number infinity_of(DType type, bool largest) {
  if (ir::is_floating(type)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return Number::of(largest ? infinity : -infinity);
  }
  if (type == DType::b8 || type == DType::u8) return Number::of_int(largest ? (type == DType::b8 ? 1 : 255) : 0);
  const int64_t top = static_cast<int64_t>((uint64_t{1} << (8 * ir::byte_size(type) - 1)) - 1);
  return Number::of_int(largest ? top : -top - 1);
}

bool is_nan(const Number& x) {
  return x.floating && std::isnan(x.f);
}

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, void* const* buffers, const uint64_t* scalars, const int64_t* symbols,
              int64_t* status)
      : kernel_(kernel), scalars_(scalars), symbols_(symbols), status_(status), values_(kernel.types.size()) {
    memory_.resize(kernel.buffers.size());
    for (uint32_t i = 0; i < kernel.parameter_count(); ++i) memory_[i] = buffers[i];
    number_checks(kernel.body);
  }
  void run() { run_block(kernel_.body); }

 private:
  void number_checks(const Block& block) {
    for (const Stmt& s : block) {
      if (s.kind == StmtKind::checked) check_numbers_.emplace(&s, check_numbers_.size() + 1);
      if (s.kind == StmtKind::branch) number_checks(s.body);
      if (s.kind != StmtKind::loop) continue;
      number_checks(s.loop->body);
    }
  }

  int64_t size_of(const Extent& e) const {
    return e.constant + (e.is_constant() ? 0 : e.factor * symbols_[e.symbol]);
  }
  int64_t index_of(const Affine& index) const {
    int64_t sum = size_of(index.offset);
    for (const auto& [factor, value] : index.terms) sum += size_of(factor) * values_[value].i;
    return sum;
  }
  bool holds(ValueId predicate) const { return predicate == none || values_[predicate].i != 0; }

  void* reach(BufferId id, int64_t index) const {
    const Buffer& buffer = kernel_.buffers[id];
    const int64_t size = size_of(buffer.size);
    BRAZE_CHECK(buffer.size == Extent() || (index >= 0 && index < size), "element ", index, " of %", buffer.name,
                ", which has ", size);
    return memory_[id];
  }
  Number read(BufferId id, int64_t index) const {
    return read_element(reach(id, index), kernel_.buffers[id].dtype, index);
  }
  void write(BufferId id, int64_t index, Number value) const {
    write_element(reach(id, index), kernel_.buffers[id].dtype, index, value);
  }
  Numbers read_values(const std::vector<ValueId>& ids) const {
    Numbers numbers;
    for (ValueId id : ids) numbers.push_back(values_[id]);
    return numbers;
  }

  // ---- reductions: a state of numbers, f64 for floating types until the loop ends
  Numbers identity(const Reduction& r) const {
    const DType type = kernel_.types[r.yielded[0]];
    const auto same = [&](double value) {
      return ir::is_floating(type) ? Number::of(value) : Number::of_int(static_cast<int64_t>(value));
    };
    switch (r.combine) {
      case Combine::sum:
      case Combine::any: return {same(0)};
      case Combine::prod:
      case Combine::all: return {same(1)};
      case Combine::max: return {infinity_of(type, false)};
      case Combine::min: return {infinity_of(type, true)};
      // Any real index comes before this one, so that a row of nothing but -inf has a right answer.
      case Combine::argmax: return {infinity_of(type, false), infinity_of(DType::i64, true)};
      case Combine::argmin: return {infinity_of(type, true), infinity_of(DType::i64, true)};
      case Combine::serial: return read_values(r.init);
    }
    return {};
  }
  void combine_extreme(Numbers& state, const Numbers& x, bool largest) const {
    if (state.size() == 1) {
      if (is_nan(state[0])) return;
    } else if (is_nan(state[0]) || is_nan(x[0])) {
      const bool first = is_nan(x[0]) && (!is_nan(state[0]) || x[1].i < state[1].i);
      if (first) state = x;
      return;
    }
    const bool equal = x[0].floating ? x[0].f == state[0].f : x[0].i == state[0].i;
    const bool beyond = x[0].floating ? (largest ? x[0].f > state[0].f : x[0].f < state[0].f)
                                      : (largest ? x[0].i > state[0].i : x[0].i < state[0].i);
    if (is_nan(x[0]) || beyond || (equal && x.size() == 2 && x[1].i < state[1].i)) state = x;
  }
  void combine(const Reduction& r, Numbers& state, const Numbers& x) {
    const DType type = kernel_.types[r.yielded[0]];
    // Sums and products of f32 are kept in f64.
    const DType wide = ir::is_floating(type) ? DType::f64 : type;
    switch (r.combine) {
      case Combine::sum: state[0] = evaluate(ir::Op::add, wide, {state[0], x[0]}); break;
      case Combine::prod: state[0] = evaluate(ir::Op::mul, wide, {state[0], x[0]}); break;
      case Combine::any: state[0].i |= x[0].i; break;
      case Combine::all: state[0].i &= x[0].i; break;
      case Combine::max:
      case Combine::argmax: combine_extreme(state, x, true); break;
      case Combine::min:
      case Combine::argmin: combine_extreme(state, x, false); break;
      case Combine::serial: state = x; break;
    }
  }

  void run_loop(const Loop& loop) {
    const int64_t begin = loop.begin_value == none ? size_of(loop.begin) : values_[loop.begin_value].i;
    const int64_t end = loop.end_value == none ? size_of(loop.end) : values_[loop.end_value].i;
    std::vector<Numbers> states;
    for (const Reduction& r : loop.reductions) states.push_back(identity(r));
    for (int64_t i = begin; i < end; i += loop.step) {
      values_[loop.var] = Number::of_int(i);
      for (size_t k = 0; k < states.size(); ++k) {
        const Reduction& r = loop.reductions[k];
        if (r.combine != Combine::serial) continue;
        for (size_t c = 0; c < states[k].size(); ++c) values_[r.state[c]] = states[k][c];
      }
      run_block(loop.body);
      for (size_t k = 0; k < states.size(); ++k)
        combine(loop.reductions[k], states[k], read_values(loop.reductions[k].yielded));
    }
    for (size_t k = 0; k < states.size(); ++k)
      for (size_t c = 0; c < states[k].size(); ++c) {
        const ValueId result = loop.reductions[k].results[c];
        values_[result] = convert(states[k][c], kernel_.types[result]);
      }
  }

  // ---- statements
  void run_block(const Block& block) {
    for (const Stmt& s : block) run_stmt(s);
  }
  Number scalar(uint32_t slot) const {
    const DType type = kernel_.scalars[slot].dtype;
    return convert(read_element(&scalars_[slot], type, 0), type);
  }
  Number compute(const Stmt& s) const {
    if (s.op == ir::Op::cast) return convert(values_[s.args[0]], s.type);
    std::array<Number, 3> operands;
    for (size_t i = 0; i < s.args.size(); ++i) operands[i] = values_[s.args[i]];
    return evaluate(s.op, kernel_.types[s.args[s.args.size() == 3 ? 1 : 0]], operands);
  }
  Number checked(const Stmt& s) {
    const Number index = values_[s.args[0]];
    if (index.i >= 0 && index.i < size_of(s.extent)) return index;
    if (status_) *status_ = static_cast<int64_t>(check_numbers_.at(&s));
    return Number::of_int(0);
  }
  void atomic(const Stmt& s) const {
    constexpr ir::Op ops[] = {ir::Op::add, ir::Op::maximum, ir::Op::minimum};
    const int64_t index = index_of(s.index);
    const DType type = ir::compute_dtype(kernel_.buffers[s.buffer].dtype);
    const Number old = read(s.buffer, index);
    write(s.buffer, index, evaluate(ops[static_cast<size_t>(s.atomic)], type, {old, values_[s.args[0]]}));
  }
  void allocate(const Stmt& s) {
    const Buffer& buffer = kernel_.buffers[s.buffer];
    const size_t bytes = static_cast<size_t>(size_of(buffer.size) * ir::byte_size(buffer.dtype));
    // All ones is NaN in every floating type: what is read before it is written shows.
    owned_[s.buffer].assign(bytes, static_cast<char>(0xff));
    memory_[s.buffer] = owned_[s.buffer].data();
  }
  void transpose(const Stmt& s) const {
    const int64_t base = index_of(s.index), rows = s.shape[0];
    const int64_t valid_rows = s.valid.empty() ? rows : values_[s.valid[0]].i;
    const int64_t valid_cols = s.valid.empty() ? s.shape[2] : values_[s.valid[1]].i;
    for (int64_t c = 0; c < valid_cols; ++c)
      for (int64_t r = 0; r < valid_rows; ++r)
        write(s.buffer, c * rows + r, read(s.sources[0], base + r * size_of(row_step(s)) + c * s.shape[3]));
  }
  void run_stmt(const Stmt& s);

  const Kernel& kernel_;
  const uint64_t* scalars_;
  const int64_t* symbols_;
  int64_t* status_;
  std::vector<Number> values_;
  std::vector<void*> memory_;
  std::unordered_map<BufferId, std::vector<char>> owned_;
  std::unordered_map<const Stmt*, size_t> check_numbers_;
};

void Interpreter::run_stmt(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::constant: values_[s.result] = convert(s.number, s.type); break;
    case StmtKind::scalar: values_[s.result] = scalar(s.slot); break;
    case StmtKind::symbol: values_[s.result] = Number::of_int(symbols_[s.slot]); break;
    case StmtKind::compute: values_[s.result] = compute(s); break;
    case StmtKind::affine: values_[s.result] = Number::of_int(index_of(s.index)); break;
    case StmtKind::load:
      values_[s.result] = holds(s.predicate) ? read(s.buffer, index_of(s.index)) : values_[s.otherwise];
      break;
    case StmtKind::store:
      if (holds(s.predicate)) write(s.buffer, index_of(s.index), values_[s.args[0]]);
      break;
    case StmtKind::atomic:
      if (holds(s.predicate)) atomic(s);
      break;
    case StmtKind::checked: values_[s.result] = checked(s); break;
    case StmtKind::alloc: allocate(s); break;
    case StmtKind::loop: run_loop(*s.loop); break;
    case StmtKind::branch:
      if (holds(s.predicate)) run_block(s.body);
      break;
    case StmtKind::barrier: break;  // One thread meets itself.
    case StmtKind::transpose: transpose(s); break;
  }
}

}  // namespace

void interpret(const Kernel& kernel, void* const* buffers, const uint64_t* scalars, const int64_t* symbols,
               int64_t* status) {
  Interpreter(kernel, buffers, scalars, symbols, status).run();
}

}  // namespace braze::loops
