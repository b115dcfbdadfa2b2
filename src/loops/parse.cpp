// loops/parse.cpp: text to kernels, by recursive descent; the reverse of print.cpp.
//
// Values are numbered in the order in which their names first stand in the text, which is the order in which the
// printer numbers them. What can only be said of a whole kernel (types, vector loops) is left to verify().
#include <algorithm>
#include <utility>

#include "ir/literals.h"
#include "loops/kernel.h"
#include "loops/parse_values.h"
#include "loops/transposes.h"
#include "loops/words.h"
#include "support/error.h"
#include "support/lexer.h"

namespace braze::loops {

namespace {

class Parser : private ValueParser {
 public:
  explicit Parser(Lexer& lexer) : Parser(lexer, std::make_unique<Kernel>()) {}

  std::unique_ptr<Kernel> run() {
    expect("kernel");
    kernel_.name = expect(Kind::symbol, "a name such as @main").text;
    collect_symbols();
    expect("(");
    if (!take(")")) {
      do parse_parameter();
      while (take(","));
      expect(")");
    }
    kernel_.narrow = take("narrow");
    parse_block(kernel_.body, nullptr);
    return std::move(made_);
  }

 private:
  Parser(Lexer& lexer, std::unique_ptr<Kernel> kernel) : ValueParser(lexer, *kernel), made_(std::move(kernel)) {}

  // ---- parameters
  /// Sizes of buffers may name symbols that come later in the list, so those are found first.
  void collect_symbols() {
    const Lexer start = lexer_;
    int depth = 0;
    bool item_start = false;
    while (!lexer_.at_end()) {
      if (depth == 1 && item_start && at("#")) {
        const Token name = expect_name("#", "a symbol");
        if (!symbols_.emplace(name.text, kernel_.symbols.size()).second)
          lexer_.fail(name, concat("#", name.text, " is defined twice"));
        kernel_.symbols.emplace_back(name.text);
      }
      if (at("(") || at("[")) ++depth;
      if ((at(")") || at("]")) && --depth == 0) break;
      item_start = at("(") || at(",");
      lexer_.next();
    }
    lexer_ = start;
  }
  void parse_parameter() {
    if (at("#")) {
      expect_name("#", "a symbol");
    } else if (at("$")) {
      const Token name = expect_name("$", "a scalar");
      if (!scalars_.emplace(name.text, kernel_.scalars.size()).second)
        lexer_.fail(name, concat("$", name.text, " is defined twice"));
      expect(":");
      kernel_.scalars.push_back({std::string(name.text), parse_type()});
    } else {
      const Token name = expect(Kind::value, "a parameter: %buffer, $scalar or #symbol");
      expect(":");
      Buffer buffer;
      buffer.dtype = parse_type();
      if (at("[")) buffer.size = parse_size();
      buffer.access = expect_one_of<Access>(access_words);
      if (const auto space = take_one_of<Space>(space_words)) buffer.space = *space;
      if (take("noalias")) buffer.may_alias = false;
      if (at("align")) buffer.alignment = parse_named_integer("align");
      if (take("exactly")) buffer.is_exact = true;
      add_buffer(name, std::move(buffer));
    }
  }

  // ---- blocks
  /// Fills `block` from `{ ... }`. A `yield` must end it if `yields` is given, and must not stand there otherwise.
  void parse_block(Block& block, std::vector<ValueId>* yields) {
    const size_t outer = values_.size();
    expect("{");
    while (!at("}") && !at("yield")) block.push_back(parse_stmt());
    if (at("yield")) {
      if (!yields) lexer_.fail("nothing is yielded from this block");
      lexer_.next();
      if (token().kind == Kind::value) *yields = use_list();
    }
    expect("}");
    values_.resize(outer);
  }
  Schedule parse_schedule() {
    Schedule s;
    for (;;) {
      if (take("parallel"))
        s.parallel = true;
      else if (take("vector"))
        s.vector = true;
      else if (at("grain"))
        s.grain = parse_named_integer("grain");
      else if (at("unroll"))
        s.unroll = static_cast<int32_t>(std::min<int64_t>(parse_named_integer("unroll"), INT32_MAX));
      else if (take("bind")) {
        expect("=");
        s.bind = expect_one_of<Schedule::Bind>(bind_words);
      } else if (at("cluster"))
        s.cluster = static_cast<int32_t>(std::min<int64_t>(parse_named_integer("cluster"), INT32_MAX));
      else
        return s;
    }
  }
  Reduction parse_reduction() {
    Reduction r;
    r.combine = expect_one_of<Combine>(combine_words);
    if (!has_free_state(r.combine)) return r;
    expect("(");
    do {
      const Token name = expect(Kind::value, "a name for the state");
      expect("=");
      r.init.push_back(use());
      r.state.push_back(kernel_.add_value(kernel_.types[r.init.back()]));
      define(name, r.state.back());
    } while (take(","));
    expect(")");
    return r;
  }
  void parse_bound(ValueId& value, Extent& extent) {
    if (token().kind == Kind::value)
      value = use();
    else
      extent = parse_extent();
  }
  void parse_loop(Loop& loop, const std::vector<Token>& names) {
    const Token start = token();
    std::vector<ValueId> results;
    for (size_t i = 0; i < names.size(); ++i) results.push_back(kernel_.add_value(DType::f32));

    const size_t outer = values_.size();
    const Token var = expect(Kind::value, "a loop variable");
    loop.var = kernel_.add_value(DType::i64);
    expect("in");
    parse_bound(loop.begin_value, loop.begin);
    expect(".");
    expect(".");
    parse_bound(loop.end_value, loop.end);
    if (take("step")) loop.step = parse_integer();
    loop.schedule = parse_schedule();
    define(var, loop.var);
    if (take("reduce")) {
      do loop.reductions.push_back(parse_reduction());
      while (take(","));
    }
    std::vector<ValueId> yields;
    parse_block(loop.body, loop.reductions.empty() ? nullptr : &yields);
    values_.resize(outer);
    share_out(loop, start, yields, results);
    for (size_t i = 0; i < names.size(); ++i) define(names[i], results[i]);
  }
  /// Gives each reduction its part of what the body yields and of the loop's results.
  void share_out(Loop& loop, const Token& start, const std::vector<ValueId>& yields,
                 const std::vector<ValueId>& results) {
    size_t yield_total = 0, result_total = 0;
    for (const Reduction& r : loop.reductions) {
      yield_total += yield_count(r);
      result_total += state_count(r);
    }
    if (yields.size() != yield_total)
      lexer_.fail(start,
                  concat("the loop's reductions want ", yield_total, " values, its body yields ", yields.size()));
    if (results.size() != result_total)
      lexer_.fail(start, concat("the loop's reductions give ", result_total, " values, ", results.size(),
                                " are named before 'for'"));
    auto yield = yields.begin();
    auto result = results.begin();
    for (Reduction& r : loop.reductions) {
      r.yielded.assign(yield, yield + yield_count(r));
      r.results.assign(result, result + state_count(r));
      yield += yield_count(r);
      result += state_count(r);
      for (size_t i = 0; i < r.results.size(); ++i) kernel_.types[r.results[i]] = state_type(kernel_, r, i);
    }
  }

  // ---- statements
  Stmt parse_stmt() {
    std::vector<Token> names;
    if (token().kind == Kind::value) {
      do names.push_back(expect(Kind::value, "a value's name"));
      while (take(","));
      expect("=");
    }
    const Token word = expect(Kind::word, "a statement");
    Stmt s;
    if (const auto kind = find_word<StmtKind>(stmt_words, word.text); kind && *kind != StmtKind::compute) {
      s.kind = *kind;
    } else {
      const auto op = ir::parse_op(word.text);
      if (!op || !ir::is_elementwise(*op))
        lexer_.fail(word, concat("'", word.text, "' is neither a statement nor an elementwise op"));
      s.kind = StmtKind::compute;
      s.op = *op;
    }
    if (s.kind == StmtKind::loop) {
      s.type = DType::i64;
      s.loop = std::make_unique<Loop>();
      parse_loop(*s.loop, names);
      return s;
    }
    const bool has_result = parse_operands(s);
    if (names.size() != (has_result ? 1 : 0))
      lexer_.fail(word, concat("'", word.text, "' defines ", has_result ? "one value" : "nothing", ", ",
                               names.size(), " are named"));
    if (!has_result) return s;
    s.result = kernel_.add_value(s.type);
    define(names[0], s.result);
    return s;
  }
  bool parse_operands(Stmt& s);

  void parse_result_type(Stmt& s) {
    expect(":");
    s.type = parse_type();
  }
  void parse_store(Stmt& s) {
    s.buffer = use_buffer();
    s.index = parse_index();
    expect(",");
    s.args = {use()};
    s.type = kernel_.types[s.args[0]];
    if (take_tail("if")) s.predicate = use();
    if (s.kind == StmtKind::store) s.stream = take_tail("stream");
  }
  void parse_load(Stmt& s) {
    s.buffer = use_buffer();
    s.index = parse_index();
    if (take("if")) {
      s.predicate = use();
      expect("else");
      s.otherwise = use();
    }
    parse_result_type(s);
  }
  void parse_alloc(Stmt& s) {
    const Token name = expect(Kind::value, "a name for the buffer");
    Buffer buffer;
    buffer.access = Access::inout;
    buffer.may_alias = false;
    buffer.is_parameter = false;
    expect(":");
    buffer.dtype = parse_type();
    s.type = buffer.dtype;
    buffer.size = parse_size();
    buffer.space = expect_one_of<Space>(space_words);
    if (at("align")) buffer.alignment = parse_named_integer("align");
    s.buffer = add_buffer(name, std::move(buffer));
  }
  void parse_transpose(Stmt& s) {
    s.buffer = use_buffer();
    expect(",");
    s.sources = {use_buffer()};
    s.index = parse_index();
    expect(",");
    s.shape = {parse_named_integer("rows"), 1};
    expect("step");
    expect("=");
    const Extent step = parse_extent();
    expect(",");
    s.shape.push_back(parse_named_integer("cols"));
    s.shape.push_back(parse_named_integer("step"));
    set_row_step(s, step);
    if (!take_tail("valid")) return;
    expect("=");
    s.valid.push_back(use());
    expect(",");
    s.valid.push_back(use());
  }

  std::unique_ptr<Kernel> made_;  ///< kernel_, to be given away.
};

/// Reads what follows the statement's word; true if the statement defines a value of type s.type.
bool Parser::parse_operands(Stmt& s) {
  switch (s.kind) {
    case StmtKind::constant:
      s.number = ir::parse_number(lexer_);
      parse_result_type(s);
      return true;
    case StmtKind::scalar:
      s.slot = use_scalar();
      s.type = kernel_.scalars[s.slot].dtype;
      return true;
    case StmtKind::symbol:
      s.slot = use_symbol();
      s.type = DType::i64;
      return true;
    case StmtKind::compute:
      s.args = use_list();
      parse_result_type(s);
      return true;
    case StmtKind::affine:
      s.index = parse_affine();
      s.type = DType::i64;
      return true;
    case StmtKind::load: parse_load(s); return true;
    case StmtKind::checked:
      s.args = {use()};
      expect(",");
      s.extent = parse_extent();
      s.type = DType::i64;
      return true;
    case StmtKind::atomic: s.atomic = expect_one_of<AtomicOp>(atomic_words); [[fallthrough]];
    case StmtKind::store: parse_store(s); return false;
    case StmtKind::alloc: parse_alloc(s); return false;
    case StmtKind::branch:
      s.predicate = use();
      parse_block(s.body, nullptr);
      return false;
    case StmtKind::barrier: return false;
    case StmtKind::transpose: parse_transpose(s); return false;
    case StmtKind::loop: break;  // Names its results itself.
  }
  BRAZE_CHECK(false, "a statement that parse_stmt reads");
}

}  // namespace

std::unique_ptr<Kernel> parse_kernel(std::string_view text) {
  Lexer lexer(text, "kernel text");
  std::unique_ptr<Kernel> kernel = parse_kernel(lexer);
  if (!lexer.at_end()) lexer.fail("expected the end of the text after the kernel");
  return kernel;
}

std::unique_ptr<Kernel> parse_kernel(Lexer& lexer) {
  return Parser(lexer).run();
}

}  // namespace braze::loops
