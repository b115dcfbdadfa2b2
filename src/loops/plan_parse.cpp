// loops/plan_parse.cpp: text to plans; the reverse of plan.cpp.
#include <functional>
#include <unordered_map>

#include "ir/literals.h"
#include "ir/shapes.h"
#include "ir/size_table.h"
#include "ir/size_text.h"
#include "ir/text.h"
#include "loops/plan.h"
#include "loops/plan_words.h"
#include "loops/symbolic_plan.h"
#include "loops/words.h"

namespace braze::loops {

namespace {

int64_t expect_count(Lexer& lexer) {
  const Token where = lexer.peek();
  const int64_t value = lexer.expect_integer();
  if (value < 0) lexer.fail(where, "expected a number that is not negative");
  return value;
}

using Kind = Token::Kind;

/// Plans of numbers of any kind. \tparam Read  reads a number of the plan: of a symbolic one, as it is spelled.
template <typename Value, typename Read>
class Parser {
 public:
  static constexpr bool is_symbolic = !std::is_same_v<Value, int64_t>;
  Parser(Lexer& lexer, Read read) : lexer_(lexer), read_(std::move(read)) {}

  void kernels() {
    while (lexer_.peek().is("kernel")) kernel();
    lexer_.expect("plan");
  }

  PlanOf<Value> buffers_and_steps() {
    while (lexer_.peek().is("#")) buffer();
    while (!lexer_.peek().is("mutate") && !lexer_.peek().is("return")) steps();
    while (lexer_.take("mutate")) {
      const uint32_t input = index();
      lexer_.expect(",");
      plan_.mutations.push_back({input, view()});
    }
    lexer_.expect("return");
    if (lexer_.peek().is("#")) {
      do plan_.outputs.push_back(view());
      while (lexer_.take(","));
    }
    lexer_.expect("}");
    if (!lexer_.at_end()) lexer_.fail("expected the end of the text after the plan");
    hash_kernels(plan_);
    return std::move(plan_);
  }

  std::vector<uint32_t> take_cats() { return std::move(cats_); }

 private:
  // ---- numbers and names
  int64_t count() { return expect_count(lexer_); }
  uint32_t index() {
    const Token where = lexer_.peek();
    const int64_t value = count();
    if (value > INT32_MAX) lexer_.fail(where, "expected a smaller number");
    return static_cast<uint32_t>(value);
  }
  uint32_t buffer_number() {
    const Token where = lexer_.peek();
    lexer_.expect("#");
    const uint32_t number = index();
    if (number >= plan_.buffers.size()) lexer_.fail(where, "no buffer above has this number");
    return number;
  }
  int64_t named_count(std::string_view name) {
    lexer_.expect(name);
    lexer_.expect("=");
    return count();
  }
  std::string source() {
    if (!lexer_.take("source")) return {};
    lexer_.expect("=");
    return ir::parse_quoted(lexer_);
  }

  /// An offset: of numbers, one that is not negative.
  Value place() {
    if constexpr (is_symbolic) return read_();
    return count();
  }

  struct Type {
    ir::DType dtype;
    ir::Device device;
    std::vector<Value> sizes, strides;
  };
  Type type() {
    const Token where = lexer_.peek();
    if constexpr (is_symbolic) {
      const auto dtype = ir::parse_dtype(lexer_.expect(Kind::word, "a type, as f32[n,8]{8,1}").text);
      if (!dtype) lexer_.fail(where, "expected a dtype (f32, i64, bool, ...)");
      Type type{.dtype = *dtype, .device = {}, .sizes = {}, .strides = {}};
      lexer_.expect("[");
      type.sizes = numbers("]");
      if (lexer_.take("{")) type.strides = numbers("}");
      if (type.strides.size() != type.sizes.size()) lexer_.fail(where, "this type has not one stride a dimension");
      if (lexer_.at(Kind::symbol)) type.device = ir::parse_device(lexer_);
      return type;
    } else {
      ir::TypeParts type = ir::parse_type(lexer_);
      if (!ir::is_addressable(type.sizes, type.strides)) lexer_.fail(where, "a type that no memory holds");
      return {type.dtype, type.device, std::move(type.sizes), std::move(type.strides)};
    }
  }

  std::vector<Value> numbers(std::string_view close) {
    std::vector<Value> list;
    if (lexer_.take(close)) return list;
    do list.push_back(read_());
    while (lexer_.take(","));
    lexer_.expect(close);
    return list;
  }

  // ---- kernels and buffers
  void kernel() {
    const Token where = lexer_.peek();
    auto kernel = parse_kernel(lexer_);
    if (!kernels_.emplace(kernel->name, plan_.kernels.size()).second)
      lexer_.fail(where, "a second kernel of this name");
    plan_.kernels.push_back(std::move(kernel));
  }

  void buffer() {
    lexer_.expect("#");
    const Token where = lexer_.peek();
    if (index() != plan_.buffers.size()) lexer_.fail(where, "buffers are numbered in order");
    lexer_.expect("=");
    PlanBufferOf<Value> buffer;
    const Token word = lexer_.next();
    const auto kind = find_word<BufferKind>(buffer_words, word.text);
    if (!kind) lexer_.fail(word, "expected a kind of buffer (input, temporary, output, call, part, mutated)");
    buffer.kind = *kind;
    if (has_index(*kind))
      buffer.index = index();
    else if (*kind == BufferKind::part || (!is_symbolic && *kind != BufferKind::call))
      buffer.offset = place();
    if (lexer_.take("of")) buffer.part_of = static_cast<int32_t>(buffer_number());
    buffer.zeroed = lexer_.take("zeroed");
    lexer_.expect(":");
    Type stored = type();
    buffer.dtype = stored.dtype;
    buffer.device = stored.device;
    if constexpr (!is_symbolic) buffer.bytes = span_of(stored.sizes, stored.strides) * ir::byte_size(stored.dtype);
    buffer.sizes = std::move(stored.sizes);
    buffer.strides = std::move(stored.strides);
    plan_.buffers.push_back(std::move(buffer));
  }

  ViewOf<Value> view() {
    const uint32_t buffer = buffer_number();
    if (!lexer_.take("as")) return whole(plan_, buffer);
    Type seen = type();
    ViewOf<Value> view{buffer, seen.dtype, std::move(seen.sizes), std::move(seen.strides), 0};
    if (lexer_.take("+")) view.offset = place();
    return view;
  }

  // ---- steps
  void steps() {
    if (lexer_.take("call")) return call_step();
    if (!lexer_.take("region")) return launch_step(Join::alone);
    lexer_.expect("{");
    launch_step(Join::alone);
    while (!lexer_.take("}")) launch_step(lexer_.take("barrier") ? Join::after : Join::beside);
  }

  void call_step() {
    StepOf<Value> step;
    step.kind = StepKind::call;
    call(step.call);
    finish(std::move(step));
  }

  void launch_step(Join join) {
    lexer_.expect("launch");
    StepOf<Value> step;
    step.kind = StepKind::kernel;
    step.join = join;
    launch(step.kernel);
    finish(std::move(step));
  }

  void finish(StepOf<Value> step) {
    if (is_symbolic) {
      const bool has_cat = lexer_.take("cat");
      if (has_cat) lexer_.expect("=");
      cats_.push_back(has_cat ? index() : 0);
    }
    step.source = source();
    plan_.steps.push_back(std::move(step));
  }

  void launch(KernelStepOf<Value>& step) {
    const Token name = lexer_.expect(Kind::symbol, "a kernel, as @add_1f2e3d4c");
    const auto found = kernels_.find(std::string(name.text));
    if (found == kernels_.end()) lexer_.fail(name, "no kernel above has this name");
    step.kernel = static_cast<uint32_t>(found->second);
    lexer_.expect("(");
    if (!lexer_.take(")")) {
      do operand(step);
      while (lexer_.take(","));
      lexer_.expect(")");
    }
    if (lexer_.take("symbols")) {
      lexer_.expect("=");
      lexer_.expect("[");
      step.symbols = numbers("]");
    }
    if (!is_symbolic) {
      step.bytes_read = named_count("reads");
      step.bytes_written = named_count("writes");
    }
    lexer_.expect("fused");
    lexer_.expect("=");
    lexer_.expect("[");
    if (lexer_.take("]")) return;
    do step.fused.push_back(ir::parse_quoted(lexer_));
    while (lexer_.take(","));
    lexer_.expect("]");
  }

  void operand(KernelStepOf<Value>& step) {
    if (!lexer_.peek().is("#")) {
      step.scalars.push_back(ir::parse_number(lexer_));
      return;
    }
    step.buffers.push_back(buffer_number());
    step.origins.push_back(0);
    if (!lexer_.take("[")) return;
    step.origins.back() = place();
    for (std::string_view mark : {".", ".", "]"}) lexer_.expect(mark);
  }

  void call(CallStepOf<Value>& step) {
    step.call.name = ir::parse_quoted(lexer_);
    if (lexer_.take("overload")) {
      lexer_.expect("=");
      step.call.overload = ir::parse_quoted(lexer_);
    }
    lexer_.expect("(");
    step.call.arguments = ir::parse_arguments(lexer_, ")", [&](Lexer& lexer) -> std::optional<int64_t> {
      if (!lexer.peek().is("#")) return std::nullopt;
      step.operands.push_back(view());
      return static_cast<int64_t>(step.operands.size()) - 1;
    });
    if (lexer_.take("written")) {
      lexer_.expect("=");
      lexer_.expect("[");
      do step.call.written.push_back(index());
      while (lexer_.take(","));
      lexer_.expect("]");
    }
    const bool says_results = lexer_.take("results");
    if (says_results) {
      lexer_.expect("=");
      lexer_.expect("[");
      step.call.results = ir::parse_results(lexer_);
      lexer_.expect("]");
    }
    step.writes_into = lexer_.take("into");
    if (lexer_.take("-")) {
      lexer_.expect(">");
      do step.results.push_back(lexer_.take("none") ? -1 : static_cast<int32_t>(buffer_number()));
      while (lexer_.take(","));
    }
    if (says_results) return;
    for (size_t k = 0; k < step.results.size(); ++k) step.call.results.push_back({static_cast<int32_t>(k)});
  }

  Lexer& lexer_;
  Read read_;
  PlanOf<Value> plan_;
  std::unordered_map<std::string, size_t> kernels_;
  std::vector<uint32_t> cats_;  ///< By step, of symbolic plans.
};

}  // namespace

Plan parse_plan(std::string_view text) {
  Lexer lexer(text, "plan text");
  Parser<int64_t, std::function<int64_t()>> parser(lexer, [&] { return lexer.expect_integer(); });
  parser.kernels();
  lexer.expect("{");
  lexer.expect("arena");
  const int64_t arena = expect_count(lexer);
  lexer.expect("unplanned");
  const int64_t unplanned = expect_count(lexer);
  Plan plan = parser.buffers_and_steps();
  plan.arena_bytes = arena;
  plan.unplanned_bytes = unplanned;
  return plan;
}

class SymbolicPlanParser {
 public:
  explicit SymbolicPlanParser(std::string_view text) : lexer_(text, "plan text") {}

  SymbolicPlan run() {
    Parser<SymbolicPlan::Number, std::function<SymbolicPlan::Number()>> parser(lexer_, [this] { return number(); });
    parser.kernels();
    lexer_.expect("[");
    if (!lexer_.take("]")) {
      do symbol();
      while (lexer_.take(","));
      lexer_.expect("]");
    }
    lexer_.expect("{");
    while (lexer_.take("guard")) guard();
    family_.reuse_memory_ = !lexer_.take("without");
    if (!family_.reuse_memory_) lexer_.expect("reuse");
    family_.plan_ = parser.buffers_and_steps();
    family_.cats_ = parser.take_cats();
    for (StepOf<SymbolicPlan::Number>& step : family_.plan_.steps)
      ir::for_each_size(std::span(step.call.call.arguments), [&](ir::Argument& argument) {
        const SymbolicPlan::Number size = number_of(ir::parse_size(argument.text, table_), argument.text);
        argument.integer = size.value;
        if (!size.is_computed) argument = ir::Argument::of(ir::Argument::Kind::integer, size.value);
      });
    family_.prepare();
    return std::move(family_);
  }

 private:
  void symbol() {
    const Token name = lexer_.peek();
    const ir::SymbolDeclaration& symbol = family_.symbols_.emplace_back(ir::parse_declaration(lexer_));
    if (table_.find(symbol.name)) lexer_.fail(name, "a second symbol of this name");
    table_.symbol(symbol.name, symbol.facts);
  }

  void guard() {
    const size_t begin = lexer_.peek().offset;
    const ir::SizeTest test = ir::parse_size_test(lexer_, table_);
    family_.guards_.push_back({test.kind, to_text(test.left), spelled_since(begin, to_text(test))});
  }

  /// What was read from there on; `otherwise` where a comment stands in it or behind it.
  std::string spelled_since(size_t begin, const std::string& otherwise) const {
    const size_t end = lexer_.at_end() ? lexer_.text().size() : lexer_.peek().offset;
    std::string_view spelled = lexer_.text().substr(begin, end - begin);
    spelled = spelled.substr(0, spelled.find_last_not_of(" \t\r\n") + 1);
    const bool has_comment = spelled.find(';') != spelled.npos || spelled.find("//") != spelled.npos;
    return has_comment ? otherwise : std::string(spelled);
  }

  SymbolicPlan::Number number() {
    const size_t begin = lexer_.peek().offset;
    const ir::Size size = ir::parse_size(lexer_, table_, "");
    return number_of(size, spelled_since(begin, to_text(size)));
  }

  /// Expressions are kept as they are spelled, so that the plan prints as it was read.
  SymbolicPlan::Number number_of(ir::Size size, const std::string& spelled) {
    if (size.is_constant()) return size.constant();
    const auto [at, is_new] = known_.try_emplace(spelled, static_cast<int64_t>(family_.sizes_.size()));
    if (is_new) family_.sizes_.push_back(spelled);
    SymbolicPlan::Number number(at->second);
    number.is_computed = true;
    return number;
  }

  Lexer lexer_;
  ir::SizeTable table_;
  SymbolicPlan family_;
  std::unordered_map<std::string, int64_t> known_;  ///< Expressions, by their text.
};

SymbolicPlan parse_symbolic_plan(std::string_view text) {
  return SymbolicPlanParser(text).run();
}

}  // namespace braze::loops
