// loops/plan_parse.cpp: text to plans; the reverse of plan.cpp.
#include <unordered_map>

#include "ir/literals.h"
#include "ir/shapes.h"
#include "ir/text.h"
#include "loops/plan.h"
#include "loops/plan_words.h"
#include "loops/words.h"

namespace braze::loops {

namespace {

using Kind = Token::Kind;

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text, "plan text") {}

  Plan run() {
    while (lexer_.peek().is("kernel")) kernel();
    lexer_.expect("plan");
    lexer_.expect("{");
    lexer_.expect("arena");
    plan_.arena_bytes = count();
    lexer_.expect("unplanned");
    plan_.unplanned_bytes = count();
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
    return std::move(plan_);
  }

 private:
  // ---- numbers and names
  int64_t count() {
    const Token where = lexer_.peek();
    const int64_t value = lexer_.expect_integer();
    if (value < 0) lexer_.fail(where, "expected a number that is not negative");
    return value;
  }
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

  ir::TypeParts type() {
    const Token where = lexer_.peek();
    ir::TypeParts type = ir::parse_type(lexer_);
    if (!ir::is_addressable(type.sizes, type.strides)) lexer_.fail(where, "a type that no memory holds");
    return type;
  }

  // ---- kernels and buffers
  void kernel() {
    const Token where = lexer_.peek();
    auto kernel = parse_kernel(lexer_);
    if (!kernels_.emplace(kernel->name, plan_.kernels.size()).second)
      lexer_.fail(where, "a second kernel of this name");
    plan_.kernel_hashes.push_back(structural_hash(*kernel));
    plan_.kernels.push_back(std::move(kernel));
  }

  void buffer() {
    lexer_.expect("#");
    const Token where = lexer_.peek();
    if (index() != plan_.buffers.size()) lexer_.fail(where, "buffers are numbered in order");
    lexer_.expect("=");
    PlanBuffer buffer;
    const Token word = lexer_.next();
    const auto kind = find_word<BufferKind>(buffer_words, word.text);
    if (!kind) lexer_.fail(word, "expected a kind of buffer (input, temporary, output, call, part, mutated)");
    buffer.kind = *kind;
    if (has_index(*kind))
      buffer.index = index();
    else if (*kind != BufferKind::call)
      buffer.offset = count();
    if (lexer_.take("of")) buffer.part_of = static_cast<int32_t>(buffer_number());
    lexer_.expect(":");
    ir::TypeParts stored = type();
    buffer.dtype = stored.dtype;
    buffer.device = stored.device;
    buffer.bytes = span_of(stored.sizes, stored.strides) * ir::byte_size(stored.dtype);
    buffer.sizes = std::move(stored.sizes);
    buffer.strides = std::move(stored.strides);
    plan_.buffers.push_back(std::move(buffer));
  }

  View view() {
    const uint32_t buffer = buffer_number();
    if (!lexer_.take("as")) return whole(plan_, buffer);
    ir::TypeParts seen = type();
    View view{buffer, seen.dtype, std::move(seen.sizes), std::move(seen.strides), 0};
    if (lexer_.take("+")) view.offset = count();
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
    Step step;
    step.kind = Step::Kind::call;
    call(step.call);
    step.source = source();
    plan_.steps.push_back(std::move(step));
  }

  void launch_step(Join join) {
    lexer_.expect("launch");
    Step step;
    step.kind = Step::Kind::kernel;
    step.join = join;
    launch(step.kernel);
    step.source = source();
    plan_.steps.push_back(std::move(step));
  }

  void launch(KernelStep& step) {
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
      do step.symbols.push_back(lexer_.expect_integer());
      while (lexer_.take(","));
      lexer_.expect("]");
    }
    step.bytes_read = named_count("reads");
    step.bytes_written = named_count("writes");
    lexer_.expect("fused");
    lexer_.expect("=");
    lexer_.expect("[");
    if (lexer_.take("]")) return;
    do step.fused.push_back(ir::parse_quoted(lexer_));
    while (lexer_.take(","));
    lexer_.expect("]");
  }

  void operand(KernelStep& step) {
    if (!lexer_.peek().is("#")) {
      step.scalars.push_back(ir::parse_number(lexer_));
      return;
    }
    step.buffers.push_back(buffer_number());
    step.origins.push_back(0);
    if (!lexer_.take("[")) return;
    step.origins.back() = count();
    for (std::string_view mark : {".", ".", "]"}) lexer_.expect(mark);
  }

  void call(CallStep& step) {
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

  Lexer lexer_;
  Plan plan_;
  std::unordered_map<std::string, size_t> kernels_;
};

}  // namespace

Plan parse_plan(std::string_view text) {
  return Parser(text).run();
}

}  // namespace braze::loops
