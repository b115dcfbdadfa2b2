// python/compile/late_reads.cpp
#include "python/compile/late_reads.h"

#include <pybind11/pybind11.h>

#include <utility>

#include "capture/tracer_tensor.h"
#include "python/imported.h"
#include "python/interpreter/evaluate.h"
#include "support/error.h"

namespace braze::python {

namespace py = pybind11;

namespace {

/// Held and let go of by threads that may not have the interpreter's lock.
class Held {
 public:
  explicit Held(py::object object) : object_(std::move(object)) {}
  ~Held() {
    const py::handle object = object_.release();
    if (!Py_IsInitialized()) return;
    const py::gil_scoped_acquire locked;
    object.dec_ref();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  const py::object& operator*() const { return object_; }

 private:
  py::object object_;
};

class NamedReads final : public capture::LateReads, public std::enable_shared_from_this<NamedReads> {
 public:
  NamedReads(std::string function, py::object reads) : function_(std::move(function)), reads_(std::move(reads)) {}

  std::unique_ptr<const Values> read() const override {
    const py::gil_scoped_acquire locked;
    const interpreter::Pause unwatched;
    return std::make_unique<NamedValues>(shared_from_this(),
                                         imported("braze._late_reads").attr("values_of")(*reads_));
  }

 private:
  class NamedValues final : public Values {
   public:
    NamedValues(std::shared_ptr<const NamedReads> reads, py::object values)
        : reads_(std::move(reads)), values_(std::move(values)) {}
    std::string difference() const override {
      const py::gil_scoped_acquire locked;
      const interpreter::Pause unwatched;
      const py::object changed = imported("braze._late_reads").attr("changed")(*reads_->reads_, *values_);
      const auto name = changed.cast<std::string>();
      if (name.empty()) return {};
      return concat(
          "braze: ", name, ", which the backward of ", reads_->function_,
          " reads, has changed since the compiled forward ran. Change it before the forward, or mark what "
          "calls the function with braze.compiler.disable");
    }

   private:
    const std::shared_ptr<const NamedReads> reads_;
    const Held values_;
  };

  const std::string function_;
  const Held reads_;
};

py::object reads_of(uintptr_t function) {
  const capture::RunForReal real;
  const interpreter::Pause unwatched;
  return imported("braze._late_reads").attr("reads_of")(py::handle(reinterpret_cast<PyObject*>(function)));
}

}  // namespace

int64_t count_late_reads(uintptr_t function) {
  const py::object reads = reads_of(function);
  return reads.is_none() ? -1 : static_cast<int64_t>(py::len(reads));
}

std::shared_ptr<const capture::LateReads> late_reads(std::string name, uintptr_t function) {
  py::object reads = reads_of(function);
  if (py::len(reads) == 0) return nullptr;
  return std::make_shared<NamedReads>(std::move(name), std::move(reads));
}

}  // namespace braze::python
