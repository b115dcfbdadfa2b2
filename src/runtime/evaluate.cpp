// runtime/evaluate.cpp: the value of a traced tensor, wanted while the trace is still going on.
#include <utility>

#include "capture/generator.h"
#include "capture/tracer_tensor.h"
#include "runtime/program.h"
#include "support/error.h"

namespace braze::runtime {

namespace {

thread_local bool values_refused = false;  ///< The hook has no other way to the scope that surrounds the trace.

std::vector<at::Tensor> evaluate(const capture::Trace& trace, const std::vector<at::Tensor>& arguments) {
  if (values_refused) throw ValueRead("the function reads the value of a tensor");
  if (!trace.graph) return {arguments.at(0).clone()};
  BRAZE_CHECK(trace.graph->mutations().empty(), "reading a value must not change the example inputs");
  const capture::RunForReal outside_of_trace;
  // Random numbers drawn by the program are those that eager would have drawn; the trace itself draws none.
  const capture::KeptGenerators keep;
  ProgramOptions options;
  options.example_arguments = arguments;
  return Program::compile(trace, options)->run(arguments);
}

}  // namespace

RefuseValues::RefuseValues() : outer_(std::exchange(values_refused, true)) {}
RefuseValues::~RefuseValues() {
  values_refused = outer_;
}

void install_evaluate_hook() {
  capture::set_evaluate_hook(evaluate);
}

}  // namespace braze::runtime
