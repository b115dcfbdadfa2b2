// capture/memory.h: which values share memory, and what a write through one of them does to the others.
//
// Tracer tensors have no data, but they alias as eager's do: every tensor is a *view* (a geometry) of a *memory*. A
// memory holds one current value, that of its base root. Writing through a view makes a new base value; a view
// whose value is older than its memory is regenerated from the base when it is read next. So the graph stays
// functional:
//   y = x[0]; y.add_(1); return x      %1 = slice %x ...  %2 = reshape %1   %3 = add %2, 1
//                                      %4 = reshape %3    %5 = slice_scatter %x, %4      mutate %x, %5
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <vector>

#include "ir/graph.h"

namespace braze::capture {

struct Memory;
class Recorder;

/// How a view's value comes from its parent's.
struct ViewStep {
  enum class Kind : uint8_t {
    root,     ///< The memory's own value, or a graph input that lies in it.
    same,     ///< The parent's elements, as they are.
    permute,  ///< `dims` as in ir::Op::permute.
    reshape,
    expand,
    slice,      ///< `dim`, `start`, `step` as in ir::Op::slice.
    index_map,  ///< `dims` are ir::Op::index_map's `origin`, `map` its matrix.
    window,     ///< Anything else: sizes, strides and offset on the base's memory (as_strided).
  } kind = Kind::root;
  c10::SmallVector<int64_t, 5> dims;
  std::vector<int64_t> map;
  int64_t dim = 0, start = 0, step = 1;
};

struct View {
  Memory* memory = nullptr;  ///< Owned by the Recorder; not looked at once the trace is finished.
  std::shared_ptr<View> parent;
  ViewStep step;
  const ir::Type* type = nullptr;  ///< Eager's geometry. The value may be laid out otherwise where nobody sees it.
  int64_t offset = 0;              ///< Of its first element from the start of the storage, in elements.
  int32_t input = -1;              ///< Graph input that it is, for such a root.
  ir::Value* value = nullptr;      ///< The value as of `version`; null: not made yet.
  uint32_t version = 0;
};
using ViewPtr = std::shared_ptr<View>;

struct Memory {
  std::vector<ViewPtr> roots;    ///< Several if graph inputs share storage.
  View* base = nullptr;          ///< The root that writes go to. It covers all others once version > 0.
  uint32_t version = 0;          ///< Counts writes.
  c10::Storage storage;          ///< Without data: reading it raises.
  bool untracked_alias = false;  ///< A view exists that this file cannot express (another dtype): never written.
  std::function<ir::Value*()> lazy;  ///< Makes the base's value when it is first read.
};

/// A storage of `bytes` bytes without data.
c10::Storage make_empty_storage(int64_t bytes, c10::Device device);

/// The present value of a view.
ir::Value* read(Recorder& recorder, View& view);

/// Makes `value`, which has the view's dtype and sizes, the present value of the view. Throws as eager does if
/// elements of the view overlap; UserError if views exist that cannot be kept up to date.
void write(Recorder& recorder, View& view, ir::Value* value);

/// Elements of memory from the first to the last that a geometry reaches, plus one; 0 if it is empty.
int64_t extent(c10::IntArrayRef sizes, c10::IntArrayRef strides);

/// Makes a root for a graph input that lies in memory already known and written to: a window on its base.
/// Null if the base does not cover it.
ViewPtr window_of_base(Memory& memory, const ir::Type* type, int64_t offset);

}  // namespace braze::capture
