// What graphs have become, kept on disk: a graph that is known is neither rewritten nor lowered, and nothing else
// is taken for it.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cache/disk_cache.h"
#include "compile/artifact_cache.h"
#include "ir/shape_env.h"
#include "ir/text.h"
#include "loops/plan_bytes.h"
#include "support/archive.h"

using namespace braze;

namespace {

constexpr const char* mixture = R"(graph @mixture(%x: f32[6,40], %w: f32[40,5]) {
  %0 = tanh %x : f32[6,40]
  %1 = softmax %0, dim=1 : f32[6,40]
  %2 = mm %1, %w : f32[6,5]
  %3 = scalar value=1.5 : f32[]
  %4 = add %2, %3 : f32[6,5]
  return %4, %1
})";

constexpr const char* sized = R"(graph @sized[n = 6, m = 40](%x: f32[n,m]) {
  %0 = softmax %x, dim=1 : f32[n,m]
  %1 = call %0, target="aten::slice" overload="Tensor" arguments="$0, 1, 0, size('m'), 1" : f32[n,m]
  %2 = relu %1 : f32[n,m]
  return %2
})";

std::string file_of(const ir::Graph& graph, const driver::Options& options = {}) {
  return cache::DiskCache::standard().path_of(driver::artifact_key(graph, options).value());
}

/// Compiled as a process would that finds this cache.
driver::Artifact compile(const std::string& text, const driver::Options& options = {}) {
  const auto graph = ir::parse(text);
  const std::string before = ir::print(*graph);
  driver::Artifact artifact = driver::compile(*graph, options);
  CHECK(artifact.rewrote_graph == (ir::print(*graph) != before));
  return artifact;
}

bool has_phase(const driver::Facts& facts, std::string_view phase) {
  for (const PhaseTimes::Row& row : facts.times.rows())
    if (row.name == phase) return true;
  return false;
}

}  // namespace

TEST_CASE("kernels of a GPU that were read have the hashes under which their code lies") {
  const auto kernels_of_both = [](const char* device) {
    return concat("graph @both(%x: f32[64]", device, ", %y: f32[64]) {\n %0 = exp %x : f32[64]", device,
                  "\n %1 = exp %y : f32[64]\n return %0, %1\n}");
  };
  for (const char* device : {"", "@cuda:0"}) {
    const loops::Plan plan = loops::lower(*ir::parse(kernels_of_both(device)), {});
    CHECK(plan.kernels.size() == (*device ? 2 : 1));
    ArchiveWriter writer;
    loops::write(writer, plan);
    const std::string bytes = writer.take();
    ArchiveReader reader({bytes.data(), bytes.size()});
    CHECK(loops::read_plan(reader).kernel_hashes == plan.kernel_hashes);
    CHECK(loops::parse_plan(loops::print(plan)).kernel_hashes == plan.kernel_hashes);
  }
}

TEST_CASE("a graph that is known is not lowered again, and becomes the same") {
  const driver::Artifact first = compile(mixture), second = compile(mixture);
  CHECK(first.rewrote_graph);
  CHECK(!second.rewrote_graph);
  CHECK(has_phase(first.facts, "loops"));
  CHECK(!has_phase(second.facts, "loops"));
  CHECK(!has_phase(second.facts, "passes"));
  CHECK(loops::print(second.plan) == loops::print(first.plan));
  CHECK(second.plan.kernel_hashes == first.plan.kernel_hashes);
  CHECK(second.code == first.code);  // From memory.
  CHECK(second.targets == first.targets);
  CHECK(second.facts.nodes_traced == first.facts.nodes_traced);
  CHECK(second.facts.nodes == first.facts.nodes);
  CHECK(second.facts.steps.size() == first.facts.steps.size());
  CHECK(second.facts.kernels.at(0).fused == first.facts.kernels.at(0).fused);
  CHECK(second.facts.output_bytes == first.facts.output_bytes);
  CHECK(second.facts.arena_bytes == first.facts.arena_bytes);
}

TEST_CASE("machine code that is gone is made from the plan's kernels") {
  compile(mixture);
  for (const auto& entry : std::filesystem::directory_iterator(cache::DiskCache::standard().directory()))
    if (entry.path() != file_of(*ir::parse(mixture))) std::filesystem::remove(entry.path());
  codegen::clear_memory_cache();
  const driver::Artifact artifact = compile(mixture);
  CHECK(!artifact.rewrote_graph);
  CHECK(artifact.facts.code.compiled == static_cast<int>(artifact.plan.kernels.size()));
}

TEST_CASE("a family of sizes that is known is not lowered again") {
  const auto one = ir::parse(sized), other = ir::parse(sized);
  const driver::SymbolicArtifact first = driver::compile_symbolic(*one), second = driver::compile_symbolic(*other);
  CHECK(has_phase(first.facts, "loops"));
  CHECK(!has_phase(second.facts, "loops"));
  CHECK(ir::print(*other) == ir::print(*ir::parse(sized)));
  CHECK(loops::print(second.plan) == loops::print(first.plan));
  CHECK(second.facts.nodes == first.facts.nodes);
  CHECK(second.facts.output_bytes == first.facts.output_bytes);
  const int64_t values[] = {3, 77}, rows[] = {3, 100000};
  CHECK(loops::print(second.at(values).plan) == loops::print(first.at(values).plan));
  CHECK(second.plan.refuses(rows) == "m <= 16384");
}

TEST_CASE("what an artifact follows from is its key") {
  const auto key = [](const std::string& text, const driver::Options& options = {}) {
    return driver::artifact_key(*ir::parse(text), options).value();
  };
  std::vector<Hash128> keys = {key(mixture), key(sized)};
  const auto changed = [](std::string text, std::string_view from, std::string_view to) {
    return text.replace(text.find(from), from.size(), to);
  };
  keys.push_back(key(changed(mixture, "1.5", "2.5")));
  keys.push_back(key(changed(mixture, "tanh", "exp")));
  keys.push_back(key(changed(mixture, "return %4, %1", "return %1, %4")));
  keys.push_back(key(changed(mixture, "%w: f32[40,5]", "%w: f32[40,5] param")));
  keys.push_back(key(changed(sized, "n = 6", "n = 7")));
  keys.push_back(key(changed(sized, "n = 6", "n = 6 in 2..inf")));
  keys.push_back(key(changed(sized, "{\n", "{\n  guard m >= 2\n")));
  driver::Options options;
  options.fuse = false;
  keys.push_back(key(mixture, options));
  options = {};
  options.writable = {true, false};
  keys.push_back(key(mixture, options));
  options.writable = {false, true};
  keys.push_back(key(mixture, options));
  options = {};
  options.convolutions = driver::Convolutions::channels_last;
  keys.push_back(key(mixture, options));
  options = {};
  options.emulate_precision_casts = true;
  keys.push_back(key(mixture, options));
  options = {};
  options.code.target = Target::of(Target::host().isa == Isa::avx2 ? Isa::avx512 : Isa::avx2);
  keys.push_back(key(mixture, options));
  const auto moved = ir::parse(mixture);
  moved->first()->source = moved->intern("model.py:7");
  keys.push_back(driver::artifact_key(*moved, {}).value());
  for (size_t k = 0; k < keys.size(); ++k)
    for (size_t other = 0; other < k; ++other) CHECK_MESSAGE(keys[k] != keys[other], k, " and ", other);
  CHECK(key(mixture) == keys[0]);
}

TEST_CASE("nothing is kept where a fault is looked for, or for a machine that there is not") {
  const auto graph = ir::parse(mixture);
  driver::Options options;
  options.verify = true;
  CHECK(!driver::artifact_key(*graph, options));
  options = {};
  options.last = driver::Stage::plan;
  CHECK(!driver::artifact_key(*graph, options));
  options = {};
  options.code.use_disk_cache = false;
  CHECK(!driver::artifact_key(*graph, options));
  options = {};
  options.code.target.cpu.most_chunks = 3;
  CHECK(!driver::artifact_key(*graph, options));
  for (const auto& [name, value] :
       {std::pair("BRAZE_PASSES_OFF", "cse"), {"BRAZE_REWRITES", "3"}, {"BRAZE_PRINT_AFTER", "cse"}}) {
    setenv(name, value, 1);
    CHECK(!driver::artifact_key(*graph, {}));
    unsetenv(name);
  }
  CHECK(driver::artifact_key(*graph, {}));
}

TEST_CASE("an entry that is damaged, or is another one's, counts as absent") {
  const std::string text = loops::print(compile(mixture).plan), path = file_of(*ir::parse(mixture));
  std::ifstream stream(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(stream)), {});
  REQUIRE(whole.size() > 100);
  const auto compiled_with = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    const driver::Artifact artifact = compile(mixture);
    CHECK(loops::print(artifact.plan) == text);
    return artifact.rewrote_graph;
  };
  CHECK(!compiled_with(whole));
  for (const size_t at : {size_t{0}, size_t{9}, size_t{50}, whole.size() / 2, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] ^= 4;
    CHECK(compiled_with(damaged));
    CHECK(compiled_with(whole.substr(0, at)));
  }
  // Whole, but no plan of numbers, or none at all.
  cache::DiskCache& disk = cache::DiskCache::standard();
  const Hash128 key = driver::artifact_key(*ir::parse(mixture), {}).value();
  const auto family = ir::parse(sized);
  driver::compile_symbolic(*family);
  for (const std::string& other : {std::string(), std::string(300, '\0'), std::string(300, '\xff'), [&] {
                                     const auto bytes =
                                         disk.get(driver::artifact_key(*ir::parse(sized), {}).value()).value();
                                     return std::string(bytes.begin(), bytes.end());
                                   }()}) {
    disk.put(key, other);
    const driver::Artifact artifact = compile(mixture);
    CHECK(artifact.rewrote_graph);
    CHECK(loops::print(artifact.plan) == text);
  }
}
