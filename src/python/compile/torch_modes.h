// python/compile/torch_modes.h: modes of torch functions, while a run is captured.
#pragma once

#include "python/compile/default_device.h"
#include "python/interpreter/watch/tensor_world.h"

namespace braze::python {

class TorchModes final : public interpreter::ModeWorld {
 public:
  bool has_default_device() const override { return default_device_.is_set(); }
  bool enter_default_device(PyObject* function) override { return default_device_.enter(function); }
  void leave_default_device() override { default_device_.leave(); }
  bool asks_for_torch_function(PyObject* function) const override;
  Use use_of_stack(PyObject* function) const override;
  bool is_any_entered() const override;

  DefaultDevice& default_device() { return default_device_; }
  const DefaultDevice& default_device() const { return default_device_; }

 private:
  DefaultDevice default_device_;
};

}  // namespace braze::python
