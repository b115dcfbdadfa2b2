#include "device/cuda/cublas_lt.h"

#include <dlfcn.h>

#include <optional>

#include "support/error.h"
#include "support/library_functions.h"

namespace braze::device::cuda {

namespace {

// NVIDIA, "cuBLAS", chapter "Using the cuBLASLt API" (cublasLt.h, library_types.h): what of it is used.
using Status = int;
using Handle = struct LtContext*;
using Description_t = struct LtMatmulDescription*;
using Layout = struct LtMatrixLayout*;
using Preference = struct LtPreference*;

struct Proposal {  // cublasLtMatmulHeuristicResult_t
  uint64_t algorithm[8];
  size_t workspace;
  Status status;
  float waves;
  int reserved[4];
};

enum : int {
  kReal32 = 0,
  kReal64 = 1,
  kReal16 = 2,
  kBrain16 = 14,

  kCompute32 = 68,
  kCompute64 = 70,
  kComputeTf32 = 77,

  // cublasLtMatmulDescAttributes_t
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  // cublasLtMatrixLayoutAttribute_t
  kBatchCount = 5,
  kBatchStride = 6,
  // cublasLtMatmulPreferenceAttributes_t
  kMostWorkspace = 1,
  kReductionSchemes = 3,
  kAlignmentA = 5,  // and of b, c, d behind it

  kTransposed = 1,     // CUBLAS_OP_T
  kAddBias = 4,        // CUBLASLT_EPILOGUE_BIAS
  kInComputeType = 2,  // CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: parts of a sum in memory of their own, in f32
};

struct Library {
  size_t (*version)() = nullptr;
  Status (*create)(Handle*) = nullptr;
  Status (*description_create)(Description_t*, int compute, int scale) = nullptr;
  Status (*description_set)(Description_t, int attribute, const void*, size_t) = nullptr;
  Status (*description_destroy)(Description_t) = nullptr;
  Status (*layout_create)(Layout*, int type, uint64_t rows, uint64_t columns, int64_t leading) = nullptr;
  Status (*layout_set)(Layout, int attribute, const void*, size_t) = nullptr;
  Status (*layout_destroy)(Layout) = nullptr;
  Status (*preference_create)(Preference*) = nullptr;
  Status (*preference_set)(Preference, int attribute, const void*, size_t) = nullptr;
  Status (*preference_destroy)(Preference) = nullptr;
  Status (*propose)(Handle, Description_t, Layout a, Layout b, Layout c, Layout d, Preference, int wanted,
                    Proposal*, int* given) = nullptr;
  Status (*check)(Handle, Description_t, Layout a, Layout b, Layout c, Layout d, const uint64_t* algorithm,
                  Proposal*) = nullptr;
  Status (*multiply)(Handle, Description_t, const void* alpha, const void* a, Layout, const void* b, Layout,
                     const void* beta, const void* c, Layout, void* d, Layout, const uint64_t* algorithm,
                     void* workspace, size_t workspace_bytes, Stream) = nullptr;
  Handle handle = nullptr;  ///< Holds nothing of a device.

  bool open(void* file) {
    LibraryFunctions functions(file);
    functions.find(version, "cublasLtGetVersion");
    functions.find(create, "cublasLtCreate");
    functions.find(description_create, "cublasLtMatmulDescCreate");
    functions.find(description_set, "cublasLtMatmulDescSetAttribute");
    functions.find(description_destroy, "cublasLtMatmulDescDestroy");
    functions.find(layout_create, "cublasLtMatrixLayoutCreate");
    functions.find(layout_set, "cublasLtMatrixLayoutSetAttribute");
    functions.find(layout_destroy, "cublasLtMatrixLayoutDestroy");
    functions.find(preference_create, "cublasLtMatmulPreferenceCreate");
    functions.find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    functions.find(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    functions.find(propose, "cublasLtMatmulAlgoGetHeuristic");
    functions.find(check, "cublasLtMatmulAlgoCheck");
    functions.find(multiply, "cublasLtMatmul");
    return !functions.missing() && create(&handle) == 0;
  }
};

/// Null if this process has not loaded it: PyTorch has where it computes on GPUs. Kept open: its work may run until
/// the process ends.
const Library* library() {
  static const Library* const opened = []() -> const Library* {
    static Library found;
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"})
      if (void* file = dlopen(name, RTLD_NOW | RTLD_NOLOAD))
        if (found.open(file)) return &found;
    return nullptr;
  }();
  return opened;
}

std::optional<int> type_of(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::f64: return kReal64;
    case ir::DType::f32: return kReal32;
    case ir::DType::f16: return kReal16;
    case ir::DType::bf16: return kBrain16;
    default: return std::nullopt;
  }
}

/// An object of the library's, which `destroy` ends.
template <typename Object>
class Owned {
 public:
  using Destroy = Status (*)(Object);
  explicit Owned(Destroy destroy) : destroy_(destroy) {}
  ~Owned() {
    if (object_) destroy_(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Object* made() { return &object_; }
  Object get() const { return object_; }

 private:
  const Destroy destroy_;
  Object object_ = nullptr;
};

}  // namespace

// The library's matrices lie in columns: what it computes is the transposed product, b' x a', with our `b` as its
// first operand. A matrix that lies in rows is a transposed one that lies in columns.
struct LtProduct::Description {
  explicit Description(const Library& of, const ProductShape& what)
      : library(of), shape(what), first(of.layout_destroy), second(of.layout_destroy), result(of.layout_destroy) {}

  const Library& library;
  const ProductShape shape;
  Owned<Layout> first, second, result;

  /// Rows and columns are of the matrix as it lies in memory.
  bool set_layout(Owned<Layout>& layout, const ProductShape::Side& side, int64_t rows, int64_t columns) const {
    const int64_t lines = side.is_transposed ? columns : rows, length = side.is_transposed ? rows : columns;
    if (library.layout_create(layout.made(), *type_of(shape.dtype), length, lines, side.leading) != 0) return false;
    if (shape.batch == 1) return true;
    const auto count = static_cast<int32_t>(shape.batch);
    return library.layout_set(layout.get(), kBatchCount, &count, sizeof(count)) == 0 &&
           library.layout_set(layout.get(), kBatchStride, &side.batch_stride, sizeof(side.batch_stride)) == 0;
  }

  bool set_layouts() {
    return set_layout(first, shape.b, shape.k, shape.n) && set_layout(second, shape.a, shape.m, shape.k) &&
           set_layout(result, shape.out, shape.m, shape.n);
  }

  /// Of one call, as the address of the row is a part of it.
  bool describe(Owned<Description_t>& operation, Address row) const {
    const bool is_wide = shape.dtype == ir::DType::f64;
    const int compute = is_wide ? kCompute64 : shape.tf32 ? kComputeTf32 : kCompute32;
    if (library.description_create(operation.made(), compute, is_wide ? kReal64 : kReal32) != 0) return false;
    const auto set = [&](int attribute, auto value) {
      return library.description_set(operation.get(), attribute, &value, sizeof(value)) == 0;
    };
    if (shape.b.is_transposed && !set(kTransposeA, int32_t{kTransposed})) return false;
    if (shape.a.is_transposed && !set(kTransposeB, int32_t{kTransposed})) return false;
    return !shape.adds_row || (set(kEpilogue, int32_t{kAddBias}) && set(kBiasPointer, row));
  }
};

LtProduct::LtProduct(std::unique_ptr<Description> description) : description_(std::move(description)) {}
LtProduct::~LtProduct() = default;

std::unique_ptr<LtProduct> LtProduct::of(const ProductShape& shape) {
  const Library* found = library();
  if (!found || !type_of(shape.dtype)) return nullptr;
  auto description = std::make_unique<Description>(*found, shape);
  if (!description->set_layouts()) return nullptr;
  return std::unique_ptr<LtProduct>(new LtProduct(std::move(description)));
}

std::vector<ProductAlgorithm> LtProduct::proposals(size_t most, uint64_t most_workspace) const {
  const Description& d = *description_;
  Owned<Description_t> operation(d.library.description_destroy);
  Owned<Preference> preference(d.library.preference_destroy);
  if (!d.describe(operation, alignment) || d.library.preference_create(preference.made()) != 0) return {};
  const auto set = [&](int attribute, auto value) {
    return d.library.preference_set(preference.get(), attribute, &value, sizeof(value)) == 0;
  };
  bool is_set = set(kMostWorkspace, most_workspace) && set(kReductionSchemes, uint32_t{kInComputeType});
  for (int operand = 0; operand < 4; ++operand)
    is_set = is_set && set(kAlignmentA + operand, static_cast<uint32_t>(alignment));
  std::vector<Proposal> given(most);
  int count = 0;
  const Layout result = d.result.get();
  if (!is_set || d.library.propose(d.library.handle, operation.get(), d.first.get(), d.second.get(), result, result,
                                   preference.get(), static_cast<int>(most), given.data(), &count) != 0)
    return {};
  std::vector<ProductAlgorithm> algorithms;
  for (int k = 0; k < count; ++k) {
    if (given[k].status != 0) continue;
    ProductAlgorithm& algorithm = algorithms.emplace_back();
    std::copy(std::begin(given[k].algorithm), std::end(given[k].algorithm), algorithm.bytes.begin());
    algorithm.workspace = given[k].workspace;
  }
  return algorithms;
}

bool LtProduct::takes(const ProductAlgorithm& algorithm) const {
  const Description& d = *description_;
  Owned<Description_t> operation(d.library.description_destroy);
  Proposal proposal{};
  const Layout result = d.result.get();
  return d.describe(operation, alignment) &&
         d.library.check(d.library.handle, operation.get(), d.first.get(), d.second.get(), result, result,
                         algorithm.bytes.data(), &proposal) == 0 &&
         proposal.workspace <= algorithm.workspace;
}

void LtProduct::run(const ProductAlgorithm& algorithm, const Operands& operands, Stream stream) const {
  const Description& d = *description_;
  Owned<Description_t> operation(d.library.description_destroy);
  BRAZE_CHECK(d.describe(operation, operands.row), "cuBLASLt took this product before");
  const double wide[] = {1, 0};
  const float narrow[] = {1, 0};
  const bool is_wide = d.shape.dtype == ir::DType::f64;
  const void *one = is_wide ? static_cast<const void*>(&wide[0]) : &narrow[0],
             *zero = is_wide ? static_cast<const void*>(&wide[1]) : &narrow[1];
  const auto pointer = [](Address address) { return reinterpret_cast<void*>(address); };
  const Layout result = d.result.get();
  void* const out = pointer(operands.out);
  const Status status =
      d.library.multiply(d.library.handle, operation.get(), one, pointer(operands.b), d.first.get(),
                         pointer(operands.a), d.second.get(), zero, out, result, out, result,
                         algorithm.bytes.data(), pointer(operands.workspace), algorithm.workspace, stream);
  BRAZE_CHECK(status == 0, "cuBLASLt refused a product that it had proposed: status ", status);
}

std::string cublas_lt_name() {
  const Library* found = library();
  if (!found) return {};
  const size_t version = found->version();
  return concat("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace braze::device::cuda
