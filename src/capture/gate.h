// capture/gate.h: what comes before every operator of a captured run, composite ones included.
//
// A composite operator of PyTorch's runs above the tracer's kernels, and some read what they are given by its
// pointer (tensor_split, ctc_loss, lstm's batch sizes). Here they get a tracer, which has no data, for every real
// tensor: so no value is read that nobody knows of, whatever the operator does.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "capture/replaced_data.h"

namespace braze::capture {

/// torch.tensor(...) fills a fresh CPU tensor by its pointer. It excludes some keys while it does; the finished
/// tensor then comes in through lift_fresh. Beside it only what is below `__torch_dispatch__` excludes all of them,
/// where nothing is captured.
bool builds_python_tensor();
/// The caller is Python code that carries out an operator (`__torch_dispatch__`): the gate does not see what it
/// calls.
bool is_below_gate();

/// The innermost composite operator that the gate has let through and that runs now. Empty: none does.
std::string_view running_composite();

/// Which kernels run what operators do: any of them may be replaced while the process runs.
class KernelSnapshot {
 public:
  void add(const c10::OperatorHandle& op);
  /// Of all that was added, the kernels are what they were.
  bool holds() const noexcept {
    for (const Word& word : words_)
      if (*word.place != word.value) return false;
    return !watches_names_ || generation_ == deregistrations();
  }
  /// An operator was taken back since: it will not hold again.
  bool is_dead() const noexcept { return watches_names_ && generation_ != deregistrations(); }

 private:
  struct Word {
    const void* const* place;
    const void* value;
  };
  static uint64_t deregistrations() noexcept;

  std::vector<Word> words_;
  bool watches_names_ = false;  ///< Some operator is not PyTorch's own, and may be defined anew.
  uint64_t generation_ = deregistrations();
};

/// An operator is taken back: what was recorded of it counts no longer. The dispatcher keeps its entry, because of
/// the tracer's kernel there, and must forget the object of torch.ops, whose schema is gone: it may come back with
/// another one.
void operator_taken_back(const c10::OperatorHandle& op) noexcept;

/// On this thread, while it lives and the tracer's Scope with it. Throws, where an operator is called, UserError
/// for one of PyTorch's whose kernel was replaced by a function in Python.
class Gate {
 public:
  Gate();
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Of all operators that were called.
  KernelSnapshot kernels() const;
  /// An operator is given `tracer` in the place of `real`.
  void note_stand_in(const at::Tensor& tracer, const at::Tensor& real) {
    stood_for_.try_emplace(tracer.unsafeGetTensorImpl(), tracer, real);
  }

 private:
  friend struct GateKernel;
  friend ReplacedData* replaced_data();
  friend void note_compiling_flag_was_read();
  friend const at::Tensor* stood_for(const at::Tensor& tracer);
  std::unordered_set<c10::OperatorHandle> called_;
  std::unordered_set<const c10::TensorImpl*> viewed_;  ///< Real tensors of which the trace has made views.
  /// Real tensors by the tracers that operators were given for them. Nobody else may use the address of a tracer.
  std::unordered_map<const c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>> stood_for_;
  ReplacedData replaced_;
  bool has_read_compiling_flag_ = false;
  Gate* outer_;
};

/// What runs under this thread's gate has asked whether it is being compiled.
void note_compiling_flag_was_read();

}  // namespace braze::capture
