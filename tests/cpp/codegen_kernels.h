// codegen_kernels.h: runs a kernel given as text through machine code and through the interpreter, and compares.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "loops/kernel.h"
#include "target/target.h"

namespace braze::codegen::testing {

// Sizes around those of vectors, whole and ragged; numbers that arithmetic treats in a special way.
inline constexpr int64_t kSizes[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 70, 129};
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// `text` with every occurrence of `from` replaced.
inline std::string replace(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// Memory of one buffer, between pages that may not be touched; its last element ends where the page does if the
/// buffer's alignment allows it.
class GuardedBuffer {
 public:
  GuardedBuffer(const loops::Buffer& buffer, int64_t elements);
  GuardedBuffer(GuardedBuffer&&) noexcept;
  ~GuardedBuffer();
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// The bytes around the elements are as they were.
  bool untouched_outside() const;

 private:
  char* mapping_ = nullptr;
  size_t mapped_ = 0;
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

struct Case {
  std::string text;
  std::map<std::string, std::pair<double, double>> ranges = {};  ///< Of random contents, by buffer name.
  std::map<std::string, std::vector<double>> values = {};        ///< First contents, by buffer name, repeated.
  std::vector<uint64_t> scalars = {};
  std::vector<int64_t> symbols = {};
  double tolerance = 2e-6;  ///< Relative to the larger of 1 and the value; for f64 a billionth of it.
  int64_t split = 0;        ///< Parallel phases run in chunks of so many iterations; 0: in one.
};

/// The targets that this machine runs.
std::vector<Target> targets();
/// Runs the case on every target; returns "" or what differs first.
std::string difference(const Case& c);

}  // namespace braze::codegen::testing

#define CHECK_KERNEL(...)                                                            \
  do {                                                                               \
    const ::braze::codegen::testing::Case checked_case __VA_ARGS__;                  \
    const std::string differs = ::braze::codegen::testing::difference(checked_case); \
    CHECK_MESSAGE(differs.empty(), differs, "\n", checked_case.text);                \
  } while (false)
