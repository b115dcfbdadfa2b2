#include "loops/schedule/gpu/tuning.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "support/error.h"

namespace braze::loops::gpu {

namespace {

constexpr std::array<std::string_view, 3> strategies = {"auto", "warp", "block"};

int64_t number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw UserError(concat("a tuning has numbers, not '", text, "'"));
  return value;
}

bool is_power(int64_t value) {
  return value > 0 && std::has_single_bit(static_cast<uint64_t>(value));
}

}  // namespace

Tuning Tuning::of(const Target& target) {
  const GpuLimits& gpu = target.gpu;
  return {0, gpu.moved_bytes, gpu.thread_vectors, gpu.kept, RowStrategy::by_length, gpu.cluster_row};
}

std::string print(const Tuning& tuning) {
  const std::string threads = tuning.threads == 0 ? "auto" : std::to_string(tuning.threads);
  return concat("threads=", threads, " vector=", tuning.vector, " vectors=", tuning.vectors, " kept=", tuning.kept,
                " rows=", strategies[static_cast<size_t>(tuning.rows)], " cluster=", tuning.cluster);
}

Tuning parse_tuning(std::string_view text, const Tuning& base) {
  Tuning tuning = base;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(", "), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (item.empty()) continue;
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) throw UserError(concat("a tuning has NAME=VALUE, not '", item, "'"));
    const std::string_view name = item.substr(0, equals), value = item.substr(equals + 1);
    if (name == "threads") {
      tuning.threads = value == "auto" ? 0 : number(value);
    } else if (name == "vector") {
      tuning.vector = number(value);
    } else if (name == "vectors") {
      tuning.vectors = number(value);
    } else if (name == "kept") {
      tuning.kept = number(value);
    } else if (name == "cluster") {
      tuning.cluster = number(value);
    } else if (name == "rows") {
      const auto* const found = std::ranges::find(strategies, value);
      if (found == strategies.end()) throw UserError(concat("rows are auto, warp or block, not '", value, "'"));
      tuning.rows = static_cast<RowStrategy>(found - strategies.begin());
    } else {
      throw UserError(concat("a tuning has no '", name, "'"));
    }
  }
  return tuning;
}

Target tuned(const Target& target, const Tuning& tuning) {
  if (!target.is_gpu()) throw UserError(concat(target.name(), " has no blocks of threads to tune"));
  Target out = target;
  GpuLimits& gpu = out.gpu;
  const bool has_threads =
      is_power(tuning.threads) && tuning.threads >= gpu.warp && tuning.threads <= gpu.most_threads;
  const bool runs = (has_threads || tuning.threads == 0) && is_power(tuning.vector) && tuning.vector >= 4 &&
                    tuning.vector <= 4 * target.vector_bytes && tuning.vectors >= 1 && tuning.vectors <= gpu.kept &&
                    tuning.kept >= 0 && tuning.kept <= gpu.kept && tuning.cluster >= 0;
  if (!runs) throw UserError(concat(target.name(), " runs no kernels of ", print(tuning)));
  if (has_threads) gpu.block_threads = gpu.warp_threads = tuning.threads;
  gpu.moved_bytes = tuning.vector;
  gpu.thread_vectors = tuning.vectors;
  gpu.kept = tuning.kept;
  if (tuning.cluster == 0)
    gpu.most_cluster = 1;
  else
    gpu.cluster_row = tuning.cluster;
  // Rows too long for a warp's registers would be read again for each pass.
  if (tuning.rows == RowStrategy::warp) gpu.warp_row = gpu.warp * target.gpu.kept;
  if (tuning.rows == RowStrategy::block) gpu.warp_row = 0;
  return out;
}

std::vector<Tuning> candidates(const Target& target) {
  const Tuning first = Tuning::of(target);
  std::vector<Tuning> found = {first};
  const auto add = [&](Tuning tuning) {
    if (std::ranges::find(found, tuning) == found.end()) found.push_back(tuning);
  };
  const auto but = [&](auto change) {
    Tuning tuning = first;
    change(tuning);
    add(tuning);
  };
  for (const int64_t threads : {128, 256, 512})
    for (const int64_t vector : {16, 32, 64}) but([&](Tuning& t) { t.threads = threads, t.vector = vector; });
  for (const RowStrategy rows : {RowStrategy::warp, RowStrategy::block}) but([&](Tuning& t) { t.rows = rows; });
  for (const int64_t vectors : {1, 2, 8}) but([&](Tuning& t) { t.vectors = vectors, t.rows = RowStrategy::block; });
  // More blocks run side by side where none keeps its row.
  for (const int64_t vectors : {4, 8, 16})
    but([&](Tuning& t) { t.vectors = vectors, t.kept = 0, t.rows = RowStrategy::block; });
  for (const int64_t vectors : {8, 16})
    but([&](Tuning& t) { t.vectors = vectors, t.cluster = 8 << 10, t.rows = RowStrategy::block; });
  but([&](Tuning& t) { t.cluster = 0; });
  return found;
}

}  // namespace braze::loops::gpu
