// loops/verify.cpp: the rules of kernel.h, checked.
//
// Beside structure and types it follows loop variables with constant bounds, and rejects an access that could leave
// a buffer of known size: most mistakes in lowering show there first.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "loops/barriers.h"
#include "loops/kernel.h"
#include "loops/transposes.h"
#include "loops/words.h"
#include "support/error.h"

namespace braze::loops {

namespace {

/// Both ends are possible values.
struct Range {
  int64_t low, high;
};

bool is_compute_type(DType type) {
  return ir::is_kernel_dtype(type) && ir::compute_dtype(type) == type;
}

/// bf16 and f16 as values: only a cast gives them, only a cast takes them. The pair rounds, as eager mode does
/// between ops on these types.
bool is_rounding(const Stmt& stmt) {
  return stmt.kind == StmtKind::compute && stmt.op == ir::Op::cast && ir::is_kernel_dtype(stmt.type);
}

/// a * b + c, or nothing when it does not fit.
std::optional<int64_t> multiply_add(int64_t a, int64_t b, int64_t c) {
  int64_t product, sum;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(product, c, &sum)) return std::nullopt;
  return sum;
}

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel)
      : kernel_(kernel),
        state_(kernel.types.size(), State::undefined),
        ranges_(kernel.types.size()),
        affine_(kernel.types.size()) {}

  void run() {
    check_parameters();
    for (const Stmt& stmt : kernel_.body) {
      require(stmt.kind == StmtKind::loop, "a kernel's top-level statements are loops, one per phase; here is a '",
              word(stmt_words, stmt.kind), "'");
      where_ = &stmt;
      check(stmt);
    }
    for (size_t id = 0; id < kernel_.buffers.size(); ++id)
      require(kernel_.buffers[id].is_parameter || allocated_[id], "buffer ", id, " (", kernel_.buffers[id].name,
              ") is neither a parameter nor allocated");
  }

 private:
  enum class State : uint8_t { undefined, in_scope, left };

  template <typename... Parts>
  void require(bool condition, const Parts&... parts) const {
    if (condition) [[likely]]
      return;
    std::string place;
    if (where_) place = concat(", in '", word(stmt_words, where_->kind), "'");
    if (where_ && where_->kind == StmtKind::compute) place = concat(", in '", ir::info(where_->op).name, "'");
    throw InternalError(concat("kernel @", kernel_.name, place, ": ", parts...));
  }

  // ---- names and types
  void define(ValueId value, std::optional<DType> type, std::optional<Range> range = {}) {
    require(value < state_.size(), "value ", value, " is defined but was never added to the kernel");
    require(state_[value] == State::undefined, "value ", value, " is defined twice");
    require(is_compute_type(kernel_.types[value]) || is_rounding(*where_), "value ", value, " has type ",
            ir::name(kernel_.types[value]), ", which exists only in buffers");
    if (type)
      require(kernel_.types[value] == *type, "value ", value, " is noted as ", ir::name(kernel_.types[value]),
              " and defined as ", ir::name(*type));
    state_[value] = State::in_scope;
    ranges_[value] = range;
    scope_.push_back(value);
  }
  DType use(ValueId value) const {
    require(value != none, "an operand is missing");
    require(value < state_.size() && state_[value] != State::undefined, "value ", value,
            " is used before it is defined");
    require(state_[value] == State::in_scope, "value ", value, " is used outside of the block that defines it");
    return kernel_.types[value];
  }
  void use(ValueId value, DType type, std::string_view role) const {
    const DType found = use(value);
    require(found == type, role, " must be ", ir::name(type), ", value ", value, " is ", ir::name(found));
  }
  void use_optional_bool(ValueId value) const {
    if (value != none) use(value, DType::b8, "a predicate");
  }
  void require_args(const Stmt& s, size_t count) const {
    require(s.args.size() == count, count, " operands are wanted, ", s.args.size(), " given");
  }
  /// Leaves the scope of everything defined since `mark`.
  void leave(size_t mark) {
    for (size_t i = mark; i < scope_.size(); ++i) state_[scope_[i]] = State::left;
    scope_.resize(mark);
  }

  // ---- sizes and indices
  void check(const Extent& extent) const {
    require(extent.is_constant() || extent.symbol < kernel_.symbols.size(), "there is no symbol ", extent.symbol);
  }
  void check(const Affine& index) const {
    check(index.offset);
    for (size_t i = 0; i < index.terms.size(); ++i) {
      const auto& [factor, value] = index.terms[i];
      check(factor);
      use(value, DType::i64, "a value in an index");
      require(!factor.is_constant() || factor.constant != 0, "an index has a term with factor 0");
      for (size_t k = 0; k < i; ++k)
        require(index.terms[k].value != value, "an index names value ", value, " twice");
    }
  }
  /// Writes values defined by `affine` out, so that terms which depend on each other meet: 8*%i - %k with
  /// %k = 8*%i - 3 is 3. False if a symbol is in it.
  bool expand(const Affine& index, int64_t factor, Affine& sum) const {
    if (!index.offset.is_constant()) return false;
    const auto offset = multiply_add(factor, index.offset.constant, sum.offset.constant);
    if (!offset) return false;
    sum.offset = *offset;
    for (const Affine::Term& term : index.terms) {
      const auto product = multiply_add(factor, term.factor.constant, 0);
      if (!term.factor.is_constant() || !product) return false;
      if (!affine_[term.value])
        sum.add(*product, term.value);
      else if (!expand(*affine_[term.value], *product, sum))
        return false;
    }
    return true;
  }
  std::optional<Range> range_of(const Affine& index) const {
    Affine expanded;
    if (!expand(index, 1, expanded)) return std::nullopt;
    Range sum{expanded.offset.constant, expanded.offset.constant};
    for (const auto& [factor, value] : expanded.terms) {
      if (!ranges_[value]) return std::nullopt;
      const Range& r = *ranges_[value];
      const bool up = factor.constant > 0;
      const auto low = multiply_add(factor.constant, up ? r.low : r.high, sum.low);
      const auto high = multiply_add(factor.constant, up ? r.high : r.low, sum.high);
      if (!low || !high) return std::nullopt;
      sum = {*low, *high};
    }
    return sum;
  }
  const Buffer& buffer(BufferId id) const {
    require(id < kernel_.buffers.size(), "there is no buffer ", id);
    const Buffer& buffer = kernel_.buffers[id];
    require(buffer.is_parameter || allocated_[id], "buffer %", buffer.name, " is used before its alloc");
    require(buffer.is_parameter || live_[id], "buffer %", buffer.name,
            " is used outside of the block that allocates it");
    return buffer;
  }
  /// One element. `guarded`: a predicate or an `if` may be what keeps it inside.
  const Buffer& check_element(BufferId id, const Affine& index, bool guarded) const {
    const Buffer& accessed = buffer(id);
    check(index);
    const bool sized = accessed.size.is_constant() && (accessed.size.constant > 0 || !accessed.is_parameter);
    if (guarded || branches_ > 0 || unreachable_ > 0 || !sized) return accessed;
    const auto range = range_of(index);
    require(!range || (range->low >= 0 && range->high < accessed.size.constant), "%", accessed.name, " has ",
            accessed.size.constant, " elements, the index runs from ", range ? range->low : 0, " to ",
            range ? range->high : 0);
    return accessed;
  }
  void require_writable(const Buffer& b) const {
    require(!b.is_parameter || b.access != Access::in, "%", b.name, " is written but declared 'in'");
  }

  // ---- blocks
  void check_parameters() {
    const uint32_t parameters = kernel_.parameter_count();
    for (size_t id = 0; id < kernel_.buffers.size(); ++id) {
      const Buffer& b = kernel_.buffers[id];
      require(b.is_parameter == (id < parameters), "parameters come before allocated buffers; %", b.name,
              " does not");
      require(ir::is_kernel_dtype(b.dtype), "%", b.name,
              " has a type that no kernel can read: ", ir::name(b.dtype));
      require(b.alignment > 0 && (b.alignment & (b.alignment - 1)) == 0, "the alignment of %", b.name, " is ",
              b.alignment, ", which is no power of two");
      require(!b.size.is_constant() || b.size.constant >= 0, "the size of %", b.name, " is negative");
      check(b.size);
    }
    for (const Scalar& scalar : kernel_.scalars)
      require(is_compute_type(scalar.dtype), "scalar $", scalar.name, " has type ", ir::name(scalar.dtype),
              ", which exists only in buffers");
    allocated_.assign(kernel_.buffers.size(), false);
    live_.assign(kernel_.buffers.size(), false);
  }
  void check_block(const Block& block) {
    std::vector<BufferId> allocs;
    for (const Stmt& stmt : block) {
      const Stmt* outer = std::exchange(where_, &stmt);
      check(stmt);
      where_ = outer;
      if (stmt.kind == StmtKind::alloc) allocs.push_back(stmt.buffer);
    }
    for (BufferId id : allocs) live_[id] = false;
  }

  void check_schedule(const Loop& loop) const {
    const Schedule& s = loop.schedule;
    require(loop.step > 0, "a loop's step is ", loop.step, ", it must be positive");
    require(s.unroll >= 1 && s.grain >= 1 && s.cluster >= 1, "unroll, grain and cluster are at least 1");
    require(!s.parallel || depth_ == 0, "only top-level loops can be parallel");
    require(!s.parallel || loop.reductions.empty(),
            "a parallel loop cannot reduce: write partial results and reduce them in a second phase");
    require(!s.vector || !in_vector_, "a vector loop stands within another one");
    check_binding(loop);
  }
  /// Where a GPU runs a loop: the grid at the top, warps in a block, threads in a block or a warp.
  void check_binding(const Loop& loop) const {
    using Bind = Schedule::Bind;
    const Bind bind = loop.schedule.bind;
    require(loop.schedule.cluster == 1 || bind == Bind::block, "clusters are of blocks");
    if (bind == Bind::none) return;
    if (bind == Bind::block) return require(loop.schedule.parallel, "blocks run a parallel loop");
    require(bind != Bind::warp || cluster_ == 1, "warps of a cluster share nothing out");
    require(bound_ == Bind::block || (bind == Bind::thread && bound_ == Bind::warp), "a loop over ",
            word(bind_words, bind), "s stands in none over ", bind == Bind::warp ? "blocks" : "blocks or warps",
            ", or in another one");
    const bool counted = loop.begin_value == none && loop.end_value == none && loop.begin == Extent(0) &&
                         loop.end.is_constant() && loop.step == 1;
    require(counted, "a loop over warps or threads runs from 0 to a number");
    require(bind == Bind::thread || loop.reductions.empty(), "warps join what they find through shared memory");
  }
  void check_init(const Reduction& r) const {
    if (has_free_state(r.combine)) {
      require(!r.init.empty(), "a ", word(combine_words, r.combine), " reduction needs a first state");
      require(r.state.size() == r.init.size(), "a ", word(combine_words, r.combine), " reduction of ",
              r.init.size(), " values names ", r.state.size(), " values of state");
    } else {
      require(r.init.empty() && r.state.empty(), "a ", word(combine_words, r.combine),
              " reduction starts from its identity and shows no state");
    }
    for (ValueId value : r.init) use(value);
  }
  void define_state(const Reduction& r) {
    for (size_t i = 0; i < r.state.size(); ++i) define(r.state[i], kernel_.types[r.init[i]]);
  }
  void check_yielded(const Reduction& r) const {
    const std::string_view name = word(combine_words, r.combine);
    require(r.yielded.size() == yield_count(r), name, " takes ", yield_count(r), " values, ", r.yielded.size(),
            " are yielded");
    for (ValueId value : r.yielded) use(value);
    switch (r.combine) {
      case Combine::any:
      case Combine::all: use(r.yielded[0], DType::b8, "what any and all take"); break;
      case Combine::argmax:
      case Combine::argmin: use(r.yielded[1], DType::i64, "the index of argmax and argmin"); break;
      case Combine::serial:
        for (size_t i = 0; i < r.yielded.size(); ++i)
          use(r.yielded[i], kernel_.types[r.init[i]], "what is yielded must have the type of the state: it");
        break;
      default: break;
    }
  }
  void define_results(const Reduction& r) {
    require(r.results.size() == state_count(r), word(combine_words, r.combine), " gives ", state_count(r),
            " results, ", r.results.size(), " are named");
    for (size_t i = 0; i < r.results.size(); ++i) define(r.results[i], state_type(kernel_, r, i));
  }
  void check(const Loop& loop) {
    check_schedule(loop);
    check(loop.begin);
    check(loop.end);
    if (loop.begin_value != none) use(loop.begin_value, DType::i64, "a loop's bound");
    if (loop.end_value != none) use(loop.end_value, DType::i64, "a loop's bound");
    for (const Reduction& r : loop.reductions) check_init(r);

    std::optional<Range> range;
    bool empty = false;
    if (loop.begin_value == none && loop.end_value == none && loop.begin.is_constant() && loop.end.is_constant()) {
      const int64_t begin = loop.begin.constant, end = loop.end.constant;
      empty = end <= begin;
      if (!empty) range = Range{begin, begin + (end - 1 - begin) / loop.step * loop.step};
    }
    const size_t mark = scope_.size();
    define(loop.var, DType::i64, range);
    for (const Reduction& r : loop.reductions) define_state(r);
    ++depth_;
    unreachable_ += empty;
    const bool was_in_vector = std::exchange(in_vector_, in_vector_ || loop.schedule.vector);
    const Schedule::Bind bind = loop.schedule.bind;
    const Schedule::Bind was_bound = std::exchange(bound_, bind == Schedule::Bind::none ? bound_ : bind);
    if (depth_ == 1) cluster_ = loop.schedule.cluster;
    check_block(loop.body);
    bound_ = was_bound;
    in_vector_ = was_in_vector;
    unreachable_ -= empty;
    --depth_;
    for (const Reduction& r : loop.reductions) check_yielded(r);
    leave(mark);
    for (const Reduction& r : loop.reductions) define_results(r);
  }

  // ---- statements
  void check_compute(const Stmt& s) {
    const ir::OpInfo& op = ir::info(s.op);
    require(ir::is_elementwise(s.op), "only elementwise ops compute");
    require_args(s, static_cast<size_t>(op.fewest_operands));
    for (ValueId arg : s.args) {
      const DType type = use(arg);
      require(is_compute_type(type) || s.op == ir::Op::cast, "nothing is computed in ", ir::name(type),
              ": cast value ", arg, " first");
    }
    switch (op.kind) {
      case ir::OpKind::Cast: break;
      case ir::OpKind::UnaryTest: require(s.type == DType::b8, "a test gives bool, not ", ir::name(s.type)); break;
      case ir::OpKind::Compare:
        require(s.type == DType::b8, "a comparison gives bool, not ", ir::name(s.type));
        use(s.args[1], kernel_.types[s.args[0]], "the second operand of a comparison");
        break;
      case ir::OpKind::Ternary:
        use(s.args[0], DType::b8, "what 'where' chooses by");
        use(s.args[1], s.type, "an operand");
        use(s.args[2], s.type, "an operand");
        break;
      default:
        for (ValueId arg : s.args) use(arg, s.type, "an operand");
    }
  }
  void check_constant(const Stmt& s) const {
    require(s.number.floating == ir::is_floating(s.type), "the constant's number is ",
            s.number.floating ? "floating" : "an integer", ", its type is ", ir::name(s.type));
    require(s.type != DType::b8 || s.number.i == 0 || s.number.i == 1, "a bool constant is 0 or 1");
  }
  void check_load(const Stmt& s) const {
    const Buffer& from = check_element(s.buffer, s.index, s.predicate != none);
    require(s.type == ir::compute_dtype(from.dtype), "%", from.name, " holds ", ir::name(from.dtype),
            ", a load of it gives ", ir::name(ir::compute_dtype(from.dtype)), ", not ", ir::name(s.type));
    use_optional_bool(s.predicate);
    require((s.predicate == none) == (s.otherwise == none),
            "a load has both a predicate and an 'else', or neither");
    if (s.otherwise != none) use(s.otherwise, s.type, "the value of lanes not read");
  }
  void check_store(const Stmt& s) const {
    const Buffer& to = check_element(s.buffer, s.index, s.predicate != none);
    require_writable(to);
    require_args(s, 1);
    use(s.args[0], ir::compute_dtype(to.dtype), concat("what is stored in %", to.name));
    use_optional_bool(s.predicate);
    require(!s.stream || to.space == Space::global, "only stores to global memory can bypass the cache");
  }
  void check_alloc(const Stmt& s) {
    require(s.buffer < kernel_.buffers.size() && !kernel_.buffers[s.buffer].is_parameter,
            "there is no such buffer");
    const Buffer& made = kernel_.buffers[s.buffer];
    require(!allocated_[s.buffer], "%", made.name, " is allocated twice");
    require(made.space != Space::global, "%", made.name, " is in global memory: that is the planner's to give");
    require(made.space != Space::shared || cluster_ == 1, "%", made.name, " is shared by blocks of a cluster");
    require(made.space != Space::shared || bound_ == Schedule::Bind::block, "%", made.name,
            " is shared by a block, and belongs to none");
    require(made.space != Space::registers || bound_ == Schedule::Bind::block || bound_ == Schedule::Bind::warp,
            "%", made.name, " is spread over the threads of a block or a warp, and stands in none");
    require(made.size.is_constant() && made.size.constant > 0, "%", made.name,
            " needs a size known when the kernel is compiled");
    allocated_[s.buffer] = true;
    live_[s.buffer] = true;
  }
  void check_transpose(const Stmt& s) const {
    require(s.sources.size() == 1, "a transpose reads one buffer");
    const Buffer& to = buffer(s.buffer);
    const Buffer& from = check_element(s.sources[0], s.index, true);
    require_writable(to);
    require(to.dtype == from.dtype, "a transpose moves ", ir::name(from.dtype), " into ", ir::name(to.dtype));
    require(s.shape.size() == 4 && s.shape[0] > 0 && s.shape[2] > 0, "rows and columns are positive");
    require(!to.size.is_constant() || to.size.constant == 0 || s.shape[0] * s.shape[2] <= to.size.constant, "%",
            to.name, " has ", to.size.constant, " elements, the tile ", s.shape[0] * s.shape[2]);
    check(row_step(s));
    require(s.valid.empty() || s.valid.size() == 2, "valid= names rows and columns");
    for (ValueId value : s.valid) use(value, DType::i64, "the number of valid rows and columns");
  }
  void check(const Stmt& stmt);

  const Kernel& kernel_;
  std::vector<State> state_;
  std::vector<std::optional<Range>> ranges_;
  std::vector<const Affine*> affine_;  ///< Of values that an `affine` defines.
  std::vector<ValueId> scope_;
  std::vector<bool> allocated_, live_;
  const Stmt* where_ = nullptr;
  int depth_ = 0, branches_ = 0, unreachable_ = 0;
  bool in_vector_ = false;
  Schedule::Bind bound_ = Schedule::Bind::none;  ///< Of the innermost loop that is bound to anything.
  int32_t cluster_ = 1;                          ///< Of the top-level loop.
};

void Verifier::check(const Stmt& s) {
  std::optional<Range> range;
  switch (s.kind) {
    case StmtKind::constant:
      check_constant(s);
      if (!s.number.floating) range = Range{s.number.i, s.number.i};
      break;
    case StmtKind::scalar:
      require(s.slot < kernel_.scalars.size(), "there is no scalar ", s.slot);
      require(s.type == kernel_.scalars[s.slot].dtype, "the scalar is ", ir::name(kernel_.scalars[s.slot].dtype));
      break;
    case StmtKind::symbol: require(s.slot < kernel_.symbols.size(), "there is no symbol ", s.slot); break;
    case StmtKind::compute: check_compute(s); break;
    case StmtKind::affine:
      check(s.index);
      if (s.result < affine_.size()) affine_[s.result] = &s.index;
      break;
    case StmtKind::load: check_load(s); break;
    case StmtKind::store: check_store(s); break;
    case StmtKind::atomic: check_store(s); break;
    case StmtKind::checked:
      require_args(s, 1);
      use(s.args[0], DType::i64, "an index");
      check(s.extent);
      if (s.extent.is_constant() && s.extent.constant > 0) range = Range{0, s.extent.constant - 1};
      break;
    case StmtKind::alloc: check_alloc(s); break;
    case StmtKind::loop: check(*s.loop); break;
    case StmtKind::branch: {
      use(s.predicate, DType::b8, "a predicate");
      const size_t mark = scope_.size();
      ++branches_;
      check_block(s.body);
      --branches_;
      leave(mark);
      break;
    }
    case StmtKind::barrier:
      require(bound_ == Schedule::Bind::block && branches_ == 0,
              "all threads of a block meet at a barrier, or none");
      break;
    case StmtKind::transpose: check_transpose(s); break;
  }
  const bool index_like = s.kind == StmtKind::symbol || s.kind == StmtKind::affine || s.kind == StmtKind::checked;
  const bool defines = index_like || s.kind == StmtKind::constant || s.kind == StmtKind::scalar ||
                       s.kind == StmtKind::compute || s.kind == StmtKind::load;
  require(defines == (s.result != none), defines ? "the result is missing" : "it defines nothing");
  if (defines) define(s.result, index_like ? DType::i64 : s.type, range);
}

}  // namespace

void verify(const Kernel& kernel) {
  Verifier(kernel).run();
  check_barriers(kernel);
}

}  // namespace braze::loops
