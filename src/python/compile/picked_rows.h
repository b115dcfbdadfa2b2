// python/compile/picked_rows.h: `rows[index]` where the index is a tensor of one number, which eager asks for it to
// make a view. A capture copies the row by the operator of advanced indexing, and is made anew without that where
// the two may be told apart (interpreter::RowWorld).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "capture/trace.h"
#include "python/compile/size_history.h"
#include "python/interpreter/watch/tensor_world.h"

namespace braze::python {

class PickedRows final : public interpreter::RowWorld {
 public:
  PickedRows(capture::Tracer& tracer, const SizeHistory& history) : tracer_(tracer), history_(history) {}

  interpreter::Ref first_row_at(PyObject* rows, PyObject* index) override;
  interpreter::Ref index_of_one(PyObject* index) override;
  /// A row that was copied may be told from eager's view: it or its tensor was written afterwards, or it is one of
  /// these.
  bool shows_copy(const std::vector<at::Tensor>& outputs) const;

 private:
  struct Copied {
    at::Tensor row, rows;
    uint32_t row_version, rows_version;
  };
  at::Tensor traced(PyObject* tensor) const;
  bool is_unknown_index(PyObject* index) const;

  capture::Tracer& tracer_;
  const SizeHistory& history_;
  std::vector<Copied> copied_;
};

}  // namespace braze::python
