#include "capture/own_calls.h"

namespace braze::capture {
namespace {

/// Set once, when the Python module is loaded.
OwnCallHook& hook() {
  static OwnCallHook hook = nullptr;
  return hook;
}

}  // namespace

void set_own_call_hook(OwnCallHook given) {
  hook() = given;
}

OwnCalls::OwnCalls() : state_(hook() ? hook()() : nullptr) {}

}  // namespace braze::capture
