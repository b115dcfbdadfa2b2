#include "runtime/sort_call.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "runtime/row_sort.h"

namespace braze::runtime {

namespace {

template <typename T>
auto comparable(T value) {
  if constexpr (std::is_same_v<T, c10::BFloat16> || std::is_same_v<T, c10::Half>)
    return static_cast<float>(value);
  else
    return value;
}

/// Where row number `row` begins, for every dimension but `dim`.
struct Rows {
  std::vector<int64_t> sizes, strides;
  Rows(const at::Tensor& tensor, int64_t dim) {
    for (int64_t d = 0; d < tensor.dim(); ++d) {
      if (d == dim) continue;
      sizes.push_back(tensor.size(d));
      strides.push_back(tensor.stride(d));
    }
  }
  int64_t offset(int64_t row) const {
    int64_t offset = 0;
    for (size_t d = sizes.size(); d-- > 0;) {
      offset += row % sizes[d] * strides[d];
      row /= sizes[d];
    }
    return offset;
  }
};

/// Equal elements meet in most of a few rows.
template <typename Key, typename Meets>
bool has_many_equals(int64_t rows, const Meets& meets) {
  RowSorter<Key> sorter;
  int tried = 0, with_equals = 0;
  for (int64_t row = 0; row < rows && tried < 3; row += std::max<int64_t>(1, rows / 3), ++tried)
    with_equals += meets(sorter, row);
  return 2 * with_equals > tried;
}

template <typename T>
bool run_rows(const SortCall& call, const at::Tensor& self, const at::Tensor* values, const at::Tensor* indices) {
  using Key = decltype(sort_key(comparable(T{})));
  const int64_t dim = call.dim < 0 ? call.dim + self.dim() : call.dim, length = self.size(dim);
  const int64_t kept = call.count < 0 ? length : call.count;
  if (self.numel() == 0 || kept == 0) return true;
  const Rows from(self, dim), to(values ? *values : *indices, dim), places(indices ? *indices : *values, dim);
  const int64_t step = self.stride(dim), value_step = values ? values->stride(dim) : 0,
                index_step = indices ? indices->stride(dim) : 0;
  const T* source = self.const_data_ptr<T>();
  T* out = values ? values->mutable_data_ptr<T>() : nullptr;
  int64_t* where = indices ? indices->mutable_data_ptr<int64_t>() : nullptr;
  const bool stable = call.stable || step == 0;  // ATen leaves an expanded dimension as it is.
  // Elements that lie side by side are read in vectors.
  const auto with_row = [&](int64_t row, const auto& use) {
    const T* in = source + from.offset(row);
    return step == 1 ? use([in](int64_t i) { return comparable(in[i]); })
                     : use([in, step](int64_t i) { return comparable(in[i * step]); });
  };
  const int64_t rows = self.numel() / length;
  const auto meets = [&](RowSorter<Key>& sorter, int64_t row) {
    return with_row(row,
                    [&](const auto& value) { return sorter.meets_equals(length, kept, call.descending, value); });
  };
  if (!stable && has_many_equals<Key>(rows, meets)) return false;
  // An element takes some 10 ns, a thread some 10 us to begin.
  const int64_t grain = std::max<int64_t>(1, 4096 / length);
  at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    RowSorter<Key> sorter;
    for (int64_t row = begin; row < end; ++row) {
      with_row(row, [&](const auto& value) {
        call.count < 0 ? sorter.sort(length, call.descending, stable, value)
                       : sorter.select(length, kept, call.descending, value);
      });
      const T* in = source + from.offset(row);
      if (out) {
        T* value = out + to.offset(row);
        for (int64_t i = 0; i < kept; ++i) value[i * value_step] = in[sorter[i].index() * step];
      }
      if (where) {
        int64_t* index = where + places.offset(row);
        for (int64_t i = 0; i < kept; ++i) index[i * index_step] = sorter[i].index();
      }
    }
  });
  return true;
}

}  // namespace

std::optional<SortCall> SortCall::of(const capture::CallPayload& payload) {
  const c10::OperatorName& name = payload.op.operator_name();
  const auto& stack = payload.stack;
  if (!payload.cloned.empty() || payload.results.size() != 2 || payload.results[0].returned != 0 ||
      payload.results[1].returned != 1)
    return std::nullopt;
  if (name.name == "aten::sort" && name.overload_name.empty())  // self, dim, descending
    return SortCall{.dim = stack[1].toInt(), .descending = stack[2].toBool()};
  if (name.name == "aten::sort" && name.overload_name == "stable")  // self, stable?, dim, descending
    return SortCall{.dim = stack[2].toInt(),
                    .descending = stack[3].toBool(),
                    .stable = !stack[1].isNone() && stack[1].toBool()};
  if (name.name == "aten::topk" && name.overload_name.empty())  // self, k, dim, largest, sorted
    return SortCall{.dim = stack[2].toInt(),
                    .count = stack[1].toInt(),
                    .descending = stack[3].toBool(),
                    .any_order = !stack[4].toBool()};
  return std::nullopt;
}

bool SortCall::serves(const at::Tensor& self) const {
  constexpr int64_t longest = std::numeric_limits<uint32_t>::max();
  if (self.layout() != c10::kStrided || !self.is_cpu() || self.dim() == 0 || self.is_neg()) return false;
  const int64_t length = self.size(dim < 0 ? dim + self.dim() : dim);
  if (length > longest) return false;
  if (any_order && count * 64 > length) return false;  // That order is std::nth_element's.
  switch (self.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kBFloat16:
    case at::kHalf:
    case at::kLong:
    case at::kInt:
    case at::kShort:
    case at::kChar:
    case at::kByte: return true;
    case at::kBool: return count < 0;  // topk of bool is an error of ATen's.
    default: return false;
  }
}

bool SortCall::run(const at::Tensor& self, const at::Tensor* values, const at::Tensor* indices) const {
  bool done = false;
  AT_DISPATCH_ALL_TYPES_AND3(at::kBFloat16, at::kHalf, at::kBool, self.scalar_type(), "braze_sort",
                             [&] { done = run_rows<scalar_t>(*this, self, values, indices); });
  return done;
}

}  // namespace braze::runtime
