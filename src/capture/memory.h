// capture/memory.h: which values share memory, and what a write through one of them does to the others.
//
// Tracer tensors have no data, but they alias as eager's do: every tensor is a *view* (a geometry) of a *memory*. A
// memory holds one current value, that of its base root. Writing through a view makes a new base value; a view
// whose value is older than its memory is regenerated from the base when it is read next. So the graph stays
// functional:
//   y = x[0]; y.add_(1); return x      %1 = slice %x ...  %2 = reshape %1   %3 = add %2, 1
//                                      %4 = reshape %3    %5 = slice_scatter %x, %4      mutate %x, %5
//
// What the graph has no words for - elements of another type than the memory's (view_as_real, view(dtype)), of a
// type that only ATen knows (complex), lazily conjugated or negated - is a *window* on the root: sizes, strides and
// a place in bytes, read and written by ATen (capture/window.h).
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <vector>

#include "capture/dim.h"
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
    index_map,  ///< `origin` and `map` as in ir::Op::index_map.
    window,     ///< Anything else: dtype, sizes, strides and offset in the memory (capture/window.h).
  } kind = Kind::root;
  Places dims;   ///< permute.
  Sizes origin;  ///< index_map.
  std::vector<Dim> map;
  int64_t dim = 0;
  Dim start = 0, step = 1;
};

struct View {
  Memory* memory = nullptr;  ///< Owned by the Recorder; not looked at once the trace is finished.
  std::shared_ptr<View> parent;
  ViewStep step;
  const ir::Type* type = nullptr;  ///< Eager's geometry. The value may be laid out otherwise where nobody sees it.
  c10::ScalarType dtype = c10::ScalarType::Undefined;  ///< Tells more than type->dtype, which may be `other`.
  bool is_conj = false, is_neg = false;                ///< Lazily: the value is that of the elements as they read.
  Dim offset = 0;      ///< Of its first element from the start of the memory, in elements.
  int64_t origin = 0;  ///< Where its storage begins in the memory, in bytes: several may share memory (NumPy's).
  int32_t input = -1;  ///< Graph input that it is, for such a root.
  ir::Value* value = nullptr;  ///< The value as of `version`; null: not made yet.
  uint32_t version = 0;
};
using ViewPtr = std::shared_ptr<View>;

struct Memory {
  std::vector<ViewPtr> roots;        ///< Several if graph inputs share storage.
  View* base = nullptr;              ///< The root that writes go to. It covers all others once version > 0.
  uint32_t version = 0;              ///< Counts writes.
  c10::Storage storage;              ///< Without data: reading it raises.
  std::function<ir::Value*()> lazy;  ///< Makes the base's value when it is first read.
};

/// Where a view begins in its memory, and the end of its last element, in bytes.
Dim first_byte(const View& view);
Dim end_byte(const View& view);
/// In elements of its own, as eager tells it.
Dim storage_offset(const View& view);
/// Whether the graph has operators for its elements.
bool is_plain(const View& view);
/// The view that the chain of `view` begins at.
ViewPtr root_of(const ViewPtr& view);
/// Whether two elements of such a tensor may lie in one place: not if every stride steps over all smaller ones.
bool may_overlap(const ir::Type& type);

/// Most operators raise for such tensors in eager; the others leave what they write last.
[[noreturn]] void refuse_repeated();

/// A storage of `bytes` bytes without data.
c10::Storage make_empty_storage(Dim bytes, c10::Device device);

/// The present value of a view.
ir::Value* read(Recorder& recorder, View& view);

/// Makes `value`, which has the view's dtype and sizes, the present value of the view. Throws as eager does if
/// elements of the view overlap; UserError if views exist that cannot be kept up to date.
void write(Recorder& recorder, View& view, ir::Value* value);

/// Elements of memory from the first to the last that a geometry reaches, plus one; 0 if it is empty.
Dim extent(DimsRef sizes, DimsRef strides);

/// Another geometry on the memory of `like`, of its dtype.
ViewPtr window_like(const ViewPtr& like, const ir::Type* type, Dim offset);
/// The root whose value a window is read from.
const View& window_base(const View& window);
/// Whether that root holds all of the window, gaps included.
bool is_covered(const View& window);
/// Dimensions from the outermost in memory to the innermost, if the geometry fills its extent without gaps.
std::optional<Places> dense_order(const ir::Type& type);

}  // namespace braze::capture
