// loops/schedule/schedule.h: a fusion group as loop IR.
#pragma once

#include <memory>
#include <vector>

#include "loops/fusion.h"
#include "loops/kernel.h"
#include "loops/plan.h"

namespace braze::loops {

/// A kernel and what its launch binds.
struct KernelDraft {
  struct Parameter {
    const ir::Value* value = nullptr;  ///< The realised value whose memory it is; null for `scratch_bytes`.
    Size scratch_bytes = 0;            ///< Memory for partial results between phases.
  };
  std::unique_ptr<Kernel> kernel;
  std::vector<Parameter> parameters;
  std::vector<ir::Number> scalars;
  int64_t bytes_read = 0, bytes_written = 0;  ///< For the examples.
  std::vector<Size> symbols = {};             ///< Value of each symbol of the kernel.
};

/// Loop IR of a group.
KernelDraft build_kernel(const Group& group, const Facts& facts);

/// A kernel that copies what `from` shows to where `to` shows (equal sizes): for results that must not be views,
/// for the operands of a cat. A base of `from` that is a scalar or an iota is written out.
KernelDraft build_copy(const Window& from, const Window& to, const Targets& targets, const SizeRules& rules);

/// A scan along one axis (schedule/*/scan.cpp): the axis is a serial loop.
KernelDraft build_scan(const ir::Node* scan, const Facts& facts);

/// The updates of a scatter or index_put, into a result that holds operand 0 already.
KernelDraft build_update(const ir::Node* update, const Facts& facts);
/// Only whether all its places exist, on a CPU: for a result whose memory must stay as it is where they do not.
KernelDraft build_update_checks(const ir::Node* update, const Facts& facts);

}  // namespace braze::loops
