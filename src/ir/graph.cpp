#include "ir/graph.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "ir/shapes.h"
#include "support/arena.h"
#include "support/error.h"

namespace braze::ir {
namespace {

struct TypeKey {
  DType dtype;
  Device device;
  std::span<const int64_t> sizes, strides;
};

TypeKey key_of(const TypeKey& key) {
  return key;
}
TypeKey key_of(const Type* type) {
  return {type->dtype, type->device, type->sizes, type->strides};
}

struct TypeHash {
  using is_transparent = void;
  template <typename T>
  size_t operator()(const T& item) const {
    const TypeKey key = key_of(item);
    uint64_t hash = static_cast<uint64_t>(key.dtype) | static_cast<uint64_t>(key.device.kind) << 8 |
                    static_cast<uint64_t>(static_cast<uint8_t>(key.device.index)) << 16;
    const auto mix = [&hash](int64_t number) {
      hash = (hash ^ static_cast<uint64_t>(number)) * 0x9e3779b97f4a7c15ull;
      hash ^= hash >> 29;
    };
    mix(static_cast<int64_t>(key.sizes.size()));
    for (const int64_t size : key.sizes) mix(size);
    for (const int64_t stride : key.strides) mix(stride);
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
  size_t types_wanted = 0, texts_wanted = 0, text_copies = 0;
};

Graph::Graph(std::string_view name) : storage_(std::make_unique<Storage>()) {
  name_ = intern(name);
}
Graph::~Graph() = default;

// ---- types and text

const Type* Graph::type(DType dtype, Device device, std::span<const int64_t> sizes,
                        std::span<const int64_t> strides) {
  BRAZE_CHECK(sizes.size() == strides.size(), "a type of ", sizes.size(), " sizes and ", strides.size(),
              " strides");
  ++storage_->types_wanted;
  const TypeKey key{dtype, device, sizes, strides};
  if (const auto found = storage_->types.find(key); found != storage_->types.end()) return *found;
  if (!is_addressable(sizes, strides)) {
    std::string text;
    for (const int64_t size : sizes) text += concat(text.empty() ? "" : ",", size);
    throw UserError(concat("a tensor of shape [", text, "] has more elements than any memory holds"),
                    UserError::Kind::value);
  }
  Type* made = std::construct_at(
      storage_->arena.allocate<Type>(1).data(),
      Type{dtype, device, ints(sizes), ints(strides), static_cast<uint32_t>(storage_->types.size())});
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

// ---- building

Value* Graph::add_input(std::string_view name, const Type* type, InputKind kind) {
  Node* node = make_node(Op::input, {}, {}, std::span(&type, 1));
  inputs_.push_back({node->result(), intern(name), kind});
  return node->result();
}

Node* Graph::make_node(Op op, std::span<Value* const> operands, std::span<const Attr> attrs,
                       std::span<const Type* const> results) {
  Node* node = std::construct_at(storage_->arena.allocate<Node>(1).data());
  node->op = op;
  node->id = next_node_++;
  node->operands = storage_->arena.allocate<Value*>(operands.size());
  std::ranges::transform(operands, node->operands.begin(), resolve);
  node->results = storage_->arena.allocate<Value>(results.size());
  for (uint32_t k = 0; k < results.size(); ++k)
    std::construct_at(&node->results[k], Value{results[k], node, k, next_value_++});
  const std::span<Attr> mine = storage_->arena.copy(attrs);
  for (Attr& attr : mine) {
    if (auto* text = std::get_if<std::string_view>(&attr.value)) *text = intern(*text);
    if (auto* list = std::get_if<std::span<const int64_t>>(&attr.value)) *list = ints(*list);
  }
  node->attrs = mine;
  node->source = source_;
  return node;
}

Node* Graph::create(Op op, std::span<Value* const> operands, std::span<const Attr> attrs,
                    std::span<const Type* const> results) {
  Node* node = make_node(op, operands, attrs, results);
  node->next = insertion_point_;
  node->previous = insertion_point_ ? insertion_point_->previous : last_;
  (node->previous ? node->previous->next : first_) = node;
  (node->next ? node->next->previous : last_) = node;
  ++node_count_;
  return node;
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
  BRAZE_CHECK(old->type->dtype == with->type->dtype && std::ranges::equal(old->type->sizes, with->type->sizes),
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
    hasher_.add(type.sizes).add(type.strides);
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

  const Graph& graph_;
  const bool with_scalars_;
  std::vector<uint32_t> numbers_;     ///< By Value::id.
  std::vector<uint32_t> seen_types_;  ///< By Type::id: 1 + order of first use, 0 before.
  uint32_t next_ = 0, next_type_ = 0;
  Hasher hasher_;
};

}  // namespace

Hash128 Graph::structural_hash() const {
  return StructureHasher(*this, false).run();
}
Hash128 Graph::exact_hash() const {
  return StructureHasher(*this, true).run();
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
