// ir/library_call.h: a call of a library's operator in plain values: what a plan says of it, and a node in text.
//
//   %1, %2 = call %0, target="aten::sort" arguments="$0, -1, false" : f32[4,8], i64[4,8]
//
// Arguments stand in the order of the operator's schema:
//
//   none  true  3  1.5  complex(1.0, 2.0)  'mean'     as they are (ir/literals.h)
//   device('cuda:0')
//   $0                operand 0 of the call
//   undefined         a tensor that is none
//   size('4*n + 1')   a whole number that is an expression over the graph's symbols (ir/size.h)
//   quotient(size('a'), size('b'))  the number a / b / b, a double: sizes, or whole numbers
//   wrapped(2.5)      a number that the operator takes as a tensor without dimensions, with a number's precedence
//   wrapped($0)       the number that operand 0 holds, an f64 without dimensions on the CPU, as a plain number
//   [1, $2, none]     a list
//   object(0)         what has no text (a generator): number 0 of what whoever runs the call was given beside it
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "support/lexer.h"

namespace braze::ir {

struct Argument {
  enum class Kind : uint8_t {
    none,
    undefined,
    boolean,
    integer,
    real,
    complex,
    text,
    device,
    operand,
    object,
    wrapped,
    size,
    quotient,
    list
  } kind = Kind::none;
  int64_t integer = 0;  ///< boolean, integer; operand, object: its number.
  double real = 0, imaginary = 0;
  std::string text = {};                ///< text, device; size: as parse_size() reads it.
  std::vector<Argument> elements = {};  ///< list; wrapped: the number or operand alone; quotient: two.

  static Argument of(Kind kind, int64_t value = 0) { return {.kind = kind, .integer = value}; }
  static Argument of_number(Number number);
  static Argument of_text(Kind kind, std::string text) { return {.kind = kind, .text = std::move(text)}; }
  bool operator==(const Argument&) const;  ///< Floats by their bits.
};

/// Calls visit(argument) for each that is a size, inside of lists too.
template <typename Visit>
void for_each_size(std::span<Argument> arguments, Visit&& visit) {
  for (Argument& argument : arguments) {
    if (argument.kind == Argument::Kind::size) visit(argument);
    for_each_size(std::span<Argument>(argument.elements), visit);
  }
}

/// The number that a quotient stands for. Throws UserError if one of its sizes is not known.
double value_of_quotient(const Argument& quotient);

/// Where a result of a call is found after it.
struct CallResult {
  int32_t returned;      ///< Index of the return value; -1: the clone of LibraryCall::written[element].
  int32_t element = -1;  ///< Index into a returned list, -1 for a plain tensor.
  bool operator==(const CallResult&) const = default;
};

struct LibraryCall {
  std::string name, overload;  ///< "aten::topk", "".
  std::vector<Argument> arguments;
  std::vector<uint32_t> written;    ///< Operands that it writes: it gets clones of them, which are then results.
  std::vector<CallResult> results;  ///< One a result of the call.
  bool operator==(const LibraryCall&) const = default;
};

/// Of a node of kind Library. Throws UserError on bad text in its attributes.
LibraryCall library_call(const Node& node);

/// Whether `arguments` name each operand once, counting from `next` upwards.
bool names_operands(std::span<const Argument> arguments, int64_t& next);

// ---- text

/// How operands stand in a text. The parser gives the operand's number, or takes nothing if none begins here.
using OperandPrinter = std::function<void(std::string& out, int64_t number)>;
using OperandParser = std::function<std::optional<int64_t>(Lexer& lexer)>;
void print_operand(std::string& out, int64_t number);  ///< "$0"
std::optional<int64_t> parse_operand(Lexer& lexer);

void append_arguments(std::string& out, std::span<const Argument> arguments,
                      const OperandPrinter& operand = print_operand);
/// Up to `close`, which is taken (empty: to the end of the text). Throws UserError with line and column.
std::vector<Argument> parse_arguments(Lexer& lexer, std::string_view close,
                                      const OperandParser& operand = parse_operand);

/// "0, 1[2], clone 0"; empty if result number k is just the return value number k.
std::string print(std::span<const CallResult> results);
std::vector<CallResult> parse_results(Lexer& lexer);

}  // namespace braze::ir
