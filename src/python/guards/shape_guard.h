// python/guards/shape_guard.h: sizes that may be other ones at later calls, and what must hold of them.
//
// A capture whose sizes are symbols (ir/shape_env.h) depends on what its symbols are: where their values are read,
// which sizes and strides are expressions over them, and the inequalities that decisions have left behind. One
// guard checks it all, after those on each tensor: "x.shape[1] >= 5, was 3".
#pragma once

#include <Python.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/shape_env.h"
#include "ir/size_code.h"
#include "python/guards/derived.h"
#include "python/guards/guard.h"

namespace braze::guards {

/// A size, a stride or a number among values, or a number that is computed of such.
struct SizeRead {
  enum class Kind : uint8_t { size, stride, number, derived } kind;
  uint32_t place;  ///< Of the tensor or number among the values.
  uint32_t dim;
  std::shared_ptr<const Derived> derived = nullptr;
  DerivedPart part = DerivedPart::whole;

  /// \param numbers  symbols before it, and floats, of which it may be computed.
  /// False: there is no such dimension, or no number that fits.
  bool read(PyObject* const* values, const CallNumbers& numbers, int64_t* number) const noexcept;
};

/// Where the numbers of a call are read.
struct NumberReads {
  std::vector<SizeRead> symbols;  ///< By symbol.
  std::vector<uint32_t> floats;   ///< Their places among the values; guards say that they are floats.
  bool empty() const { return symbols.empty() && floats.empty(); }
};
/// What was read.
class ReadNumbers {
 public:
  /// False: a symbol has no value.
  bool read(const NumberReads& reads, PyObject* const* values);
  CallNumbers all() const { return {{symbols.data(), symbols.size()}, {floats.data(), floats.size()}}; }

  c10::SmallVector<int64_t, 8> symbols;
  c10::SmallVector<double, 4> floats;
};

/// What of a tensor's form must be an expression's value.
struct SizeFit {
  SizeRead where;
  ir::Size size;
};

/// \param graph  owns the expressions and has the guards.
/// \param tests  guards of what is no expression.
std::shared_ptr<Payload> make_shapes_payload(std::shared_ptr<const ir::Graph> graph, NumberReads reads,
                                             std::span<const SizeFit> fits, std::vector<DerivedTest> tests);

}  // namespace braze::guards
