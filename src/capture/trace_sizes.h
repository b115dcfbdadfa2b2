// capture/trace_sizes.h: what of a trace are symbols, and what all that was made of them says when one has become a
// number (capture/dim.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "capture/dim.h"
#include "capture/trace.h"

namespace braze::capture {

class Recorder;

class TraceSizes {
 public:
  explicit TraceSizes(Recorder& recorder) : recorder_(recorder) {}
  TraceSizes(const TraceSizes&) = delete;
  TraceSizes& operator=(const TraceSizes&) = delete;

  /// Of a tensor that is yet to be bound.
  struct Varied {
    std::vector<ir::Size> sizes, strides;
  };

  /// As Tracer::vary(), Tracer::vary_number().
  void vary(const at::Tensor& real, std::string_view name, std::span<const Varying> dims,
            std::span<const bool> strides);
  Dim vary_number(std::string_view name, int64_t example, ir::SizeRange range);
  const Varied* varied(const at::Tensor& real) const;  ///< Null: its sizes are numbers.
  Symbols& need_symbols();
  Symbols* symbols() { return symbols_ ? &*symbols_ : nullptr; }
  const std::vector<SymbolSource>& sources() const { return sources_; }
  /// Types, views and tensors say what is known of sizes by now.
  void settle();

 private:
  ir::Size symbol(std::string_view name, int64_t example, ir::SymbolFacts facts);

  Recorder& recorder_;
  std::optional<Symbols> symbols_;  ///< Of a trace whose sizes may be expressions.
  size_t settled_ = 0;              ///< So many specialisations are known to all types.
  std::vector<SymbolSource> sources_;
  std::unordered_map<const c10::TensorImpl*, Varied> varied_;
};

}  // namespace braze::capture
