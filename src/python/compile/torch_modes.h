// python/compile/torch_modes.h: modes of torch functions, while a run is captured.
#pragma once

#include <vector>

#include "python/compile/default_device.h"
#include "python/guards/ref.h"
#include "python/interpreter/watch/tensor_world.h"

namespace braze::python {

class TorchModes final : public interpreter::ModeWorld {
 public:
  bool has_default_device() const override { return default_device_.is_set(); }
  bool enter_default_device(PyObject* function) override { return default_device_.enter(function); }
  void leave_default_device() override { default_device_.leave(); }
  bool asks_for_torch_function(PyObject* function) const override;
  Use use_of_stack(PyObject* function) const override;
  OlderMode handling() const override;
  OlderMode given_by(PyObject* const* arguments, Py_ssize_t count) const override;
  bool are_calls_handled() const override;

  /// Before the run, which goes without the default device.
  void begin();
  /// The run has tensors of a class with a handler of its own.
  void note_handler() { has_handler_ = true; }

  const DefaultDevice& default_device() const { return default_device_; }

 private:
  OlderMode older_at(size_t place) const;

  DefaultDevice default_device_;
  bool has_handler_ = false;
  std::vector<guards::Ref> older_;  ///< The modes that there were when the run began, from the outermost.
};

}  // namespace braze::python
