// python/compile/torch_wrappers.h: tensors of a run whose class carries out their operators in Python.
#pragma once

#include <vector>

#include "python/compile/torch_modes.h"
#include "python/guards/guard.h"
#include "python/interpreter/watch/wrapper_world.h"

namespace braze::python {

class TorchWrappers final : public interpreter::WrapperWorld {
 public:
  TorchWrappers(guards::GuardSet& guards, TorchModes& modes) : guards_(guards), modes_(modes) {}

  bool keep_class(PyTypeObject* type) override;
  bool is_wrapper(PyObject* object) const override;
  bool may_read(PyObject* name) const override;
  bool makes_wrapper(PyObject* function) const override;
  bool is_overload(PyObject* object) const override;
  void enter_handler() override;
  PyObject* behind(PyObject* tracer) const override;

  /// One that existed before: adds the guards of its form, and that no handler of its own hides its class's. What
  /// it holds is learnt when it is read.
  bool learn(PyObject* tensor, const guards::Source* source);

  struct Learnt {
    PyObject* object;
    const guards::Source* source;
  };
  const std::vector<Learnt>& learnt() const { return learnt_; }

 private:
  guards::GuardSet& guards_;
  TorchModes& modes_;
  std::vector<Learnt> learnt_;
};

}  // namespace braze::python
