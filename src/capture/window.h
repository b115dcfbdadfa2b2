// capture/window.h: views as places in memory, for what the steps of a view cannot say.
//
// A window of the base's own dtype is an index map. Any other is read and written by operators of braze that get
// the base's value and do what eager does: point a tensor at its bytes, with a dtype, sizes, strides, lazy
// conjugation and negation, and copy.
#pragma once

#include "capture/memory.h"

namespace braze::capture {

ir::Value* read_window(Recorder& recorder, View& window);
/// `value`, as the elements read, becomes the window's; the memory gets a new base value.
void write_window(Recorder& recorder, View& window, ir::Value* value);
/// `value`, of elements of `dtype`, in the layout of `type`.
ir::Value* laid_out(Recorder& recorder, ir::Value* value, const ir::Type* type, c10::ScalarType dtype);

/// A list of sizes as an operator of ours is given it.
c10::IValue as_argument(DimsRef dims);

/// `tensor`, copied if it does not have these strides. Elements that share a place must be equal.
at::Tensor laid_out(const at::Tensor& tensor, c10::IntArrayRef strides);

}  // namespace braze::capture
