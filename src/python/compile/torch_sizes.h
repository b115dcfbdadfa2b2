// python/compile/torch_sizes.h: sizes and numbers of one run that are symbols of its trace.
#pragma once

#include <Python.h>

#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/trace.h"
#include "python/compile/compiled_function.h"
#include "python/compile/size_history.h"
#include "python/guards/guard.h"
#include "python/interpreter/watch/tensor_world.h"

namespace braze::python {

class TorchSizes final : public interpreter::SizeWorld {
 public:
  /// \param history  of sizes; null: none varies.
  TorchSizes(capture::Tracer& tracer, guards::GuardSet& guards, SizeHistory* history, Dynamic dynamic)
      : tracer_(tracer), guards_(guards), history_(history), dynamic_(dynamic) {}

  bool has_sizes() const override;
  PyObject* tracer_of(PyObject* tensor) const override;
  interpreter::Ref to_symbolic(ir::Size size) const override;
  interpreter::Ref to_number(ir::Size size, PyObject* beside) const override;
  std::optional<ir::Size> from_symbolic(PyObject* object) const override;
  int64_t value_of(ir::Size size) const override;
  bool decide(const ir::SizeTest& test) override;
  std::optional<ir::Size> vary_number(PyObject* number, const guards::Source* source) override;

  /// Sizes of what a call or frame is given may turn out to vary: by its marks, or since there was a capture
  /// before.
  bool may_vary(std::span<PyObject* const> given) const;
  /// Of a tensor that is an argument of the graph: its sizes and strides are expressions.
  bool varies(const guards::Source* source) const { return varied_sources_.contains(source); }
  /// Numbers that are symbols, in the order of these.
  const std::vector<const guards::Source*>& numbers() const { return numbers_; }

  /// The sizes of an argument may be symbols, and are none yet.
  bool may_learn(PyObject* tensor) const { return history_ && !tracers_.contains(tensor); }
  /// Adds the guards on such an argument, before the tracer knows it. \param is_alone  it shares no memory with
  /// others: those that do keep their sizes, as how they overlap is told by numbers.
  bool learn(PyObject* tensor, const guards::Source* source, const std::string& name, bool is_alone);
  /// When the tracer knows it.
  void keep_tracer(PyObject* tensor, const guards::Source* source);

 private:
  capture::Tracer& tracer_;
  guards::GuardSet& guards_;
  SizeHistory* const history_;
  const Dynamic dynamic_;
  std::unordered_map<PyObject*, guards::Ref> tracers_;  ///< Of tensors whose sizes vary.
  std::unordered_set<const guards::Source*> varied_sources_;
  std::vector<const guards::Source*> numbers_;
};

}  // namespace braze::python
