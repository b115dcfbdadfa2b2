// runtime/device/cpu/device.h: the host.
#pragma once

#include "runtime/device/cpu/output_pool.h"
#include "runtime/device/device.h"

namespace braze::runtime {

class CpuDevice final : public Device {
 public:
  std::unique_ptr<Region> make_region() override;
  void expect_result(const Geometry& geometry) override;
  at::Tensor allocate_result(const Geometry& geometry, bool zeroed) const override;
  at::Tensor allocate_temporaries(int64_t bytes) const override;
  bool keeps_temporaries() const override { return true; }
  bool reports_late() const override { return false; }
  int64_t take_status() const override { return 0; }

 private:
  std::unique_ptr<OutputPool> pool_;  ///< Null if no result is large.
};

}  // namespace braze::runtime
