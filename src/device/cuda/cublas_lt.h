// device/cuda/cublas_lt.h: products of matrices by cuBLASLt, with a choice of its algorithms. Which one is fastest
// for given sizes only measuring tells: the library proposes some by a model.
//
// The library is NVIDIA's, which PyTorch brings along; it is opened when it is first asked for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/driver.h"
#include "ir/dtype.h"

namespace braze::device::cuda {

/// out[m,n] = a[m,k] x b[k,n], one or several of them side by side; all of one type. Strides are in elements.
struct ProductShape {
  struct Side {
    bool is_transposed = false;  ///< Its columns lie together, not its rows.
    int64_t leading = 0;         ///< From one row to the next; of a transposed one, from one column to the next.
    int64_t batch_stride = 0;
    bool operator==(const Side&) const = default;
  };
  int64_t batch = 1, m = 0, n = 0, k = 0;
  Side a, b, out;  ///< `out` lies in rows.
  ir::DType dtype = ir::DType::f32;
  bool tf32 = false;      ///< Of f32: multiply with the mantissas of TF32.
  bool adds_row = false;  ///< A row of n numbers is added to each row.
};

/// One of the library's ways to compute a product. Plain bytes; they mean the same to one version of the library.
struct ProductAlgorithm {
  std::array<uint64_t, 8> bytes{};
  uint64_t workspace = 0;  ///< Bytes of memory that it needs besides.
};

/// A product that the library has been told about. Immutable; run() from several threads at once.
class LtProduct {
 public:
  /// Addresses that are multiples of this are wanted for all operands.
  static constexpr uint64_t alignment = 16;

  /// Null where there is no library, or it knows no such product.
  static std::unique_ptr<LtProduct> of(const ProductShape& shape);
  ~LtProduct();
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  /// What the library proposes, best first. Sums are never kept in a narrow type on the way.
  std::vector<ProductAlgorithm> proposals(size_t most, uint64_t most_workspace) const;
  /// An algorithm that was proposed for another product can compute this one, too.
  bool takes(const ProductAlgorithm& algorithm) const;

  struct Operands {
    Address a, b, row, out;  ///< `row` where one is added.
    Address workspace;
  };
  /// Puts it on the stream. \pre the device's context is current. Throws InternalError where the library refuses.
  void run(const ProductAlgorithm& algorithm, const Operands& operands, Stream stream) const;

 private:
  struct Description;
  explicit LtProduct(std::unique_ptr<Description> description);
  std::unique_ptr<Description> description_;
};

/// "cuBLASLt 13.0.0"; empty where there is none. Algorithms are of one version.
std::string cublas_lt_name();

}  // namespace braze::device::cuda
