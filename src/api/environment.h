// api/environment.h: PyTorch's switches that decide what a function does: part of every signature.
#pragma once

#include <cstdint>

namespace braze::api {

struct Environment {
  uint64_t included = 0, excluded = 0;  ///< The thread's dispatch keys: autocast and inference mode are there too.
  uint32_t modes = 0;                   ///< One bit a switch; see now().
  int8_t default_dtype = 0, autocast_dtype = 0;
  bool operator==(const Environment&) const = default;

  static Environment now();
  /// Nothing stands between the function and PyTorch's ordinary operators: no vmap, no functional or forward-mode
  /// transform, no dispatch mode of Python. Else the function is run by PyTorch alone.
  bool is_plain() const;
  bool records_gradients() const;  ///< Grad mode is on.
};

}  // namespace braze::api
