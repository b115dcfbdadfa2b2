// passes/joint_values.h: what the passes that take a joint graph apart ask of its values.
#pragma once

#include "ir/graph.h"
#include "ir/shape_env.h"

namespace braze::passes {

/// What stands for it now.
inline ir::Value* resolved(const ir::Value* value) {
  return ir::Graph::resolve(const_cast<ir::Value*>(value));
}

inline bool is_view(const ir::Value& value) {
  return value.def && ir::info(value.def->op).kind == ir::OpKind::View;
}

inline bool is_input(const ir::Value& value) {
  return value.def->op == ir::Op::input;
}

/// At the example sizes where they are expressions.
inline int64_t example_bytes(const ir::Graph& graph, const ir::Type& type) {
  int64_t bytes = ir::byte_size(type.dtype);
  for (const ir::Size size : type.sizes.symbolic())
    bytes *= size.is_constant() ? size.constant() : graph.find_shape_env()->example(size);
  return bytes;
}

}  // namespace braze::passes
