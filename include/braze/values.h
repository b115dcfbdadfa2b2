// braze/values.h: which values may go into and come out of a compiled function: tensors in the types that follow.
//
//   at::Tensor (defined or not), numbers, enums, bool, at::Scalar, at::Device, std::complex, std::string,
//   std::string_view, and of these, nested as one likes: std::optional, std::vector, at::ArrayRef (arguments only),
//   std::array, std::pair, std::tuple, std::map, and structs that say what their members are:
//
//     struct Scores { at::Tensor mean, spread; int64_t count; };
//     template <>
//     struct braze::Fields<Scores> {
//       static constexpr auto members = std::make_tuple(&Scores::mean, &Scores::spread, &Scores::count);
//     };
//
// Every member belongs into the list: what is not there is not looked at, and results get the value of the first
// call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <complex>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "braze/export.h"

namespace braze {

/// Specialise it for a struct of tensors and values; see above.
template <typename T>
struct Fields;

namespace detail {

template <typename T, template <typename...> class Template>
constexpr bool is_instance = false;
template <template <typename...> class Template, typename... A>
constexpr bool is_instance<Template<A...>, Template> = true;
template <typename T>
constexpr bool is_array = false;
template <typename T, size_t n>
constexpr bool is_array<std::array<T, n>> = true;
template <typename T>
concept HasFields = requires { Fields<T>::members; };
template <typename T>
constexpr bool unknown = false;

/// Calls `visitor.tensor(t)` for every tensor in `value`, in order, and `visitor.constant(pointer, bytes)` for
/// everything else that tells two values apart: lengths, presence, numbers. `T` is const for arguments.
template <typename Visitor, typename T>
void visit(Visitor& visitor, T& value) {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, at::Tensor>) {
    visitor.tensor(value);
  } else if constexpr ((std::is_arithmetic_v<U> || std::is_enum_v<U>) && !std::is_same_v<U, long double>) {
    visitor.constant(&value, sizeof(value));
  } else if constexpr (is_instance<U, std::complex> || is_instance<U, c10::complex>) {
    visitor.constant(&value, sizeof(value));
  } else if constexpr (std::is_same_v<U, std::string> || std::is_same_v<U, std::string_view>) {
    const size_t size = value.size();
    visitor.constant(&size, sizeof(size));
    visitor.constant(value.data(), size);
  } else if constexpr (std::is_same_v<U, at::Device>) {
    const int parts[] = {static_cast<int>(value.type()), value.index()};
    visitor.constant(parts, sizeof(parts));
  } else if constexpr (std::is_same_v<U, at::Scalar>) {
    const c10::ScalarType type = value.type();
    visitor.constant(&type, sizeof(type));
    const auto number = value.isComplex()         ? value.toComplexDouble()
                        : value.isFloatingPoint() ? c10::complex<double>(value.toDouble(), 0.0)
                                                  : c10::complex<double>(0.0, 0.0);
    const int64_t integer = value.isIntegral(/*includeBool=*/true) ? value.toLong() : 0;
    visitor.constant(&number, sizeof(number));
    visitor.constant(&integer, sizeof(integer));
  } else if constexpr (std::is_same_v<U, std::nullopt_t>) {
  } else if constexpr (is_instance<U, std::optional>) {
    const bool present = value.has_value();
    visitor.constant(&present, sizeof(present));
    if (present) visit(visitor, *value);
  } else if constexpr (std::is_same_v<U, std::vector<bool>>) {
    const size_t size = value.size();
    visitor.constant(&size, sizeof(size));
    for (const bool bit : value) visitor.constant(&bit, sizeof(bit));
  } else if constexpr (is_instance<U, std::vector> || is_instance<U, c10::ArrayRef>) {
    const size_t size = value.size();
    visitor.constant(&size, sizeof(size));
    for (auto& element : value) visit(visitor, element);
  } else if constexpr (is_array<U>) {
    for (auto& element : value) visit(visitor, element);
  } else if constexpr (is_instance<U, std::pair> || is_instance<U, std::tuple>) {
    std::apply([&](auto&... part) { (visit(visitor, part), ...); }, value);
  } else if constexpr (is_instance<U, std::map>) {
    const size_t size = value.size();
    visitor.constant(&size, sizeof(size));
    for (auto& [key, element] : value) {
      visit(visitor, key);
      visit(visitor, element);
    }
  } else if constexpr (HasFields<U>) {
    std::apply([&](auto... member) { (visit(visitor, value.*member), ...); }, Fields<U>::members);
  } else {
    static_assert(
        unknown<U>,
        "braze: a compiled function takes or returns a type that braze/values.h does not list. Specialise "
        "braze::Fields for a struct, or keep the value out of the function's parameters.");
  }
}

/// What a call brings: its tensors, in order, and everything else as bytes.
struct Inputs {
  c10::SmallVector<const at::Tensor*, 8> tensors;
  std::string key;

  void tensor(const at::Tensor& tensor) {
    key += tensor.defined() ? '1' : '0';
    if (tensor.defined()) tensors.push_back(&tensor);
  }
  void constant(const void* bytes, size_t size) { key.append(static_cast<const char*>(bytes), size); }
};

/// What a call gives: the tensors of the result, and the result itself with placeholders in their places.
struct Outputs {
  c10::SmallVector<at::Tensor, 4> tensors;
  std::shared_ptr<const void> rest;
};

/// Puts `tensors` into the places of the defined tensors of a value, in order.
struct Replace {
  std::span<const at::Tensor> tensors;
  size_t next = 0;
  void tensor(at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensors[next++];
  }
  void constant(const void*, size_t) {}
};

/// Stands for the tensors that were taken out of a result.
BRAZE_API const at::Tensor& placeholder();

/// Takes the defined tensors out of a value, and leaves the placeholder.
struct TakeOut {
  c10::SmallVector<at::Tensor, 4> tensors;
  void tensor(at::Tensor& tensor) {
    if (tensor.defined()) tensors.push_back(std::exchange(tensor, placeholder()));
  }
  void constant(const void*, size_t) {}
};

/// The result around the tensors of `outputs`.
template <typename R>
R rebuild(Outputs&& outputs) {
  if constexpr (std::is_same_v<R, at::Tensor>) {
    return outputs.tensors.empty() ? at::Tensor() : std::move(outputs.tensors[0]);
  } else {
    R result(*static_cast<const R*>(outputs.rest.get()));
    Replace replace{{outputs.tensors.data(), outputs.tensors.size()}};
    visit(replace, result);
    return result;
  }
}

/// The type of a copy of an argument: views of others' memory become owners.
template <typename A>
struct OwnedAs {
  using type = A;
};
template <typename T>
struct OwnedAs<c10::ArrayRef<T>> {
  using type = std::vector<T>;
};
template <>
struct OwnedAs<std::string_view> {
  using type = std::string;
};
template <typename A>
using Owned = typename OwnedAs<std::remove_cvref_t<A>>::type;

template <typename A>
Owned<A> own(const std::remove_cvref_t<A>& argument) {
  if constexpr (is_instance<std::remove_cvref_t<A>, c10::ArrayRef>)
    return argument.vec();
  else
    return Owned<A>(argument);
}

}  // namespace detail
}  // namespace braze
