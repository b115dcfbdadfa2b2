// python/compile/torch_world.h: what the watcher of Python frames must know of torch's objects.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <unordered_set>
#include <vector>

#include "capture/trace.h"
#include "python/compile/compiled_function.h"
#include "python/compile/promises.h"
#include "python/interpreter/watch/values.h"

namespace braze::python {

/// The C functions, methods and attributes of torch that a watched run may use. Looked up once a process.
class TorchNames {
 public:
  /// Needs torch to be imported. Throws what Python raises.
  TorchNames();

  std::unordered_set<PyObject*> functions;  ///< Held for good by torch's modules.
  std::unordered_set<std::string> methods;
  PyObject* tensor_type;
  PyObject* parameter_type;
  PyObject* compiler_dict;   ///< Of the module torch.compiler.
  PyObject* compiling_flag;  ///< The name of what torch.compiler.is_compiling() gives.
};
const TorchNames& torch_names();

/// Tensors of one run: arguments of the graph, and those that it binds.
class TorchWorld final : public interpreter::TensorWorld {
 public:
  struct Tensor {
    PyObject* object;
    const guards::Source* source;
    bool is_argument;  ///< Else the program holds this very tensor.
  };

  TorchWorld(capture::Tracer& tracer, guards::GuardSet& guards) : tracer_(tracer), guards_(guards) {}

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
  PyObject* tensor_type() const override { return torch_names().tensor_type; }
  PyObject* compiled_from(PyObject* object) const override { return python::compiled_from(object); }
  interpreter::Promise promise_about(PyObject* function) const override { return python::promise_about(function); }

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
  bool shares_memory(const at::Tensor& tensor) const;

  bool sealed_ = false;
};

}  // namespace braze::python
