// runtime/profiler_range.h: what braze does, as PyTorch's profilers see it (torch.profiler, and everything else
// that is told of operators by at::RecordFunction).
//
// Programs, their kernels and library calls, guards and the phases of compilations are ranges that nest:
//   braze::guards forward
//   braze::program forward
//     braze::kernel add_layer_norm_3f2a      {bytes_read, bytes_written, fused}
//     braze::call aten::addmm
#pragma once

#include <ATen/record_function.h>

#include <string>
#include <string_view>
#include <unordered_map>

namespace braze::runtime {

/// Whether somebody on this thread wants to be told of such ranges. A few nanoseconds.
inline bool is_profiled() {
  return at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE).has_value();
}

/// A range for as long as it lives.
///   std::optional<ProfilerRange> range;
///   if (is_profiled()) range.emplace(concat("braze::kernel ", name));
class ProfilerRange {
 public:
  using Facts = std::unordered_map<std::string, c10::IValue>;
  /// \param facts  shown beside the range where shapes are recorded.
  explicit ProfilerRange(std::string name, const Facts& facts = {}) : name_(std::move(name)) {
    if (!record_.isActive()) return;
    facts.empty() ? record_.before(std::string_view(name_)) : record_.before(std::string_view(name_), &facts);
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  std::string name_;  ///< Outlives the record, which keeps a view of it.
  at::RecordFunction record_{at::RecordScope::USER_SCOPE};
};

/// From now on the phases of compilations are ranges, too. Once a process.
void install_phase_ranges();

}  // namespace braze::runtime
