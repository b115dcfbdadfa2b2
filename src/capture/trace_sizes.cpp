// capture/trace_sizes.cpp
#include <algorithm>
#include <cctype>
#include <numeric>
#include <unordered_set>

#include "capture/recorder.h"
#include "capture/types.h"
#include "support/error.h"
#include "support/names.h"

namespace braze::capture {
namespace {

/// A name that parses: what stands in a path of Python is left out.
std::string symbol_name(std::string_view path) {
  std::string name = words_of(path, '_');
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name.insert(0, "s");
  return name;
}

}  // namespace

const TraceSizes::Varied* TraceSizes::varied(const at::Tensor& real) const {
  const auto found = varied_.find(real.unsafeGetTensorImpl());
  return found == varied_.end() ? nullptr : &found->second;
}

Symbols& TraceSizes::need_symbols() {
  if (!symbols_) symbols_.emplace(Symbols{&recorder_.graph_->shape_env()});
  return *symbols_;
}

ir::Size TraceSizes::symbol(std::string_view name, int64_t example, ir::SymbolFacts facts) {
  ir::ShapeEnv& env = *need_symbols().env;
  std::string unique = symbol_name(name);
  while (env.table().find(unique)) unique += '_';
  return env.create_symbol(unique, example, facts);
}

/// A stride that lies as in rows of the dimensions within goes with their sizes; any other is a number, or a symbol
/// of its own.
void TraceSizes::vary(const at::Tensor& real, std::string_view name, std::span<const Varying> dims,
                      std::span<const bool> strides) {
  if (recorder_.bound_.contains(real.unsafeGetTensorImpl()) || varied_.contains(real.unsafeGetTensorImpl())) return;
  const SymbolsScope scope(&need_symbols());
  const auto input = static_cast<uint32_t>(recorder_.inputs_.size());
  const size_t rank = dims.size();
  Varied varied;
  for (size_t k = 0; k < rank; ++k) {
    const int64_t size = real.size(static_cast<int64_t>(k));
    ir::Size one = size;
    const auto known = dims[k].name.empty() ? std::nullopt : symbols_->env->table().find(symbol_name(dims[k].name));
    if (dims[k].varies && known) {  // One name, one size.
      if (symbols_->env->example(*known) != size)
        throw UserError(concat("dynamic: ", dims[k].name, " is ", symbols_->env->example(*known),
                               " in the examples, and ", size, " in size ", k, " of `", name, "`"),
                        UserError::Kind::value);
      const uint32_t slot = known->expr()->terms[0].product->powers[0].atom->slot;
      if (const ir::SizeRange range = dims[k].range;
          range != Varying().range && range != symbols_->env->declared(slot).range)
        throw UserError(
            concat("dynamic: ", dims[k].name, " has other bounds in size ", k, " of `", name, "` than elsewhere"),
            UserError::Kind::value);
      one = *known;
    } else if (dims[k].varies && size > 1) {
      one = symbol(dims[k].name.empty() ? concat(name, "_", k) : dims[k].name, size, {.range = dims[k].range});
      sources_.push_back({SymbolSource::Kind::size, input, static_cast<uint32_t>(k), std::string(name)});
    }
    varied.sizes.push_back(one);
  }
  Places order(rank);  // From the innermost dimension out.
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return real.stride(a) != real.stride(b) ? real.stride(a) < real.stride(b) : a > b;
  });
  varied.strides.resize(rank);
  Dim next = 1;
  for (const int64_t k : order) {
    const int64_t stride = real.stride(k);
    const bool follows = stride == next.hint();
    Dim mine = follows ? next : Dim(stride);
    if (!follows && strides[static_cast<size_t>(k)] && stride > 1) {
      mine = symbol(concat(name, "_stride_", k), stride, {.range = {2, ir::SizeRange::infinity}});
      sources_.push_back({SymbolSource::Kind::stride, input, static_cast<uint32_t>(k), std::string(name)});
    }
    varied.strides[static_cast<size_t>(k)] = mine.size();
    if (stride != 0) next = mine * Dim(varied.sizes[static_cast<size_t>(k)]);
  }
  varied_.emplace(real.unsafeGetTensorImpl(), std::move(varied));
}

Dim TraceSizes::vary_number(std::string_view name, int64_t example, ir::SizeRange range) {
  const ir::Size one = symbol(name, example, {.range = range});
  sources_.push_back({SymbolSource::Kind::number, 0, 0, std::string(name)});
  return one;
}

void TraceSizes::settle() {
  if (!symbols_ || settled_ == symbols_->specialisations) return;
  settled_ = symbols_->specialisations;
  const auto known = [&](const ir::Type*& type) {
    if (type->sizes.is_constant() && type->strides.is_constant()) return;
    Sizes sizes, strides;
    for (const ir::Size size : type->sizes.symbolic()) sizes.push_back(symbols_->env->simplify(size));
    for (const ir::Size size : type->strides.symbolic()) strides.push_back(symbols_->env->simplify(size));
    type = type_in(*recorder_.graph_, type->dtype, type->device, sizes, strides);
  };
  for (const ir::Input& input : recorder_.graph_->inputs()) known(input.value->type);
  for (ir::Node* node = recorder_.graph_->first(); node; node = node->next)
    for (ir::Value& result : node->results) known(result.type);
  std::unordered_set<View*> seen;
  const auto view = [&](View* one) {
    for (; one && seen.insert(one).second; one = one->parent.get()) {
      known(one->type);
      one->offset = symbols_->env->simplify(one->offset.size());
    }
  };
  for (Memory& memory : recorder_.memories_)
    for (const ViewPtr& root : memory.roots) view(root.get());
  for (const at::Tensor& tensor : recorder_.tensors_->alive()) {
    view(as_tracer(tensor)->view().get());
    as_tracer(tensor)->refresh();
  }
}

}  // namespace braze::capture
