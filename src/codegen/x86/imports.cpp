#include "codegen/x86/imports.h"

#include <cmath>
#include <cstring>
#include <iterator>

#include "codegen/special_functions.h"

namespace braze::codegen {

namespace {

template <typename T, T (*function)(T)>
void lanes(T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = function(x[i]);
}

template <typename T, T (*function)(T, T)>
void lanes2(T* x, const T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = function(x[i], y[i]);
}

template <typename T>
T sigmoid(T x) {
  const T e = std::exp(-std::fabs(x));
  return (x < 0 ? e : T(1)) / (T(1) + e);
}

template <double (*function)(double)>
float through_double(float x) {
  return static_cast<float>(function(x));
}

struct Import {
  std::string_view name;
  const void* address;
};

template <typename R, typename... Args>
const void* address_of(R (*function)(Args...)) {
  return reinterpret_cast<const void*>(function);
}

// clang-format off
#define BRAZE_LIBM1(X)                                                                                             \
  X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan) X(tanh) X(erf) X(asin) X(acos)     \
  X(atan) X(sinh) X(cosh) X(asinh) X(acosh) X(atanh) X(erfc)
#define BRAZE_LIBM2(X) X(pow) X(atan2) X(fmod) X(hypot) X(nextafter)
// clang-format on

const Import kImports[] = {
    {"memcpy", address_of(&std::memcpy)},
    {"memmove", address_of(&std::memmove)},
    {"memset", address_of(&std::memset)},
    {"memcmp", address_of(&std::memcmp)},
#define X(name)                                                  \
  {#name, address_of(static_cast<double (*)(double)>(&::name))}, \
      {#name "f", address_of(static_cast<float (*)(float)>(&::name##f))},
    BRAZE_LIBM1(X)
#undef X
#define X(name)                                                          \
  {#name, address_of(static_cast<double (*)(double, double)>(&::name))}, \
      {#name "f", address_of(static_cast<float (*)(float, float)>(&::name##f))},
        BRAZE_LIBM2(X)
#undef X
#define X(name)                                                      \
  {"braze.lanes." #name ".f64", address_of(&lanes<double, ::name>)}, \
      {"braze.lanes." #name ".f32", address_of(&lanes<float, ::name##f>)},
            BRAZE_LIBM1(X)
#undef X
#define X(name)                                                       \
  {"braze.lanes." #name ".f64", address_of(&lanes2<double, ::name>)}, \
      {"braze.lanes." #name ".f32", address_of(&lanes2<float, ::name##f>)},
                BRAZE_LIBM2(X)
#undef X
                    {"braze.lanes.sigmoid.f64", address_of(&lanes<double, sigmoid<double>>)},
    {"braze.lanes.sigmoid.f32", address_of(&lanes<float, sigmoid<float>>)},
    {"braze.lanes.lgamma.f64", address_of(&lanes<double, log_gamma>)},
    {"braze.lanes.lgamma.f32", address_of(&lanes<float, through_double<log_gamma>>)},
    {"braze.lanes.digamma.f64", address_of(&lanes<double, digamma>)},
    {"braze.lanes.digamma.f32", address_of(&lanes<float, through_double<digamma>>)},
    {"braze.lanes.erfinv.f64", address_of(&lanes<double, erfinv>)},
    {"braze.lanes.erfinv.f32", address_of(&lanes<float, through_double<erfinv>>)},
};

}  // namespace

uint32_t import_count() {
  return static_cast<uint32_t>(std::size(kImports));
}

const void* import_address(uint32_t number) {
  return kImports[number].address;
}

std::optional<uint32_t> find_import(std::string_view name) {
  for (uint32_t i = 0; i < import_count(); ++i)
    if (kImports[i].name == name) return i;
  return std::nullopt;
}

}  // namespace braze::codegen
