// capture/trace_end.h: what is made of a recording at its end: recipes of results, mutations, the backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

#include "capture/trace.h"

namespace braze::capture {

class Recorder;
struct Memory;

class TraceEnd {
 public:
  explicit TraceEnd(Recorder& recorder) : recorder_(recorder) {}
  TraceEnd(const TraceEnd&) = delete;
  TraceEnd& operator=(const TraceEnd&) = delete;

  // As those of Tracer.
  Trace finish(const std::vector<at::Tensor>& outputs);
  /// Throws where it cannot be recorded.
  void differentiate(Trace& trace, const std::vector<at::Tensor>& outputs);
  std::vector<at::Tensor> release();
  void add_outputs(Trace& trace, const std::vector<at::Tensor>& outputs);

 private:
  OutputRecipe recipe_of(const at::Tensor& output, Trace& trace);
  ir::Value* memory_of_its_own(ir::Value* value);
  void find_base(const at::Tensor& output, const std::vector<at::Tensor>& outputs, OutputRecipe& recipe);
  void find_counters(Trace& trace, const std::vector<at::Tensor>& outputs) const;
  void count_writes(Trace& trace) const;
  void take_inputs(Trace& trace);
  at::Tensor add_tangent(const at::Tensor& root, size_t number);
  std::vector<at::Tensor> find_roots(const Trace& trace, const std::vector<at::Tensor>& outputs,
                                     Gradients& gradients) const;
  void check_gradients();
  void keep_checks();

  Recorder& recorder_;
  std::unordered_map<const Memory*, uint32_t> output_of_;
  std::vector<at::Tensor> hidden_;  ///< Bases of returned views that are not returned.
};

}  // namespace braze::capture
