// python/guards/shape_guard.h: sizes that may be other ones at later calls, and what must hold of them.
//
// A capture whose sizes are symbols (ir/shape_env.h) depends on what its symbols are: where their values are read,
// which sizes and strides are expressions over them, and the inequalities that decisions have left behind. One
// guard checks it all, after those on each tensor: "x.shape[1] >= 5, was 3".
#pragma once

#include <Python.h>

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

  /// \param symbols  those before, of which it may be computed.
  /// False: there is no such dimension, or no number that fits.
  bool read(PyObject* const* values, std::span<const int64_t> symbols, int64_t* number) const noexcept;
};

/// By symbol.
using SymbolReads = std::vector<SizeRead>;
bool read_symbols(const SymbolReads& reads, PyObject* const* values, int64_t* symbols) noexcept;

/// What of a tensor's form must be an expression's value.
struct SizeFit {
  SizeRead where;
  ir::Size size;
};

/// \param graph  owns the expressions and has the guards.
/// \param tests  guards of what is no expression.
std::shared_ptr<Payload> make_shapes_payload(std::shared_ptr<const ir::Graph> graph, SymbolReads symbols,
                                             std::span<const SizeFit> fits, std::vector<DerivedTest> tests);

}  // namespace braze::guards
