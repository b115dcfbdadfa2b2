// capture/silent.h: operators that are asked for shapes warn nobody.
#pragma once

#include <c10/util/Exception.h>

namespace braze::capture {

/// What operators warn of is told when the program runs.
class Silent final : c10::WarningHandler {
 public:
  Silent() : guard_(this) {}
  void process(const c10::Warning&) override {}

 private:
  c10::WarningUtils::WarningHandlerGuard guard_;
};

}  // namespace braze::capture
