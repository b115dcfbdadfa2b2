#include "ir/graph.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "ir/infer.h"
#include "ir/shapes.h"
#include "support/arena.h"
#include "support/error.h"

namespace braze::ir {
namespace {

struct TypeKey {
  DType dtype;
  Device device;
  std::span<const Size> sizes, strides;
};

TypeKey key_of(const TypeKey& key) {
  return key;
}
TypeKey key_of(const Type* type) {
  return {type->dtype, type->device, type->sizes.symbolic(), type->strides.symbolic()};
}

struct TypeHash {
  using is_transparent = void;
  template <typename T>
  size_t operator()(const T& item) const {
    const TypeKey key = key_of(item);
    uint64_t hash = static_cast<uint64_t>(key.dtype) | static_cast<uint64_t>(key.device.kind) << 8 |
                    static_cast<uint64_t>(static_cast<uint8_t>(key.device.index)) << 16;
    const auto mix = [&hash](uint64_t word) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
      hash ^= hash >> 29;
    };
    mix(key.sizes.size());
    for (const Size size : key.sizes) mix(size.bits());
    for (const Size stride : key.strides) mix(stride.bits());
    return hash;
  }
};

struct TypeEqual {
  using is_transparent = void;
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    const TypeKey x = key_of(a), y = key_of(b);
    return x.dtype == y.dtype && x.device == y.device && std::ranges::equal(x.sizes, y.sizes) &&
           std::ranges::equal(x.strides, y.strides);
  }
};

}  // namespace

struct Graph::Storage {
  CountedMemory memory;
  Arena arena{memory};
  std::pmr::unordered_set<const Type*, TypeHash, TypeEqual> types{&memory};
  std::pmr::unordered_set<std::string_view> texts{&memory};
  std::pmr::vector<Value*> replaced{&memory};
  std::unique_ptr<ShapeEnv> shape_env;
  size_t types_wanted = 0, texts_wanted = 0, text_copies = 0;
};

Graph::Graph(std::string_view name) : storage_(std::make_unique<Storage>()) {
  name_ = intern(name);
}
Graph::~Graph() = default;

// ---- types and text

const Type* Graph::type(DType dtype, Device device, std::span<const int64_t> sizes,
                        std::span<const int64_t> strides) {
  return symbolic_type(dtype, device, as_sizes(sizes), as_sizes(strides));
}

const Type* Graph::symbolic_type(DType dtype, Device device, std::span<const Size> sizes,
                                 std::span<const Size> strides) {
  BRAZE_CHECK(sizes.size() == strides.size(), "a type of ", sizes.size(), " sizes and ", strides.size(),
              " strides");
  ++storage_->types_wanted;
  const TypeKey key{dtype, device, sizes, strides};
  if (const auto found = storage_->types.find(key); found != storage_->types.end()) return *found;
  const SizeSpan wanted(sizes), steps(strides);
  if (wanted.is_constant() && steps.is_constant() &&
      !is_addressable({wanted.begin(), wanted.end()}, {steps.begin(), steps.end()}))
    throw UserError(concat("a tensor of shape ", to_text(sizes), " has more elements than any memory holds"),
                    UserError::Kind::value);
  Type* made = std::construct_at(
      storage_->arena.allocate<Type>(1).data(),
      Type{dtype, device, SizeSpan(storage_->arena.copy(sizes)), SizeSpan(storage_->arena.copy(strides)),
           static_cast<uint32_t>(storage_->types.size())});
  storage_->types.insert(made);
  return made;
}

const Type* Graph::contiguous_type(DType dtype, Device device, std::span<const int64_t> sizes) {
  return type(dtype, device, sizes, contiguous_strides(sizes));
}

size_t Graph::type_count() const {
  return storage_->types.size();
}

std::string_view Graph::intern(std::string_view text) {
  if (text.empty()) return {};
  ++storage_->texts_wanted;
  if (const auto found = storage_->texts.find(text); found != storage_->texts.end()) return *found;
  ++storage_->text_copies;
  const std::span<char> mine = storage_->arena.copy(std::span<const char>(text.data(), text.size()));
  return *storage_->texts.insert(std::string_view(mine.data(), mine.size())).first;
}

std::span<const int64_t> Graph::ints(std::span<const int64_t> values) {
  return storage_->arena.copy(values);
}

std::span<const Size> Graph::sizes(std::span<const Size> values) {
  return storage_->arena.copy(values);
}

// ---- symbols

ShapeEnv& Graph::shape_env() {
  if (!storage_->shape_env) storage_->shape_env = std::make_unique<ShapeEnv>();
  return *storage_->shape_env;
}
const ShapeEnv* Graph::find_shape_env() const {
  const ShapeEnv* env = storage_->shape_env.get();
  return env && env->table().symbol_count() > 0 ? env : nullptr;
}
SizeRules Graph::prove() const {
  return SizeRules::proving(storage_->shape_env.get());
}
SizeRules Graph::decide(std::string_view why) {
  return SizeRules::deciding(storage_->shape_env.get(), why);
}

// ---- building

Value* Graph::add_input(std::string_view name, const Type* type, InputKind kind) {
  Node* node = make_node(Op::input, {}, {}, 1);
  node->results[0].type = type;
  inputs_.push_back({node->result(), intern(name), kind});
  return node->result();
}

Node* Graph::make_node(Op op, std::span<Value* const> operands, std::span<const Attr> attrs, size_t results) {
  Node* node = std::construct_at(storage_->arena.allocate<Node>(1).data());
  node->op = op;
  node->id = next_node_++;
  node->operands = storage_->arena.allocate<Value*>(operands.size());
  std::ranges::transform(operands, node->operands.begin(), resolve);
  node->results = storage_->arena.allocate<Value>(results);
  for (uint32_t k = 0; k < results; ++k)
    std::construct_at(&node->results[k], Value{nullptr, node, k, next_value_++});
  const std::span<Attr> mine = storage_->arena.copy(attrs);
  for (Attr& attr : mine) {
    if (auto* text = std::get_if<std::string_view>(&attr.value)) attr.value = intern(*text);
    if (auto* list = std::get_if<std::span<const Size>>(&attr.value)) {
      if (const SizeSpan sizes(*list); sizes.is_constant())
        attr.value = std::span<const int64_t>(sizes);
      else
        attr.value = this->sizes(*list);
    }
    if (auto* list = std::get_if<std::span<const int64_t>>(&attr.value)) attr.value = ints(*list);
    if (auto* size = std::get_if<Size>(&attr.value); size && size->is_constant()) attr.value = size->constant();
  }
  node->attrs = mine;
  node->source = source_;
  return node;
}

Node* Graph::insert(Node* node) {
  node->next = insertion_point_;
  node->previous = insertion_point_ ? insertion_point_->previous : last_;
  (node->previous ? node->previous->next : first_) = node;
  (node->next ? node->next->previous : last_) = node;
  ++node_count_;
  return node;
}

Node* Graph::create(Op op, std::span<Value* const> operands, std::span<const Attr> attrs,
                    std::span<const Type* const> results) {
  Node* node = make_node(op, operands, attrs, results.size());
  for (size_t k = 0; k < results.size(); ++k) node->results[k].type = results[k];
  return insert(node);
}

Node* Graph::add(Op op, std::span<Value* const> operands, std::span<const Attr> attrs, const Stated& stated) {
  const OpInfo& row = info(op);
  BRAZE_CHECK(row.results > 0, "the types of ", row.name, " do not follow from its operands");
  Node* node = make_node(op, operands, attrs, static_cast<size_t>(row.results));
  try {
    const std::vector<Inferred> results = infer(*node, stated, decide(source_.empty() ? row.name : source_));
    for (size_t k = 0; k < results.size(); ++k) {
      const auto& [dtype, device, sizes, natural] = results[k];
      std::span<const Size> strides = k == 0 && stated.strides ? *stated.strides : natural;
      const auto same = [&sizes](const Type* type) { return std::ranges::equal(type->sizes.symbolic(), sizes); };
      if (const auto like = std::ranges::find_if(stated.like, same); like != stated.like.end())
        strides = (*like)->strides.symbolic();
      node->results[k].type = symbolic_type(dtype, device, sizes, strides);
    }
  } catch (const InvalidNode& broken) {
    throw InternalError(concat("a node of ", row.name, " cannot be: ", broken.what));
  }
  return insert(node);
}

Value* Graph::add(Op op, std::initializer_list<Value*> operands, std::initializer_list<Attr> attrs) {
  return add(op, operands, attrs, Stated{});
}
Value* Graph::add(Op op, std::initializer_list<Value*> operands, std::initializer_list<Attr> attrs,
                  const Stated& stated) {
  return add(op, std::span(operands.begin(), operands.size()), std::span(attrs.begin(), attrs.size()), stated)
      ->result();
}

Value* Graph::create(Op op, std::initializer_list<Value*> operands, std::initializer_list<Attr> attrs,
                     const Type* result) {
  return create(op, std::span(operands.begin(), operands.size()), std::span(attrs.begin(), attrs.size()),
                std::span(&result, 1))
      ->result();
}

Value* Graph::scalar(DType dtype, Number value, Device device) {
  return create(Op::scalar, {}, {{"value", round_to(value, dtype)}}, type(dtype, device, {}, {}));
}

// ---- changing

void Graph::replace(Value* old, Value* with) {
  with = resolve(with);
  if (old == with) return;
  BRAZE_CHECK(!old->replacement, "a value was replaced twice");
  BRAZE_CHECK(old->type->dtype == with->type->dtype &&
                  prove().equal(old->type->sizes.symbolic(), with->type->sizes.symbolic()),
              "a value of ", info(old->def->op).name, " was replaced by one of ", info(with->def->op).name,
              " of another dtype or shape");
  old->replacement = with;
  storage_->replaced.push_back(old);
}

Value* Graph::resolve(Value* value) {
  if (!value->replacement) [[likely]]
    return value;
  Value* last = value->replacement;
  while (last->replacement) last = last->replacement;
  value->replacement = last;
  return last;
}

void Graph::apply_replacements() {
  if (storage_->replaced.empty()) return;
  for (Node* node = first_; node; node = node->next)
    for (Value*& operand : node->operands) operand = resolve(operand);
  const auto boundary = [](Value*& value) {
    Value* with = resolve(value);
    BRAZE_CHECK(with->type == value->type, "the type of a result of the graph changed");
    value = with;
  };
  for (Value*& output : outputs_) boundary(output);
  for (Mutation& mutation : mutations_) boundary(mutation.value);
  for (Value* value : storage_->replaced) value->replacement = nullptr;
  storage_->replaced.clear();
}

void Graph::erase(Node* node) {
  BRAZE_CHECK(node->op != Op::input, "inputs stay");
  if (insertion_point_ == node) insertion_point_ = node->next;
  (node->previous ? node->previous->next : first_) = node->next;
  (node->next ? node->next->previous : last_) = node->previous;
  node->previous = node->next = nullptr;
  --node_count_;
}

// ---- identity

namespace {

/// Writes the graph's structure into a Hasher, values numbered in order of definition.
class StructureHasher {
 public:
  StructureHasher(const Graph& graph, bool with_scalars)
      : graph_(graph),
        with_scalars_(with_scalars),
        numbers_(graph.value_limit()),
        seen_types_(graph.type_count()) {}

  Hash128 run() {
    if (const ShapeEnv* env = graph_.find_shape_env()) add(*env);
    hasher_.add(graph_.inputs().size());
    for (const Input& input : graph_.inputs()) {
      hasher_.add(input.kind);
      define(*input.value);
    }
    for (const Node* node = graph_.first(); node; node = node->next) add(*node);
    hasher_.add(graph_.outputs().size());
    for (Value* output : graph_.outputs()) use(output);
    for (const Mutation& mutation : graph_.mutations()) {
      hasher_.add(mutation.input);
      use(mutation.value);
    }
    return hasher_.finish();
  }

 private:
  void define(const Value& value) {
    numbers_[value.id] = next_++;
    // Type ids depend on the order in which types were made, so a type is hashed in full where it is first met.
    uint32_t& seen = seen_types_[value.type->id];
    if (seen != 0) {
      hasher_.add(seen);
      return;
    }
    seen = ++next_type_;
    const Type& type = *value.type;
    hasher_.add(seen).add(type.dtype).add(type.device.kind).add(type.device.index);
    add(type.sizes);
    add(type.strides);
  }
  void add(const SizeSpan& sizes) {
    if (sizes.is_constant())
      add(std::span<const int64_t>(sizes));
    else
      add(sizes.symbolic());
  }
  /// Symbols by name, with what holds for all values that the graph is good for; not the examples.
  void add(const ShapeEnv& env) {
    hasher_.add(env.table().symbol_count());
    for (uint32_t slot = 0; slot < env.table().symbol_count(); ++slot) {
      const SymbolFacts& facts = env.declared(slot);
      hasher_.add(env.table().name(slot)).add(facts.range.low).add(facts.range.high);
      hasher_.add(facts.modulus).add(facts.remainder);
    }
    hasher_.add(env.guards().size());
    for (const ShapeEnv::Guard& guard : env.guards()) hasher_.add(to_text(guard.test));
  }
  void use(Value* value) { hasher_.add(numbers_[Graph::resolve(value)->id]); }
  void add(const Node& node) {
    hasher_.add(node.op).add(node.operands.size()).add(node.results.size());
    for (Value* operand : node.operands) use(operand);
    for (const Value& result : node.results) define(result);
    if (node.op == Op::scalar && !with_scalars_) return;
    hasher_.add(node.attrs.size());
    for (const Attr& attr : node.attrs) {
      hasher_.add(attr.name).add(attr.value.index());
      std::visit([this](const auto& value) { add(value); }, attr.value);
    }
  }
  void add(bool value) { hasher_.add(value); }
  void add(int64_t value) { hasher_.add(value); }
  void add(const Number& value) {
    hasher_.add(value.floating);
    value.floating ? hasher_.add(value.f) : hasher_.add(value.i);
  }
  void add(std::string_view value) { hasher_.add(value); }
  void add(std::span<const int64_t> value) { hasher_.add(value); }
  void add(Size value) { hasher_.add(to_text(value)); }
  void add(std::span<const Size> value) {
    hasher_.add(value.size());
    for (const Size size : value) add(size);
  }

  const Graph& graph_;
  const bool with_scalars_;
  std::vector<uint32_t> numbers_;     ///< By Value::id.
  std::vector<uint32_t> seen_types_;  ///< By Type::id: 1 + order of first use, 0 before.
  uint32_t next_ = 0, next_type_ = 0;
  Hasher hasher_;
};

}  // namespace

Hash128 structural_hash(const Graph& graph) {
  return StructureHasher(graph, false).run();
}
Hash128 exact_hash(const Graph& graph) {
  return StructureHasher(graph, true).run();
}

GraphStats Graph::stats() const {
  const Storage& storage = *storage_;
  return {.values = next_value_,
          .types = storage.types.size(),
          .types_wanted = storage.types_wanted,
          .texts = storage.texts.size(),
          .texts_wanted = storage.texts_wanted,
          .text_copies = storage.text_copies,
          .bytes = storage.memory.bytes(),
          .used_bytes = storage.memory.bytes() - storage.arena.held() + storage.arena.used(),
          .peak_bytes = storage.memory.peak()};
}

}  // namespace braze::ir
