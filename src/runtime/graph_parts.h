// runtime/graph_parts.h: which steps of a program one CUDA graph takes together, and which run as ever between
// them.
//
//   steps    kernel  mm  kernel | my_lib::op | kernel  softmax | kernel on the CPU
//   parts        recorded       |   direct   |     recorded    |      direct
//
// A step is direct if it has values on another device, waits for this one, draws from a generator of its own, or
// calls an operator of which nobody knows what else it does; or if recording it was tried and failed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/program_impl.h"

namespace braze::runtime {

/// Steps that follow each other.
struct GraphPart {
  uint32_t begin = 0, end = 0;  ///< Into Impl::steps.
  bool is_recorded = false;
  /// Plan buffers of kind `call` that it makes and that others look for:
  /// recorded: direct steps, or the caller. Their tensors are kept.
  /// direct: recorded parts. They are copied to where those look.
  std::vector<uint32_t> shared;
};

struct GraphParts {
  c10::Device place = c10::Device(c10::DeviceType::CPU);  ///< Whose stream is recorded; the CPU: there is none.
  std::vector<GraphPart> parts;
  bool records_writes = false;     ///< The last part is recorded, and takes Impl::write_back() along.
  std::vector<std::string> apart;  ///< Of each direct step that is one for itself: its name, and why.
  std::string obstacle;            ///< Why nothing is recorded; empty: something is.

  size_t graphs() const;
};

/// \param refused  By step: what came of trying to record it.
GraphParts split_into_graphs(const Program::Impl& program, const std::map<uint32_t, std::string>& refused);

}  // namespace braze::runtime
