#include "ir/library_call.h"

#include <algorithm>
#include <bit>

#include "ir/literals.h"
#include "support/error.h"

namespace braze::ir {

namespace {

using Kind = Argument::Kind;

// Kinds that are a word alone, and those that are a word before something in parentheses.
struct Word {
  std::string_view text;
  Kind kind;
  int64_t integer = 0;
};
constexpr Word words[] = {
    {"none", Kind::none}, {"undefined", Kind::undefined}, {"true", Kind::boolean, 1}, {"false", Kind::boolean, 0}};
constexpr Word functions[] = {{"complex", Kind::complex}, {"device", Kind::device}, {"object", Kind::object},
                              {"wrapped", Kind::wrapped}, {"size", Kind::size},     {"quotient", Kind::quotient}};

template <typename Match>
const Word* find(std::span<const Word> table, Match matches) {
  const auto row = std::ranges::find_if(table, matches);
  return row == table.end() ? nullptr : &*row;
}

// ---- printing

class Printer {
 public:
  Printer(std::string& out, const OperandPrinter& operand) : out_(out), operand_(operand) {}

  void all(std::span<const Argument> arguments) {
    for (size_t k = 0; k < arguments.size(); ++k) {
      if (k > 0) out_ += ", ";
      one(arguments[k]);
    }
  }

 private:
  void one(const Argument& argument) {
    if (const Word* word = find(
            words, [&](const Word& row) { return row.kind == argument.kind && row.integer == argument.integer; })) {
      out_ += word->text;
      return;
    }
    const Word* function = find(functions, [&](const Word& row) { return row.kind == argument.kind; });
    if (function) (out_ += function->text) += '(';
    inside(argument);
    if (function) out_ += ')';
  }

  void inside(const Argument& argument) {
    switch (argument.kind) {
      case Kind::integer:
      case Kind::object: return append_number(out_, Number::of_int(argument.integer));
      case Kind::real: return append_number(out_, Number::of(argument.real));
      case Kind::complex:
        append_number(out_, Number::of(argument.real));
        append_number(out_ += ", ", Number::of(argument.imaginary));
        return;
      case Kind::text:
      case Kind::size:
      case Kind::device: return append_quoted(out_, argument.text);
      case Kind::operand: return operand_(out_, argument.integer);
      case Kind::wrapped:
      case Kind::quotient: return all(argument.elements);
      case Kind::list:
        out_ += '[';
        all(argument.elements);
        out_ += ']';
        return;
      case Kind::none:
      case Kind::undefined:
      case Kind::boolean: break;
    }
    BRAZE_CHECK(false, "an argument that is neither true nor false");
  }

  std::string& out_;
  const OperandPrinter& operand_;
};

// ---- parsing

class Parser {
 public:
  Parser(Lexer& lexer, const OperandParser& operand) : lexer_(lexer), operand_(operand) {}

  std::vector<Argument> all(std::string_view close) {
    std::vector<Argument> arguments;
    if (close.empty() ? lexer_.at_end() : lexer_.take(close)) return arguments;
    do arguments.push_back(one());
    while (lexer_.take(","));
    if (!close.empty()) lexer_.expect(close);
    if (close.empty() && !lexer_.at_end()) lexer_.fail("expected the end of the arguments");
    return arguments;
  }

 private:
  Argument one() {
    if (const auto number = operand_(lexer_)) return Argument::of(Kind::operand, *number);
    if (lexer_.take("[")) return {.kind = Kind::list, .elements = nested("]")};
    if (lexer_.at(Token::Kind::text)) return Argument::of_text(Kind::text, parse_quoted(lexer_));
    if (lexer_.at(Token::Kind::word)) {
      const std::string_view text = lexer_.peek().text;
      const auto is_it = [&](const Word& row) { return row.text == text; };
      if (const Word* word = find(words, is_it)) {
        lexer_.next();
        return Argument::of(word->kind, word->integer);
      }
      if (const Word* function = find(functions, is_it)) {
        lexer_.next();
        lexer_.expect("(");
        Argument argument = inside(function->kind);
        lexer_.expect(")");
        return argument;
      }
    }
    return Argument::of_number(parse_number(lexer_));
  }

  Argument inside(Kind kind) {
    switch (kind) {
      case Kind::object: {
        const Token where = lexer_.peek();
        const int64_t number = lexer_.expect_integer();
        if (number < 0) lexer_.fail(where, "expected the number of an object");
        return Argument::of(kind, number);
      }
      case Kind::size:
      case Kind::device: return Argument::of_text(kind, parse_quoted(lexer_));
      case Kind::complex: {
        Argument argument{.kind = kind, .real = parse_number(lexer_).as_double()};
        lexer_.expect(",");
        argument.imaginary = parse_number(lexer_).as_double();
        return argument;
      }
      case Kind::quotient: {
        Argument argument{.kind = kind};
        argument.elements.push_back(whole());
        lexer_.expect(",");
        argument.elements.push_back(whole());
        return argument;
      }
      default: break;
    }
    const Token where = lexer_.peek();
    Argument held = one();
    const bool is_number = held.kind == Kind::boolean || held.kind == Kind::integer || held.kind == Kind::real ||
                           held.kind == Kind::complex || held.kind == Kind::operand;
    if (!is_number) lexer_.fail(where, "expected a number");
    Argument wrapped{.kind = kind};
    wrapped.elements.push_back(std::move(held));
    return wrapped;
  }

  Argument whole() {
    const Token where = lexer_.peek();
    Argument argument = one();
    if (argument.kind != Kind::size && argument.kind != Kind::integer)
      lexer_.fail(where, "expected a whole number");
    return argument;
  }

  /// A list's elements; texts of our own nest twice at most.
  std::vector<Argument> nested(std::string_view close) {
    if (++depth_ > deepest) lexer_.fail("lists are nested too deeply");
    std::vector<Argument> elements = all(close);
    --depth_;
    return elements;
  }

  static constexpr int deepest = 16;
  Lexer& lexer_;
  const OperandParser& operand_;
  int depth_ = 0;
};

// ---- nodes

Argument number_or_one(const Node& node, std::string_view name) {
  const Attr* attr = node.find(name);
  return Argument::of_number(attr ? std::get<Number>(attr->value) : Number::of_int(1));
}

/// All operands in order: what most operators take first.
std::vector<Argument> operands_of(const Node& node) {
  std::vector<Argument> arguments;
  for (size_t k = 0; k < node.operands.size(); ++k)
    arguments.push_back(Argument::of(Kind::operand, static_cast<int64_t>(k)));
  return arguments;
}

/// (query, key, value, mask, dropout, is_causal, scale, enable_gqa)
std::vector<Argument> attention_arguments(const Node& node) {
  std::vector<Argument> arguments = operands_of(node);
  if (arguments.size() < 4) arguments.push_back(Argument::of(Kind::none));
  arguments.push_back(Argument::of_number(Number::of(0.0)));
  arguments.push_back(Argument::of(Kind::boolean, node.bool_attr("causal")));
  arguments.push_back(node.find("scale") ? Argument::of_number(Number::of(node.double_attr("scale", 1.0)))
                                         : Argument::of(Kind::none));
  const bool fewer_heads =
      node.operands[0]->type->sizes.symbolic()[1] != node.operands[1]->type->sizes.symbolic()[1];
  arguments.push_back(Argument::of(Kind::boolean, fewer_heads));
  return arguments;
}

std::vector<Argument> product_arguments(const Node& node) {
  std::vector<Argument> arguments = operands_of(node);
  if (node.op != Op::addmm && node.op != Op::baddbmm) return arguments;
  for (const char* name : {"beta", "alpha"}) arguments.push_back(number_or_one(node, name));
  return arguments;
}

struct OperatorRow {
  Op op;
  std::string_view name;
  std::vector<Argument> (*arguments)(const Node& node);
};
constexpr OperatorRow operators[] = {
    {Op::mm, "aten::mm", product_arguments},
    {Op::addmm, "aten::addmm", product_arguments},
    {Op::bmm, "aten::bmm", product_arguments},
    {Op::baddbmm, "aten::baddbmm", product_arguments},
    {Op::sdpa, "aten::scaled_dot_product_attention", attention_arguments},
};

std::string_view text_or_empty(const Node& node, std::string_view name) {
  return node.find(name) ? node.text_attr(name) : std::string_view();
}

}  // namespace

Argument Argument::of_number(Number number) {
  if (number.floating) return {.kind = Kind::real, .real = number.f};
  return of(Kind::integer, number.i);
}

bool Argument::operator==(const Argument& other) const {
  const auto same_bits = [](double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  };
  return kind == other.kind && integer == other.integer && same_bits(real, other.real) &&
         same_bits(imaginary, other.imaginary) && text == other.text && elements == other.elements;
}

double value_of_quotient(const Argument& quotient) {
  for (const Argument& element : quotient.elements)
    if (element.kind != Kind::integer)
      throw UserError("a number of a call is computed of a size that is not known");
  const auto by = static_cast<double>(quotient.elements.at(1).integer);
  return static_cast<double>(quotient.elements[0].integer) / by / by;
}

LibraryCall library_call(const Node& node) {
  LibraryCall call;
  for (const OperatorRow& row : operators) {
    if (row.op != node.op) continue;
    call.name = row.name;
    call.arguments = row.arguments(node);
    call.results = {{0}};
    return call;
  }
  BRAZE_CHECK(node.op == Op::call, info(node.op).name, " is no library call");
  call.name = node.text_attr("target");
  call.overload = text_or_empty(node, "overload");
  if (node.find("arguments")) {
    Lexer lexer(node.text_attr("arguments"), "arguments");
    call.arguments = parse_arguments(lexer, "");
  } else {
    call.arguments = operands_of(node);
  }
  if (node.find("written"))
    for (const int64_t operand : node.ints_attr("written")) call.written.push_back(static_cast<uint32_t>(operand));
  Lexer lexer(text_or_empty(node, "results"), "results");
  call.results = parse_results(lexer);
  if (!lexer.at_end()) lexer.fail("expected the end of the results");
  for (size_t k = call.results.size(); k < node.results.size(); ++k)
    call.results.push_back({static_cast<int32_t>(k)});
  return call;
}

bool names_operands(std::span<const Argument> arguments, int64_t& next) {
  for (const Argument& argument : arguments) {
    if (argument.kind == Argument::Kind::operand && argument.integer != next++) return false;
    if (!names_operands(argument.elements, next)) return false;
  }
  return true;
}

void print_operand(std::string& out, int64_t number) {
  append_number(out += '$', Number::of_int(number));
}

std::optional<int64_t> parse_operand(Lexer& lexer) {
  if (!lexer.take("$")) return std::nullopt;
  return lexer.expect_integer();
}

void append_arguments(std::string& out, std::span<const Argument> arguments, const OperandPrinter& operand) {
  Printer(out, operand).all(arguments);
}

std::vector<Argument> parse_arguments(Lexer& lexer, std::string_view close, const OperandParser& operand) {
  return Parser(lexer, operand).all(close);
}

std::string print(std::span<const CallResult> results) {
  bool in_order = true;
  for (size_t k = 0; k < results.size(); ++k) in_order &= results[k] == CallResult{static_cast<int32_t>(k)};
  std::string text;
  if (in_order) return text;
  for (const CallResult& result : results) {
    if (!text.empty()) text += ", ";
    const bool is_clone = result.returned < 0;
    if (is_clone) text += "clone ";
    append_number(text, Number::of_int(is_clone ? result.element : result.returned));
    if (is_clone || result.element < 0) continue;
    append_number(text += '[', Number::of_int(result.element));
    text += ']';
  }
  return text;
}

std::vector<CallResult> parse_results(Lexer& lexer) {
  std::vector<CallResult> results;
  const auto index = [&] {
    const Token where = lexer.peek();
    const int64_t value = lexer.expect_integer();
    if (value < 0 || value > INT32_MAX) lexer.fail(where, "expected the number of a result");
    return static_cast<int32_t>(value);
  };
  while (lexer.at(Token::Kind::integer) || lexer.peek().is("clone")) {
    if (lexer.take("clone")) {
      results.push_back({-1, index()});
    } else {
      results.push_back({index()});
      if (lexer.take("[")) {
        results.back().element = index();
        lexer.expect("]");
      }
    }
    if (!lexer.take(",")) break;
  }
  return results;
}

}  // namespace braze::ir
