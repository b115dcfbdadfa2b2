#include "ir/instantiate.h"

#include <vector>

#include "ir/library_call.h"
#include "ir/shape_env.h"
#include "ir/size_text.h"
#include "support/error.h"

namespace braze::ir {
namespace {

class Instantiation {
 public:
  Instantiation(const Graph& from, std::span<const int64_t> symbols)
      : from_(from), symbols_(symbols), values_(from.value_limit()), to_(std::make_unique<Graph>(from.name())) {}

  std::unique_ptr<Graph> run(const Node** place) {
    check_symbols();
    for (const Input& input : from_.inputs())
      values_[input.value->id] = to_->add_input(input.name, type(*input.value->type), input.kind);
    const Node *before = nullptr, *const wanted = place ? *place : nullptr;
    for (const Node* node = from_.first(); node; node = node->next) {
      if (node == wanted) before = to_->last();
      copy(*node);
    }
    if (wanted) *place = before ? before->next : to_->first();
    for (const Value* output : from_.outputs()) to_->outputs().push_back(values_[output->id]);
    for (const Mutation& mutation : from_.mutations())
      to_->mutations().push_back({mutation.input, values_[mutation.value->id]});
    return std::move(to_);
  }

 private:
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
      SizeTable& table = const_cast<SizeTable&>(from_.find_shape_env()->table());  // Interns, and changes no facts.
      argument = Argument::of(Argument::Kind::integer, number(parse_size(argument.text, table)));
    });
    std::string out;
    append_arguments(out, arguments);
    return out;
  }

  const Type* type(const Type& symbolic) {
    return to_->type(symbolic.dtype, symbolic.device, numbers(symbolic.sizes.symbolic()),
                     numbers(symbolic.strides.symbolic()));
  }

  void copy(const Node& node) {
    to_->set_source(to_->intern(node.source));
    std::vector<Attr> attrs(node.attrs.begin(), node.attrs.end());
    std::string arguments;
    for (Attr& attr : attrs) {
      if (node.op == Op::call && attr.name == "arguments") {
        arguments = call_arguments(std::get<std::string_view>(attr.value));
        attr.value = std::string_view(arguments);
      }
      if (const auto* size = std::get_if<Size>(&attr.value)) attr.value = number(*size);
      if (const auto* sizes = std::get_if<std::span<const Size>>(&attr.value))
        attr.value = to_->ints(numbers(*sizes));
    }
    if (node.op == Op::size) {
      values_[node.results[0].id] =
          to_->scalar(DType::i64, Number::of_int(number(node.size_attr("of"))), node.results[0].type->device);
      return;
    }
    std::vector<Value*> operands;
    for (Value* operand : node.operands) operands.push_back(values_[Graph::resolve(operand)->id]);
    std::vector<const Type*> types;
    for (const Value& result : node.results) types.push_back(type(*result.type));
    Node* made = to_->create(node.op, operands, attrs, types);
    for (size_t k = 0; k < node.results.size(); ++k) values_[node.results[k].id] = made->result(k);
  }

  const Graph& from_;
  const std::span<const int64_t> symbols_;
  std::vector<Value*> values_;  ///< Of the copy, by the Value::id of `from_`.
  std::unique_ptr<Graph> to_;
};

}  // namespace

std::unique_ptr<Graph> instantiate(const Graph& graph, std::span<const int64_t> symbols, const Node** place) {
  return Instantiation(graph, symbols).run(place);
}

}  // namespace braze::ir
