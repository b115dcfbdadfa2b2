// loops/lower.cpp: graph to plan.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ir/shape_env.h"
#include "ir/text.h"
#include "loops/fusion.h"
#include "loops/in_place.h"
#include "loops/memory.h"
#include "loops/origins.h"
#include "loops/partial_writes.h"
#include "loops/placement.h"
#include "loops/plan.h"
#include "loops/recompute.h"
#include "loops/regions.h"
#include "loops/schedule/gpu/product.h"
#include "loops/schedule/schedule.h"
#include "loops/symbolic_plan.h"
#include "loops/window.h"
#include "support/error.h"

namespace braze::loops {

namespace {

using ir::Node;
using ir::Op;
using ir::OpKind;
using ir::Value;

class Lowering {
 public:
  /// \param refused  Of each graph input: no part of it is written in place.
  Lowering(const ir::Graph& graph, const LoweringOptions& options, const SizeRules& decide,
           const std::vector<bool>& refused)
      : graph_(graph),
        options_(options),
        names_(graph),
        layouts_(assign_layouts(graph_, options.layouts)),
        partial_writes_(graph_, layouts_, options.targets, options.writable, refused),
        places_(place_in_cats(graph_, layouts_, options.targets)),
        windows_(graph_, layouts_),
        facts_(graph_, windows_, options.targets),
        in_place_(graph_, windows_, options.writable),
        buffer_of_(graph_.value_limit(), -1) {
    facts_.decide = decide;
    align_parts();
    for (const auto& [value, place] : partial_writes_.places()) {
      facts_.let_stand_alone(value);
      if (place.replaces_read) facts_.let_follow_readers(value->def, graph_.inputs()[place.input].value);
      // A caller's tensor lies where it likes.
      windows_.set_alignment(value, ir::byte_size(value->type->dtype));
    }
  }

  /// Decides what is computed together, and in which order. False: an input would be written too early, which
  /// `refused` holds now.
  bool form(std::vector<bool>& refused) {
    units_ = form_units(graph_, facts_, options_.fuse);
    if (options_.fuse) recompute_shared(graph_, units_, facts_);
    const std::vector<uint32_t> wrong = partial_writes_.misordered(graph_, windows_, units_);
    for (const uint32_t input : wrong) refused[input] = true;
    return wrong.empty();
  }

  /// Without memory and regions.
  PlanOf<Size> run() {
    for (uint32_t k = 0; k < graph_.inputs().size(); ++k) {
      const Value* value = graph_.inputs()[k].value;
      buffer_of_[value->id] = add_buffer(BufferKind::input, value, windows_.storage(value));
      plan_.buffers.back().index = k;
    }
    claim_outputs();
    in_place_.set_units(units_, facts_);
    for (size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].call)
        add_call(units_[u].call);
      else
        add_group(*units_[u].group, u);
    }
    finish_outputs();
    for (const ir::Mutation& mutation : graph_.mutations()) {
      // Another mutation may overwrite an input before this one reads it, so nothing is copied from an input
      // directly.
      const Value* base = windows_.base(mutation.value);
      const bool direct = base->def->op != Op::input && ir::info(base->def->op).kind != OpKind::Source;
      plan_.mutations.push_back({mutation.input, direct ? view_of(windows_.of(mutation.value))
                                                        : copied(mutation.value, BufferKind::temporary)});
    }
    return std::move(plan_);
  }

  /// As for form_regions().
  const std::vector<uint32_t>& cats() const { return cats_; }

 private:
  const Place* place_of(const Value* base) const {
    return !places_.empty() && places_[base->id].whole ? &places_[base->id] : nullptr;
  }

  /// What lies in a cat begins wherever its neighbour ends.
  void align_parts() {
    if (places_.empty()) return;
    ir::for_each_node(graph_, [&](const Node* node) {
      for (const Value& result : node->results)
        if (const Place* place = place_of(&result); place && ir::info(node->op).kind != OpKind::Library)
          windows_.set_alignment(&result, ir::byte_size(result.type->dtype));
    });
  }

  /// Memory of a value that lies in a cat's.
  int32_t add_part(const Value* base, const Place& place) {
    const auto whole = static_cast<int32_t>(memory_of(place.whole));
    return add_part_of(whole, base, windows_.storage(base), place.offset);
  }

  /// Memory of a value that lies in a graph input's.
  int32_t add_in_input(const Value* base, const PartialWrites::Place& place) {
    const auto [whole, is_new] = written_inputs_.try_emplace(place.input, -1);
    if (is_new) {
      const Value* input = graph_.inputs()[place.input].value;
      whole->second = add_buffer(BufferKind::mutated, input, windows_.storage(input));
      plan_.buffers.back().index = place.input;
    }
    if (place.is_whole) return whole->second;
    return add_part_of(whole->second, base, windows_.storage(base), place.offset);
  }

  /// \param offset  elements from the first of `whole`.
  int32_t add_part_of(int32_t whole, const Value* part, Sizes strides, Size offset) {
    const int32_t buffer = add_buffer(BufferKind::part, part, std::move(strides));
    plan_.buffers.back().part_of = whole;
    plan_.buffers.back().offset = offset * ir::byte_size(part->type->dtype);
    return buffer;
  }

  int32_t add_buffer(BufferKind kind, const Value* value, Sizes strides) {
    PlanBufferOf<Size> buffer;
    const ir::Type& type = *value->type;
    buffer.kind = kind;
    buffer.dtype = type.dtype;
    buffer.device = type.device;
    buffer.sizes = list_of(type.sizes);
    buffer.strides = std::move(strides);
    plan_.buffers.push_back(std::move(buffer));
    return static_cast<int32_t>(plan_.buffers.size() - 1);
  }

  /// Outputs whose memory a kernel or call can fill directly: each value at most once. First those that are
  /// computed, then those that only show all of what is computed in another shape, as a mean without its dimension.
  void claim_outputs() {
    output_of_.assign(graph_.value_limit(), -1);
    const auto& outputs = graph_.outputs();
    for (const bool through_view : {false, true})
      for (size_t k = 0; k < outputs.size(); ++k) {
        const Value* base = windows_.base(outputs[k]);
        if ((base != outputs[k]) == through_view && output_of_[base->id] < 0 && fills(base, outputs[k]))
          output_of_[base->id] = static_cast<int32_t>(k);
      }
  }

  /// `base`, as it is stored, is the whole of `output`, as that is to be laid out.
  bool fills(const Value* base, const Value* output) const {
    const OpKind kind = ir::info(base->def->op).kind;
    if (kind == OpKind::Source) return false;
    const Window& shown = windows_.of(output);
    const ir::Type& type = *output->type;
    if (base == output) return std::ranges::equal(shown.strides, type.strides.symbolic());
    // A library is told the shape of the memory that it fills.
    if (kind == OpKind::Library || place_of(base)) return false;
    const SizeRules& rules = windows_.rules();
    if (shown.offset != 0 || !rules.equal(type.symbolic_numel(), base->type->symbolic_numel())) return false;
    const auto sizes = type.sizes.symbolic(), strides = type.strides.symbolic();
    for (size_t dim = 0; dim < sizes.size(); ++dim)
      if (sizes[dim] != 1 && !rules.equal(shown.strides[dim], strides[dim])) return false;
    return loops::is_dense(sizes, strides, rules);
  }

  uint32_t memory_of(const Value* base) {
    int32_t& buffer = buffer_of_[base->id];
    if (buffer >= 0) return static_cast<uint32_t>(buffer);
    const Node* node = base->def;
    if (is_number(node->op) || node->op == Op::iota) {
      const Window& whole = windows_.of(base);
      buffer = add_buffer(BufferKind::temporary, base, whole.strides);
      add_kernel(build_copy(whole, whole, options_.targets, windows_.rules()), {node});
      return static_cast<uint32_t>(buffer_of_[base->id]);
    }
    if (const PartialWrites::Place* place = partial_writes_.find(base)) {
      const int32_t lies = add_in_input(base, *place);
      return static_cast<uint32_t>(buffer_of_[base->id] = lies);
    }
    if (const Place* place = place_of(base)) {
      const int32_t part = add_part(base, *place);
      return static_cast<uint32_t>(buffer_of_[base->id] = part);
    }
    const int32_t output = output_of_[base->id];
    BufferKind kind = output >= 0 ? BufferKind::output : BufferKind::temporary;
    if (ir::info(node->op).kind == OpKind::Library && !writes_into(node->op)) kind = BufferKind::call;
    buffer = add_buffer(kind, base, windows_.storage(base));
    if (output >= 0) {
      const ir::Type& seen = *graph_.outputs()[static_cast<size_t>(output)]->type;
      PlanBufferOf<Size>& added = plan_.buffers.back();
      added.index = static_cast<uint32_t>(output);
      added.sizes = list_of(seen.sizes);
      added.strides = list_of(seen.strides);
    }
    return static_cast<uint32_t>(buffer);
  }

  ViewOf<Size> view_of(const Window& window) {
    return {memory_of(window.base), window.base->type->dtype, window.sizes, window.strides, window.offset};
  }

  void add_group(const Group& group, size_t unit) {
    const Node* node = group.nodes[0];
    const bool writes = std::any_of(group.nodes.begin(), group.nodes.end(), [](const Node* member) {
      return !is_empty(member->results[0].type->sizes.symbolic());
    });
    if (!writes) {
      for (const Node* member : group.nodes) memory_of(&member->results[0]);
      return;
    }
    if (ir::info(node->op).kind == OpKind::Update) return add_update(node);
    if (partial_writes_.find(&node->results[0])) return add_partial_write(node);
    if (node->op == Op::cat) return add_cat(node);
    if (ir::info(node->op).kind == OpKind::Scan) return add_kernel(build_scan(node, facts_), group.nodes);
    KernelDraft draft = build_kernel(group, facts_);
    for (const Node* member : group.nodes)
      if (!group.does_again(member)) store_in_place(draft, &member->results[0], unit);
    add_kernel(std::move(draft), group.nodes);
  }

  void store_in_place(KernelDraft& draft, const Value* result, size_t unit) {
    const int64_t input = in_place_.input_for(result, unit);
    if (input < 0 || output_of_[result->id] >= 0 || place_of(result) || buffer_of_[result->id] >= 0) return;
    if (!InPlace::store(draft, result, graph_.inputs()[static_cast<size_t>(input)].value)) return;
    buffer_of_[result->id] = add_buffer(BufferKind::mutated, result, windows_.storage(result));
    plan_.buffers.back().index = static_cast<uint32_t>(input);
  }

  void add_cat(const Node* node) {
    const Value* result = &node->results[0];
    const auto dim = static_cast<size_t>(node->int_attr("dim"));
    Window to{result, {}, windows_.storage(result), 0};
    for (const Value* operand : node->operands) {
      const Place* place = place_of(windows_.base(operand));
      const bool is_there = place && place->whole == result;
      to.sizes = list_of(operand->type->sizes);
      if (is_empty(to.sizes)) continue;
      if (!is_there) {
        KernelDraft draft = build_copy(windows_.of(operand), to, options_.targets, windows_.rules());
        // Its own memory may begin anywhere in that of another cat.
        for (Buffer& buffer : draft.kernel->buffers)
          if (buffer.access == Access::out)
            buffer.alignment = std::min(buffer.alignment, windows_.alignment(result));
        add_kernel(std::move(draft), {node});
      }
      to.offset = to.offset + to.sizes[dim] * to.strides[dim];
    }
  }

  /// Operand 0 of a slice_scatter lies where the result does.
  void add_partial_write(const Node* node) {
    const Value *result = &node->results[0], *source = node->operands[1];
    memory_of(result);
    const PartialWrites::Place* place = partial_writes_.find(windows_.base(source));
    if ((place && place->part_of == node) || is_empty(source->type->sizes.symbolic())) return;
    Window to = part_of(windows_.of(result), *node, list_of(source->type->sizes));
    const auto whole = static_cast<int32_t>(memory_of(result));
    const int32_t part = add_part_of(whole, source, to.strides, std::exchange(to.offset, 0));
    add_copy(windows_.of(source), to, static_cast<uint32_t>(part), node);
  }

  /// Few rows are written of the gradient of a large table: fresh memory is zeros already, and what is not written
  /// need not even be there.
  bool comes_zeroed(const Value* result, const Window& from) {
    constexpr int64_t least_bytes = 4 << 20;  // that the system's allocator takes from the system, and gives back
    const Node* base = from.base->def;
    const bool is_large = facts_.elements(result) * ir::byte_size(result->type->dtype) >= least_bytes;
    if (!is_large || base->op != Op::scalar || result->type->device.kind != ir::DeviceKind::cpu) return false;
    const ir::Number& number = base->number_attr("value");
    if (!number.same_bits(number.floating ? ir::Number::of(0.0) : ir::Number::of_int(0))) return false;
    PlanBufferOf<Size>& buffer = plan_.buffers[memory_of(result)];
    return buffer.zeroed = buffer.kind == BufferKind::output;
  }

  void add_update(const Node* node) {
    const Value* result = &node->results[0];
    const Window& from = windows_.of(node->operands[0]);
    const bool is_there = partial_writes_.find(result);
    if (!is_there && !comes_zeroed(result, from))
      add_kernel(
          build_copy(from, {result, from.sizes, windows_.storage(result), 0}, options_.targets, windows_.rules()),
          {node});
    if (is_empty(node->operands[1]->type->sizes.symbolic())) return;
    // A GPU that is given an index out of range fails for good, as in eager.
    if (is_there && !facts_.target(node).is_gpu()) add_kernel(build_update_checks(node, facts_), {node});
    add_kernel(build_update(node, facts_), {node});
  }

  void add_kernel(KernelDraft draft, const std::vector<const Node*>& fused) {
    StepOf<Size> step;
    step.kind = StepKind::kernel;
    step.source = fused.front()->source;
    const ir::Device device = fused.front()->results[0].type->device;
    for (const KernelDraft::Parameter& parameter : draft.parameters) {
      if (parameter.value) {
        step.kernel.buffers.push_back(memory_of(parameter.value));
        continue;
      }
      PlanBufferOf<Size> scratch;
      scratch.sizes = {parameter.scratch_bytes};
      scratch.strides = {1};
      scratch.device = device;
      plan_.buffers.push_back(scratch);
      step.kernel.buffers.push_back(static_cast<uint32_t>(plan_.buffers.size() - 1));
    }
    step.kernel.scalars = std::move(draft.scalars);
    step.kernel.symbols = std::move(draft.symbols);
    step.kernel.bytes_read = draft.bytes_read;
    step.kernel.bytes_written = draft.bytes_written;
    for (const Node* node : fused) step.kernel.fused.push_back(title(*node));
    const std::vector<int64_t> origins =
        move_origins(*draft.kernel, device.kind == ir::DeviceKind::cuda ? options_.targets.gpu->vector_bytes : 0);
    step.kernel.origins.assign(origins.begin(), origins.end());
    step.kernel.origins.resize(step.kernel.buffers.size(), 0);
    const Hash128 hash = kernel_hash(*draft.kernel, device.kind);
    const auto [it, fresh] = kernels_.try_emplace(hash, static_cast<uint32_t>(plan_.kernels.size()));
    if (fresh) {
      draft.kernel->name = kernel_name(fused, hash);
      plan_.kernels.push_back(std::move(draft.kernel));
      plan_.kernel_hashes.push_back(hash);
    }
    step.kernel.kernel = it->second;
    cats_.push_back(fused.size() == 1 && fused[0]->op == Op::cat ? fused[0]->id + 1 : 0);
    plan_.steps.push_back(std::move(step));
  }

  /// "%12 = add", as the graph prints it.
  std::string title(const Node& node) const {
    std::string text;
    for (const Value& result : node.results) text.append(text.empty() ? "" : ", ").append(names_(&result));
    if (!text.empty()) text += " = ";
    return text += ir::info(node.op).name;
  }

  /// At most five op names and eight digits of the hash.
  static std::string kernel_name(const std::vector<const Node*>& fused, const Hash128& hash) {
    constexpr size_t most_words = 5;
    std::string name;
    for (size_t k = 0; k < std::min(fused.size(), most_words); ++k) (name += ir::info(fused[k]->op).name) += '_';
    return name + hash.hex().substr(0, 8);
  }

  void add_call(const Node* node) {
    if (is_product_of_few_rows(*node, facts_)) return add_kernel(build_product(*node, facts_), {node});
    StepOf<Size> step;
    step.kind = StepKind::call;
    step.source = node->source;
    step.call.call = ir::library_call(*node);
    step.call.writes_into = writes_into(node->op);
    const std::vector<LayoutDemand>& demands = layouts_.demands(*node);
    for (size_t k = 0; k < demands.size(); ++k)
      step.call.operands.push_back(operand(node->operands[k], demands[k]));
    for (const Value& result : node->results)
      step.call.results.push_back(result.type ? static_cast<int32_t>(memory_of(&result)) : -1);
    cats_.push_back(0);
    plan_.steps.push_back(std::move(step));
  }

  /// What a call gets to see of an operand: a copy where it requires another layout. Kernels cannot copy what has a
  /// dtype without a name here; library calls alone make such values, in eager's own layout.
  ViewOf<Size> operand(const Value* value, const LayoutDemand& demand) {
    const Window& window = windows_.of(value);
    const bool served =
        demand.strength != LayoutDemand::Strength::require ||
        (is_aligned(window) && demand.holds(*value->type, window.sizes, window.strides, windows_.rules()));
    if (served || !ir::is_kernel_dtype(value->type->dtype)) return view_of(window);
    return copied(value, BufferKind::temporary, demand.strides(*value->type, windows_.rules()));
  }

  /// Kernels of a GPU's libraries are chosen by what eager gives them: a gradient, say, that begins where an
  /// allocation does. Here it may be a part of something. (The backward of memory-efficient attention loads 16
  /// bytes.)
  static bool is_aligned(const Window& window) {
    constexpr int64_t loaded = 16;
    const ir::Type& type = *window.base->type;
    if (type.device.kind != ir::DeviceKind::cuda) return true;
    return ir::mod(window.offset * Size(ir::byte_size(type.dtype)), Size(loaded)) == Size(0);
  }

  ViewOf<Size> copied(const Value* value, BufferKind kind) {
    const ir::Type& type = *value->type;
    if (is_dense(type)) return copied(value, kind, list_of(type.strides));
    return copied(value, kind, ir::contiguous_strides(type.sizes.symbolic()));
  }

  /// Whether the type's own layout has no gaps. A caller sees it, so that it has to be known.
  bool is_dense(const ir::Type& type) const {
    const SizeRules& rules = windows_.rules();
    const auto sizes = type.sizes.symbolic(), strides = type.strides.symbolic();
    if (loops::is_dense(sizes, strides, rules)) return true;
    Sizes size_hints, stride_hints;
    for (const Size size : sizes) size_hints.push_back(rules.hint(size));
    for (const Size stride : strides) stride_hints.push_back(rules.hint(stride));
    if (!type.sizes.is_constant() && loops::is_dense(size_hints, stride_hints))
      throw NotSymbolic(concat("whether a result of sizes ", to_text(sizes), " and strides ", to_text(strides),
                               " has gaps depends on its sizes"));
    return false;
  }

  ViewOf<Size> copied(const Value* value, BufferKind kind, Sizes strides) {
    const ir::Type& type = *value->type;
    const Sizes sizes = list_of(type.sizes);
    const int32_t buffer = add_buffer(kind, value, strides);
    if (!is_empty(sizes)) {
      add_copy(windows_.of(value), {value, sizes, strides, 0}, static_cast<uint32_t>(buffer), value->def);
      plan_.steps.back().kernel.fused = {"copy of " + std::string(names_(value))};
    }
    return {static_cast<uint32_t>(buffer), type.dtype, sizes, strides, 0};
  }

  /// Copies into `buffer`, which is laid out as `to` is.
  void add_copy(const Window& from, const Window& to, uint32_t buffer, const Node* node) {
    KernelDraft draft = build_copy(from, to, options_.targets, windows_.rules());
    // The copy's own memory is the parameter that it writes; a value may be the input that it reads.
    std::vector<uint32_t> memory;
    for (size_t k = 0; k < draft.parameters.size(); ++k) {
      const bool stores = draft.kernel->buffers[k].access == Access::out;
      memory.push_back(stores ? buffer : memory_of(from.base));
    }
    for (KernelDraft::Parameter& parameter : draft.parameters) parameter.value = from.base;
    // A part begins wherever it does, and so does an input.
    if (plan_.buffers[buffer].kind == BufferKind::part)
      for (Buffer& parameter : draft.kernel->buffers) parameter.alignment = ir::byte_size(parameter.dtype);
    add_kernel(std::move(draft), {node});
    plan_.steps.back().kernel.buffers = std::move(memory);
  }

  void finish_outputs() {
    const auto& outputs = graph_.outputs();
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Value* base = windows_.base(outputs[k]);
      if (output_of_[base->id] == static_cast<int32_t>(k)) {
        plan_.outputs.push_back(whole(plan_, memory_of(base)));
        continue;
      }
      plan_.outputs.push_back(copied(outputs[k], BufferKind::output));
      plan_.buffers[plan_.outputs.back().buffer].index = static_cast<uint32_t>(k);
    }
  }

  const ir::Graph& graph_;
  const LoweringOptions& options_;
  const ir::ValueNames names_;
  Layouts layouts_;
  PartialWrites partial_writes_;
  const std::vector<Place> places_;
  Windows windows_;
  Facts facts_;
  InPlace in_place_;
  std::vector<Unit> units_;
  PlanOf<Size> plan_;
  std::vector<int32_t> buffer_of_;                        ///< Plan buffer of each base value.
  std::unordered_map<uint32_t, int32_t> written_inputs_;  ///< Plan buffer of kind `mutated`, by graph input.
  std::vector<int32_t> output_of_;                        ///< Graph output that a value's own memory serves.
  std::unordered_map<Hash128, uint32_t> kernels_;
  std::vector<uint32_t> cats_;  ///< By step: the cat of which it copies an operand, by number from 1; 0: none.
};

struct Lowered {
  PlanOf<Size> plan;
  std::vector<uint32_t> cats;
};

Lowered lower_in_order(const ir::Graph& graph, const LoweringOptions& options, const SizeRules& decide) {
  std::vector<bool> refused(graph.inputs().size());
  for (;;) {
    Lowering lowering(graph, options, decide, refused);
    if (lowering.form(refused)) return {lowering.run(), lowering.cats()};
  }
}

}  // namespace

Plan lower(const ir::Graph& graph, const LoweringOptions& options) {
  const ir::ShapeEnv* symbols = graph.find_shape_env();
  if (symbols && symbols->table().symbol_count() > 0)
    throw UserError("a plan is of sizes that are numbers: see loops/symbolic_plan.h, ir/instantiate.h");
  Lowered lowered = lower_in_order(graph, options, graph.prove());
  Plan plan = convert_plan<int64_t>(std::move(lowered.plan), [](Size size) { return size.constant(); });
  for (PlanBuffer& buffer : plan.buffers)
    buffer.bytes = span_of(buffer.sizes, buffer.strides) * ir::byte_size(buffer.dtype);
  plan_memory(plan, options.reuse_memory);
  form_regions(plan, lowered.cats);
  return plan;
}

namespace {

/// Whoever is broadcast has a size that is known to be 1: it is read at one place there, whatever else is read of
/// its memory.
void decide_what_is_broadcast(ir::Graph& graph) {
  const SizeRules rules = graph.decide("loops");
  ir::for_each_node(graph, [&](const Node* node) {
    if (!ir::is_elementwise(node->op)) return;
    const auto to = node->results[0].type->sizes.symbolic();
    for (const Value* operand : node->operands) {
      const auto from = operand->type->sizes.symbolic();
      for (size_t k = 1; k <= std::min(from.size(), to.size()); ++k) {
        const Size size = from[from.size() - k];
        if (!size.is_constant() && size != to[to.size() - k] && !graph.prove().equal(size, to[to.size() - k]))
          rules.equal(size, 1);
      }
    }
  });
}

/// Writes sizes as guards have made them since: above all as 1, where that is what a broadcast relies on. Lowering
/// then looks at how a size is written.
void simplify_types(ir::Graph& graph) {
  ir::ShapeEnv& env = graph.shape_env();
  std::unordered_map<const ir::Type*, const ir::Type*> simplified;
  const auto simplify = [&](Size size) -> Size {
    if (size.is_constant()) return size;
    return env.prove(ir::equal(size, 1)) == true ? Size(1) : env.simplify(size);
  };
  const auto rewrite = [&](Value& value) {
    if (!value.type || (value.type->sizes.is_constant() && value.type->strides.is_constant())) return;
    const auto [at, is_new] = simplified.try_emplace(value.type, value.type);
    if (is_new) {
      Sizes sizes = list_of(value.type->sizes), strides = list_of(value.type->strides);
      for (Size& size : sizes) size = simplify(size);
      for (Size& stride : strides) stride = simplify(stride);
      at->second = graph.symbolic_type(value.type->dtype, value.type->device, sizes, strides);
    }
    value.type = at->second;
  };
  for (const ir::Input& input : graph.inputs()) rewrite(*input.value);
  ir::for_each_node(graph, [&](Node* node) {
    for (Value& result : node->results) rewrite(result);
  });
}

}  // namespace

SymbolicPlan lower_symbolic(ir::Graph& graph, const LoweringOptions& options) {
  ir::ShapeEnv& env = graph.shape_env();
  decide_what_is_broadcast(graph);
  simplify_types(graph);
  Lowered lowered = lower_in_order(graph, options, graph.decide("loops"));
  return SymbolicPlan(std::move(lowered.plan), std::move(lowered.cats), env, options.reuse_memory);
}

}  // namespace braze::loops
