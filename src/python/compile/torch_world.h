// python/compile/torch_world.h: what the watcher of Python frames must know of torch's objects.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <Python.h>

#include <vector>

#include "capture/gate.h"
#include "capture/recorder.h"
#include "capture/trace.h"
#include "python/compile/compiled_function.h"
#include "python/compile/overloads.h"
#include "python/compile/picked_rows.h"
#include "python/compile/promises.h"
#include "python/compile/stand_ins.h"
#include "python/compile/torch_modes.h"
#include "python/compile/torch_names.h"
#include "python/compile/torch_sizes.h"
#include "python/compile/torch_wrappers.h"
#include "python/interpreter/watch/values.h"

namespace braze::python {

/// Which code is not the user's, and what PyTorch's own objects are whatever a run does.
class LibraryWorld : public interpreter::TensorWorld {
 public:
  bool is_library(PyCodeObject* code) const override;
  bool is_plain_script(PyObject* function) const override;
  void make_attribute(PyObject* object, PyObject* name) const override;
  guards::Ref called_instead(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                             PyObject* names) const override {
    return python::called_instead(object, arguments, count, names);
  }
  PyObject* tensor_type() const override { return torch_names().tensor_type; }
  bool is_cpu(PyObject* device) const override;
};

/// Tensors of one run: arguments of the graph, and those that it binds.
class TorchWorld final : public LibraryWorld {
 public:
  bool keep_tensor_class(PyTypeObject* type) override;

  struct Tensor {
    PyObject* object;
    const guards::Source* source;
    bool is_argument;              ///< Else the program holds this very tensor.
    c10::VariableVersion version;  ///< Its counter, null of an inference tensor,
    uint32_t version_before;       ///< and what that said.
    at::Tensor shown = {};         ///< What stands for it, once its `data`, which has another counter, was read.
  };

  /// Which tensors the program takes as arguments, besides what calls and frames are given, because there is a
  /// program already for others in their place: none; what globals, closures and attributes of what was compiled
  /// lead to and is neither a parameter nor a buffer; of what a frame is given, those too (many layers may share
  /// the code of a frame); all of these, as programs before have lost their tensors (a module that is made for each
  /// call).
  enum class Others : uint8_t { none, attributes, parameters, all };

  /// \param takes_symbols  false: no size varies.
  TorchWorld(capture::Tracer& tracer, guards::GuardSet& guards, Others others, SizeHistory& history,
             bool takes_symbols, Dynamic dynamic)
      : tracer_(tracer),
        guards_(guards),
        others_(others),
        history_(history),
        rows_(tracer, history),
        sizes_(tracer, guards, takes_symbols ? &history : nullptr, dynamic) {
    if (history.leaves_gradients()) tracer.impl().own_gradients = capture::Recorder::OwnGradients::refused;
  }

  /// Writes that were recorded have counted as versions of real tensors: puts the counters back.
  ~TorchWorld() override;

  bool is_tensor(PyObject* object) const override;
  bool learn(PyObject* tensor, const guards::Source* source) override;
  bool is_plain(PyObject* object) const override;
  bool is_computed(PyObject* object) const override;
  bool may_call(PyObject* function) const override;
  bool may_call_method(PyObject* name) const override;
  bool may_read(PyObject* name) const override;
  std::pair<PyObject*, PyObject*> compiling_flag() const override {
    return {torch_names().compiler_dict, torch_names().compiling_flag};
  }
  void compiling_flag_was_read() override { capture::note_compiling_flag_was_read(); }
  bool is_operator(PyObject* object) const override;
  PythonGradient python_gradient_of(PyObject* object) const override;
  bool may_read_without_grad(PyObject* tensor, PyObject* name) const override;
  std::optional<interpreter::Break> why_not(PyObject* name) const override;
  std::optional<interpreter::Break> why_raised() const override;
  uint64_t writes() const override { return tracer_.impl().mark().writes; }
  bool has_written_older() const override;
  bool changes_only_itself(PyObject* tensor, PyObject* name, PyObject* const* arguments,
                           Py_ssize_t count) const override;
  PyObject* answer_attribute(PyObject* tensor, PyObject* name) override;
  StoredData store_data(PyObject* tensor, PyObject* value) override;
  bool is_of_legacy_type(PyObject* object, PyObject* classes) const override;
  PyObject* answer(PyObject* function, PyObject* const* arguments, Py_ssize_t count) override;
  void answered() override;
  bool wants_history(PyObject* const* arguments, Py_ssize_t count) const override;
  bool is_within_gradient() const override;
  PyObject* gradient_of(PyObject* tensor) override;
  PyObject* compiled_from(PyObject* object) const override { return python::compiled_from(object); }
  interpreter::Promise promise_about(PyObject* function) const override;
  PyObject* stand_in_for(PyObject* function) const override;
  bool gives_other_class(PyObject* function) const override;
  Own own_function(PyObject* function) const override;
  interpreter::Ref number_of(PyObject* tensor) override;
  bool expect(PyObject* tensor, bool truth) override;
  PickedRows* rows() override { return &rows_; }
  TorchModes& modes() override { return modes_; }
  TorchSizes& sizes() override { return sizes_; }
  TorchWrappers* wrappers() const override { return &wrappers_; }

  /// What the run sees of torch.is_autocast_cache_enabled(): the tracer keeps the cache off, which would hand its
  /// tensors to others.
  bool autocast_cache() const { return autocast_cache_; }
  /// The function begins to run: it may write to the memory of the arguments that are known by now.
  void seal() { sealed_ = true; }
  /// Guards which tensors share memory or are one object. Once, at the end.
  void guard_aliasing();
  /// In the order in which they were met; those with is_argument in the order of the graph's arguments.
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  capture::Tracer& tracer_;
  guards::GuardSet& guards_;
  std::vector<Tensor> tensors_;

  const Others others_;
  const bool wants_gradients_ = at::GradMode::is_enabled();  ///< When the run begins.
  const SizeHistory& history_;
  PickedRows rows_;
  TorchSizes sizes_;
  TorchModes modes_;
  mutable TorchWrappers wrappers_{guards_, modes_};  ///< Part of what a const world shows.
  bool sealed_ = false;
  std::vector<guards::Ref> answers_;  ///< Tensors in the place of attributes.
  bool autocast_cache_ = at::autocast::is_autocast_cache_enabled();
};

}  // namespace braze::python
