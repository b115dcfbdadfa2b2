#include "ir/instantiate.h"

#include <vector>

#include "ir/graph_copy.h"
#include "ir/library_call.h"
#include "ir/shape_env.h"
#include "ir/size_text.h"
#include "support/error.h"

namespace braze::ir {
namespace {

class Instantiation final : public GraphCopy {
 public:
  Instantiation(const Graph& from, Graph& to, std::span<const int64_t> symbols, const ShapeEnv* env)
      : GraphCopy(from, to), symbols_(symbols), env_(env) {}

  void check_symbols() const {
    const ShapeEnv* env = from_.find_shape_env();
    if (!env) return;
    BRAZE_CHECK(symbols_.size() == env->table().symbol_count(), "a value is needed for every symbol");
    for (uint32_t slot = 0; slot < symbols_.size(); ++slot) {
      const SymbolFacts& facts = env->declared(slot);
      const int64_t value = symbols_[slot];
      if (!facts.range.has(value) || (value - facts.remainder) % facts.modulus != 0)
        throw UserError(concat(env->table().name(slot), " = ", value, " is none of its values"),
                        UserError::Kind::value);
    }
    if (const auto guard = env->broken(symbols_))
      throw UserError(concat("the guard ", to_text(env->guards()[*guard].test), " is broken"),
                      UserError::Kind::value);
  }

 private:
  int64_t number(Size size) const {
    if (size.is_constant()) return size.constant();
    SizeCode code;
    code.add(size);
    int64_t value = 0;
    if (!code.run(symbols_, {&value, 1}))
      throw UserError(concat("the size ", to_text(size), " has no value for these symbols"),
                      UserError::Kind::value);
    return value;
  }
  std::vector<int64_t> numbers(std::span<const Size> sizes) const {
    std::vector<int64_t> values;
    for (const Size size : sizes) values.push_back(number(size));
    return values;
  }

  /// The arguments of a library call, sizes among them as numbers.
  std::string call_arguments(std::string_view text) const {
    if (text.find("size(") == std::string_view::npos) return std::string(text);
    Lexer lexer(text, "arguments");
    std::vector<Argument> arguments = parse_arguments(lexer, "");
    for_each_size(arguments, [&](Argument& argument) {
      SizeTable& table = const_cast<SizeTable&>(env_->table());  // Interns, and changes no facts.
      argument = Argument::of(Argument::Kind::integer, number(parse_size(argument.text, table)));
    });
    std::string out;
    append_arguments(out, arguments);
    return out;
  }

  const Type* type(const Type& symbolic) override {
    return to_.type(symbolic.dtype, symbolic.device, numbers(symbolic.sizes.symbolic()),
                    numbers(symbolic.strides.symbolic()));
  }

  void change(const Node& node, std::vector<Attr>& attributes) override {
    for (Attr& attribute : attributes) {
      if (node.op == Op::call && attribute.name == "arguments")
        attribute.value = to_.intern(call_arguments(std::get<std::string_view>(attribute.value)));
      if (const auto* size = std::get_if<Size>(&attribute.value)) attribute.value = number(*size);
      if (const auto* sizes = std::get_if<std::span<const Size>>(&attribute.value))
        attribute.value = to_.ints(numbers(*sizes));
    }
  }

  Value* replaced(const Node& node) override {
    if (node.op != Op::size) return nullptr;
    return to_.scalar(DType::i64, Number::of_int(number(node.size_attr("of"))), node.results[0].type->device);
  }

  const std::span<const int64_t> symbols_;
  const ShapeEnv* const env_;
};

}  // namespace

std::unique_ptr<Graph> instantiate(const Graph& graph, std::span<const int64_t> symbols, const Node** place,
                                   const ShapeEnv* env) {
  auto to = std::make_unique<Graph>(graph.name());
  Instantiation copy(graph, *to, symbols, env ? env : graph.find_shape_env());
  copy.check_symbols();
  copy.run(place);
  return to;
}

}  // namespace braze::ir
