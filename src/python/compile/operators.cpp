#include "python/compile/operators.h"

#include <ATen/core/function_schema.h>

#include <unordered_map>
#include <utility>

namespace braze::python {

namespace {

struct Counting {
  int64_t count = 0;
  int depth = 0;                                ///< Of operators that call others, and of pauses.
  std::unordered_map<const char*, bool> views;  ///< By the schema's own name, which has one address.
};
thread_local Counting counting;  // The callbacks, plain functions, get no argument of ours.

/// What gives back a part of what it is given and computes nothing, as `detach` and `view`.
bool is_view(const at::RecordFunction& function) {
  const auto [row, is_new] = counting.views.try_emplace(function.name(), false);
  if (!is_new) return row->second;
  const auto schema = function.operator_schema();
  if (!schema || schema->returns().empty()) return false;
  const c10::AliasInfo* alias = schema->returns()[0].alias_info();
  return row->second = alias && !alias->isWrite();
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (counting.depth++ == 0 && !is_view(function)) ++counting.count;
  return nullptr;
}

void end(const at::RecordFunction&, at::ObserverContext*) {
  --counting.depth;
}

}  // namespace

NativeOperators::NativeOperators()
    : outer_count_(std::exchange(counting.count, 0)),
      outer_depth_(std::exchange(counting.depth, 0)),
      handle_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION}).needsInputs(false))) {}

NativeOperators::~NativeOperators() {
  at::removeCallback(handle_);
  counting.count = outer_count_;
  counting.depth = outer_depth_;
}

int64_t NativeOperators::count() const {
  return counting.count;
}

NativeOperators::Pause::Pause() {
  ++counting.depth;
}
NativeOperators::Pause::~Pause() {
  --counting.depth;
}

}  // namespace braze::python
