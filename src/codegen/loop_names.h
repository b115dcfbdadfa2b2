// codegen/loop_names.h: the loop IR's names, as all that emits code calls them.
#pragma once

#include "loops/kernel.h"

namespace braze::codegen {

using ir::DType;
using loops::Affine;
using loops::Block;
using loops::Buffer;
using loops::BufferId;
using loops::Extent;
using loops::Kernel;
using loops::Loop;
using loops::Reduction;
using loops::Stmt;
using loops::StmtKind;
using loops::ValueId;

}  // namespace braze::codegen
