// python/compile/value_reads.cpp
#include "python/compile/value_reads.h"

#include <algorithm>
#include <iterator>

#include "capture/reads.h"

namespace braze::python {

using interpreter::Break;

namespace {

struct Row {
  std::string_view what;  ///< Without the namespace of PyTorch's operators.
  Break why;
};

constexpr Row rows[] = {
    {"item()", Break::item},
    {"one_hot()", Break::one_hot},
    {"index", Break::boolean_mask},
    {"index_put", Break::boolean_mask},
    {"masked_select", Break::masked_select},
    {"nonzero", Break::nonzero},
    {"nonzero_numpy", Break::nonzero},
    {"argwhere", Break::nonzero},
    {"_unique", Break::unique},
    {"_unique2", Break::unique},
    {"unique_dim", Break::unique},
    {"unique_consecutive", Break::unique},
    {"unique_dim_consecutive", Break::unique},
    {"bincount", Break::bincount},
    {"repeat_interleave", Break::repeat_interleave},
    {"_pack_padded_sequence", Break::packed_sequence},
    {"tensor_split()", Break::tensor_split},
    {"ctc_loss()", Break::ctc_lengths},
    {"_ctc_loss", Break::ctc_lengths},
    {"equal", Break::compared_whole},
    {"is_nonzero", Break::item},
};

}  // namespace

Break why_read(std::string_view what) {
  constexpr std::string_view aten = "aten::";
  const bool is_operator = what.starts_with(aten);
  const std::string_view name = is_operator ? what.substr(aten.size(), what.find(' ') - aten.size()) : what;
  const Row* row = std::ranges::find(rows, name, &Row::what);
  if (row != std::end(rows)) return row->why;
  if (what.ends_with(capture::only_for_real_data)) return Break::operation_on_tensors_raises_error;
  return is_operator ? Break::data_dependent_shape : Break::value_read;
}

DataRead read_at(Break why) {
  switch (why) {
    case Break::item:
    case Break::tolist:
    case Break::value_read:
    case Break::branch_on_tensor:
    case Break::compared_whole:
    case Break::tensor_of_values: return DataRead::scalar;
    case Break::boolean_mask:
    case Break::masked_select:
    case Break::nonzero:
    case Break::unique:
    case Break::one_hot:
    case Break::repeat_interleave:
    case Break::bincount:
    case Break::packed_sequence:
    case Break::tensor_split:
    case Break::ctc_lengths:
    case Break::data_dependent_shape: return DataRead::shape;
    default: return DataRead::none;
  }
}

}  // namespace braze::python
