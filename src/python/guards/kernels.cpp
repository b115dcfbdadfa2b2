// python/guards/kernels.cpp: which kernels run PyTorch's operators, and those that others have registered.
#include "capture/gate.h"
#include "python/guards/kinds.h"

namespace braze::guards {

namespace {

struct Kernels : Payload {
  explicit Kernels(capture::KernelSnapshot snapshot) : snapshot(std::move(snapshot)) {}
  bool equals(const Payload&) const noexcept override { return false; }
  bool is_dead() const noexcept override { return snapshot.is_dead(); }
  capture::KernelSnapshot snapshot;
};

}  // namespace

void GuardSet::kernels(const capture::KernelSnapshot& snapshot) {
  add({.kind = GuardKind::kernels, .payload = std::make_shared<Kernels>(snapshot)});
}

bool test_kernels(const Expected& expected, PyObject* const*, const Call&) noexcept {
  return static_cast<const Kernels*>(expected.payload)->snapshot.holds();
}
std::string explain_kernels(const Expected&, PyObject* const* values, const Call&, const Texts&) {
  return values ? "operators have the kernels that they had, had others"
                : "operators have the kernels that they had";
}

}  // namespace braze::guards
