#include "compile/artifact_cache.h"

#include "cache/disk_cache.h"
#include "ir/shape_env.h"
#include "loops/plan_bytes.h"
#include "passes/switches.h"
#include "support/build_id.h"

namespace braze::driver {

namespace {

constexpr size_t layout_count = static_cast<size_t>(ConvolutionLayout::channels_last) + 1;

bool looks_for_a_fault(const Options& options) {
  const passes::Switches switches = passes::Switches::from_environment();
  return options.verify || !switches.passes_off.empty() || !switches.print_after.empty() ||
         switches.rewrites != INT64_MAX;
}

void read(ArchiveReader& archive, loops::Plan& plan) {
  plan = loops::read_plan(archive);
}
void read(ArchiveReader& archive, loops::SymbolicPlan& plan) {
  plan = loops::read_symbolic_plan(archive);
}

}  // namespace

std::optional<Hash128> artifact_key(const ir::Graph& graph, const Options& options) {
  const Target& target = options.code.target;
  const bool is_kept = options.last == Stage::code && options.code.use_disk_cache && !options.tunes &&
                       cache::DiskCache::standard().enabled() && !build_id().empty() &&
                       target == Target::of(target.isa) && !looks_for_a_fault(options);
  if (!is_kept) return std::nullopt;
  Hasher hasher;
  hasher.add("artifact").add(build_id()).add(target.name());
  hasher.add(options.emulate_precision_casts).add(options.fuse).add(options.convolutions);
  hasher.add(options.writable.size());
  for (const bool writable : options.writable) hasher.add(writable);
  hasher.add(exact_hash(graph));
  // What texts and errors show.
  for (const ir::Input& input : graph.inputs()) hasher.add(input.name);
  for (const ir::Node* node = graph.first(); node; node = node->next) hasher.add(node->source);
  // What is fast follows the examples.
  if (const ir::ShapeEnv* env = graph.find_shape_env()) hasher.add(env->examples());
  return hasher.finish();
}

template <typename AnyPlan>
std::optional<KeptPlan<AnyPlan>> find_plan(const Hash128& key) {
  const auto bytes = cache::DiskCache::standard().get(key);
  if (!bytes) return std::nullopt;
  ArchiveReader archive({bytes->data(), bytes->size()});
  KeptPlan<AnyPlan> kept;
  uint64_t nodes = 0;
  archive(nodes);
  archive.enumerator(kept.convolutions, layout_count);
  read(archive, kept.plan);
  if (!archive.ok() || !archive.at_end()) return std::nullopt;
  kept.nodes = nodes;
  return kept;
}

template <typename AnyPlan>
void keep_plan(const Hash128& key, const AnyPlan& plan, const Facts& facts) {
  ArchiveWriter archive;
  uint64_t nodes = facts.nodes;
  ConvolutionLayout convolutions = facts.convolutions;
  archive(nodes);
  archive.enumerator(convolutions, layout_count);
  loops::write(archive, plan);
  cache::DiskCache::standard().put(key, archive.take());
}

template std::optional<KeptPlan<loops::Plan>> find_plan(const Hash128& key);
template std::optional<KeptPlan<loops::SymbolicPlan>> find_plan(const Hash128& key);
template void keep_plan(const Hash128& key, const loops::Plan& plan, const Facts& facts);
template void keep_plan(const Hash128& key, const loops::SymbolicPlan& plan, const Facts& facts);

}  // namespace braze::driver
