// braze::compile: signatures, and what has to run eagerly.
#include <ATen/autocast_mode.h>

#include <thread>

#include "api_cases.h"
#include "braze/compile.h"

namespace {

struct Scores {
  at::Tensor mean, spread;
  int64_t count;
};

}  // namespace

template <>
struct braze::Fields<Scores> {
  static constexpr auto members = std::make_tuple(&Scores::mean, &Scores::spread, &Scores::count);
};

TEST_CASE("the first call captures, later ones run its program") {
  int runs = 0;
  auto f = braze::compile([&runs](at::Tensor x, at::Tensor y) {
    ++runs;
    return torch::softmax(x + y, -1);
  });
  for (int i = 0; i < 3; ++i) {
    const auto x = torch::randn({4, 5}), y = torch::randn({5});
    CHECK(same(f(x, y), torch::softmax(x + y, -1)));
  }
  CHECK(runs == 1);
  CHECK(f.statistics().captures == 1);
  CHECK(f.statistics().compiled_calls == 3);
  CHECK(f.statistics().eager_calls == 0);
  REQUIRE(f.programs().size() == 1);
  CHECK(f.programs()[0].kernels().size() == 1);
}

TEST_CASE("every part of a tensor's signature makes a program of its own") {
  const auto square = [](const at::Tensor& x) { return x * x; };
  const auto base = torch::randn({4, 6});
  const std::vector<std::pair<std::string, at::Tensor>> others = {
      {"dtype", base.to(torch::kDouble)},    {"sizes", torch::randn({4, 7})},       {"rank", torch::randn({24})},
      {"strides", torch::randn({6, 4}).t()}, {"no elements", torch::randn({0, 6})},
  };
  for (const auto& [what, other] : others) {
    CAPTURE(what);
    auto f = braze::compile(square);
    CHECK(same(f(base), base * base));
    CHECK(same(f(other), other * other));
    CHECK(same(f(base), base * base));
    CHECK(f.statistics().captures == 2);
    CHECK(f.statistics().compiled_calls == 3);
  }
}

TEST_CASE("other arguments are part of the signature by value") {
  auto f = braze::compile([](at::Tensor x, int64_t n, double s, bool flip, std::optional<double> add,
                             std::string mode, std::vector<int64_t> dims) {
    auto y = x * s + n;
    if (flip) y = -y;
    if (add) y = y + *add;
    return mode == "sum" ? y.sum(dims) : y.amax(dims);
  });
  const auto x = torch::randn({3, 4});
  CHECK(same(f(x, 1, 0.5, false, {}, "sum", {0}), (x * 0.5 + 1).sum(0)));
  CHECK(same(f(x, 2, 0.5, false, {}, "sum", {0}), (x * 0.5 + 2).sum(0)));
  CHECK(same(f(x, 2, 0.25, false, {}, "sum", {0}), (x * 0.25 + 2).sum(0)));
  CHECK(same(f(x, 2, 0.25, true, {}, "sum", {0}), (-(x * 0.25 + 2)).sum(0)));
  CHECK(same(f(x, 2, 0.25, true, 3.0, "sum", {0}), (-(x * 0.25 + 2) + 3).sum(0)));
  CHECK(same(f(x, 2, 0.25, true, 0.0, "max", {0}), (-(x * 0.25 + 2)).amax(0)));
  CHECK(same(f(x, 2, 0.25, true, 0.0, "max", {1}), (-(x * 0.25 + 2)).amax(1)));
  CHECK(f.statistics().captures == 7);
  CHECK(same(f(x, 1, 0.5, false, {}, "sum", {0}), (x * 0.5 + 1).sum(0)));
  CHECK(f.statistics().captures == 7);
}

TEST_CASE("zero and minus zero are two values") {
  auto f = braze::compile([](at::Tensor x, double zero) { return torch::full_like(x, zero); });
  const auto x = torch::ones({3});
  CHECK_FALSE(std::signbit(f(x, 0.0)[0].item<float>()));
  CHECK(std::signbit(f(x, -0.0)[0].item<float>()));
}

TEST_CASE("tensors in containers, and undefined ones") {
  auto f = braze::compile([](std::vector<at::Tensor> parts, std::optional<at::Tensor> bias, at::TensorList more) {
    auto y = torch::cat(parts);
    if (bias) y = y + *bias;
    for (const auto& tensor : more)
      if (tensor.defined()) y = y * tensor;
    return std::make_tuple(y, std::vector<at::Tensor>{y.sum(), at::Tensor(), y}, int64_t{7});
  });
  const auto a = torch::randn({2}), b = torch::randn({3}), c = torch::randn({5});
  for (int i = 0; i < 2; ++i) {
    auto [y, list, number] = f({a, b}, c, {at::Tensor(), c});
    CHECK(same(y, (torch::cat({a, b}) + c) * c));
    REQUIRE(list.size() == 3);
    CHECK(same(list[0], y.sum()));
    CHECK_FALSE(list[1].defined());
    CHECK(list[2].is_same(y));
    CHECK(number == 7);
    CHECK(same(std::get<0>(f({a, b}, {}, {})), torch::cat({a, b})));
    CHECK(same(std::get<0>(f({a}, at::Tensor(a), {})), a + a));
  }
  CHECK(f.statistics().compiled_calls == 6);
}

TEST_CASE("structs that say what their members are") {
  auto f = braze::compile([](Scores s) { return Scores{s.mean * 2, s.spread + s.count, s.count + 1}; });
  const auto a = torch::randn({3}), b = torch::randn({3});
  for (int i = 0; i < 2; ++i) {
    const Scores scores = f({a, b, 4});
    CHECK(same(scores.mean, a * 2));
    CHECK(same(scores.spread, b + 4));
    CHECK(scores.count == 5);
  }
  CHECK(f.statistics().compiled_calls == 2);
}

TEST_CASE("the types of a generic lambda are named") {
  auto f = braze::compile<at::Tensor(at::Tensor, double)>([](auto x, auto s) { return x * s; });
  const auto x = torch::randn({3});
  CHECK(same(f(x, 2.0), x * 2));
}

TEST_CASE("an object that cannot be copied") {
  auto f = braze::compile([owned = std::make_unique<double>(3)](at::Tensor x) { return x * *owned; });
  const auto x = torch::randn({3});
  CHECK(same(f(x), x * 3));
}

TEST_CASE("which arguments are one tensor, or share memory, is part of the signature") {
  auto f = braze::compile([](at::Tensor x, at::Tensor y) {
    x.add_(1);
    return y * 2;
  });
  const auto check = [&](at::Tensor x, at::Tensor y, at::Tensor expected_y) {
    CHECK(same(f(x, y), expected_y * 2));
  };
  auto a = torch::randn({4}), b = torch::randn({4});
  check(a, b, b.clone());
  check(a, a, a + 1);
  auto whole = torch::randn({6});
  check(whole.slice(0, 0, 4), whole.slice(0, 2, 6), torch::cat({whole.slice(0, 2, 4) + 1, whole.slice(0, 4, 6)}));
  check(whole.slice(0, 0, 4), whole.slice(0, 1, 5), torch::cat({whole.slice(0, 1, 4) + 1, whole.slice(0, 4, 5)}));
  CHECK(f.statistics().captures == 4);
}

TEST_CASE("arguments changed in place are seen by the caller, and results alias as eager's do") {
  auto f = braze::compile([](at::Tensor x) {
    x.mul_(2);
    return std::make_pair(x.slice(0, 1, 3), x);
  });
  for (int i = 0; i < 2; ++i) {
    auto x = torch::arange(4.0);
    const auto [view, itself] = f(x);
    CHECK(same(x, torch::arange(4.0) * 2));
    CHECK(itself.is_same(x));
    CHECK(view.is_alias_of(x));
    view.zero_();
    CHECK(x[1].item<float>() == 0);
  }
}

TEST_CASE("a function without a result") {
  auto f = braze::compile([](at::Tensor x) { x.relu_(); });
  for (int i = 0; i < 2; ++i) {
    auto x = torch::randn({8});
    const auto expected = x.relu();
    f(x);
    CHECK(same(x, expected));
  }
  CHECK(f.statistics().compiled_calls == 2);
}

TEST_CASE("the environment is part of the signature") {
  auto f = braze::compile([](at::Tensor x) { return x + torch::ones({3}); });
  const auto x = torch::randn({3});
  CHECK((f(x).scalar_type() == torch::kFloat));
  {
    const c10::ScalarType before = c10::get_default_dtype_as_scalartype();
    c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
    CHECK((f(x).scalar_type() == torch::kDouble));
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(before));
  }
  {
    c10::InferenceMode inference;
    CHECK(f(x).is_inference());
  }
  CHECK_FALSE(f(x).is_inference());
  auto product = braze::compile([](at::Tensor a, at::Tensor b) { return a.mm(b); });
  const auto a = torch::randn({4, 4});
  CHECK((product(a, a).scalar_type() == torch::kFloat));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  CHECK((product(a, a).scalar_type() == torch::kBFloat16));
  at::autocast::set_autocast_enabled(at::kCPU, false);
  CHECK((product(a, a).scalar_type() == torch::kFloat));
}

TEST_CASE("more signatures than the limit run eagerly; the ones used last are kept") {
  auto f = braze::compile([](at::Tensor x) { return x + 1; }, {.limit = 2});
  for (int64_t n = 1; n <= 4; ++n) CHECK(same(f(torch::zeros({n})), torch::ones({n})));
  CHECK(f.statistics().captures == 2);
  CHECK(f.statistics().over_limit == 2);
  CHECK(f.statistics().eager_calls == 2);
  f(torch::zeros({1}));
  CHECK(f.programs()[0].graph().find("f32[1]") != std::string::npos);
  f.reset();
  CHECK(f.programs().empty());
  CHECK(same(f(torch::zeros({4})), torch::ones({4})));
  CHECK(f.statistics().captures == 3);
}

TEST_CASE("a function that reads a value runs eagerly, never stale") {
  int runs = 0;
  auto f = braze::compile([&](at::Tensor x) {
    ++runs;
    return x.sum().item<float>() > 0 ? x * 2 : x - 1;
  });
  const auto x = torch::ones({4});
  CHECK(same(f(x), x * 2));
  CHECK(same(f(-x), -x - 1));
  CHECK(same(f(x), x * 2));
  CHECK(runs == 4);  // The capture ended at item().
  CHECK(f.statistics().value_read == 3);
  CHECK(f.statistics().compiled_calls == 0);
}

TEST_CASE("a function that hides that it reads a value runs eagerly as well") {
  auto f = braze::compile([](at::Tensor x) {
    float sum = -1;
    try {
      sum = x.sum().item<float>();
    } catch (const std::exception&) {
    }
    return x + sum;
  });
  const auto x = torch::ones({4});
  CHECK(same(f(x), x + 4));
  CHECK(same(f(x * 2), x * 2 + 8));
  CHECK(f.statistics().value_read == 2);
}

TEST_CASE("sizes that the values decide, and pointers to them") {
  auto nonzero = braze::compile([](at::Tensor x) { return x.nonzero(); });
  CHECK(nonzero(torch::ones({3})).size(0) == 3);
  CHECK(nonzero(torch::zeros({3})).size(0) == 0);
  auto pointer = braze::compile([](at::Tensor x) { return x + x.data_ptr<float>()[0]; });
  CHECK(same(pointer(torch::ones({3})), torch::ones({3}) * 2));
  CHECK(same(pointer(torch::ones({3}) * 2), torch::ones({3}) * 4));
  CHECK(pointer.statistics().compiled_calls == 0);
}

TEST_CASE("a value that no argument decides is a constant") {
  auto f = braze::compile([](at::Tensor x) { return x * torch::full({}, 3.0).item<double>(); });
  CHECK(same(f(torch::ones({3})), torch::ones({3}) * 3));
  CHECK(f.statistics().compiled_calls == 1);
}

TEST_CASE("gradients are eager's") {
  auto f = braze::compile([](at::Tensor x) { return (x * x).sum(); });
  auto x = torch::randn({4}, torch::requires_grad());
  f(x).backward();
  CHECK(same(x.grad(), x.detach() * 2));
  CHECK(f.statistics().gradients == 1);
  {
    torch::NoGradGuard no_grad;
    CHECK(same(f(x), (x * x).sum()));
    CHECK(f.statistics().compiled_calls == 1);
  }
  CHECK(f(x).requires_grad());
  CHECK_FALSE(f(x.detach()).requires_grad());
  CHECK(f.statistics().compiled_calls == 2);
}

TEST_CASE("gradients within the function need none outside") {
  auto f = braze::compile([](at::Tensor x) {
    x = x.detach().requires_grad_();
    return torch::autograd::grad({(x * x * x).sum()}, {x})[0];
  });
  const auto x = torch::randn({4});
  CHECK(same(f(x), 3 * x * x));
  CHECK(same(f(x + 1), 3 * (x + 1) * (x + 1)));
  CHECK(f.statistics().compiled_calls == 2);
}

TEST_CASE("an in-place change that autograd must know of runs eagerly") {
  auto w = torch::randn({4}, torch::requires_grad());
  auto f = braze::compile([w](at::Tensor x) { x.add_(w); });
  for (int i = 0; i < 2; ++i) {
    auto x = torch::zeros({4});
    f(x);
    CHECK(x.requires_grad());
  }
  CHECK(f.statistics().gradients == 2);
}

TEST_CASE("random numbers are eager's, and capturing draws none") {
  const auto noise = [](at::Tensor x) { return torch::dropout(x, 0.5, true) + torch::randn_like(x); };
  auto f = braze::compile(noise);
  const auto x = torch::ones({64});
  torch::manual_seed(3);
  const auto first = noise(x), second = noise(x);
  torch::manual_seed(3);
  CHECK(same(f(x), first));
  CHECK(same(f(x), second));
  CHECK(f.statistics().compiled_calls == 2);
}

TEST_CASE("exceptions pass, and leave the thread as it was") {
  auto f = braze::compile([](at::Tensor x) {
    torch::NoGradGuard no_grad;
    if (x.size(0) == 3) throw std::out_of_range("three");
    return x.mm(x);
  });
  CHECK_THROWS_AS(f(torch::ones({3})), std::out_of_range);
  CHECK_THROWS_AS(f(torch::ones({2, 3})), c10::Error);
  CHECK(torch::GradMode::is_enabled());
  const auto x = torch::ones({2, 2});
  CHECK(same(x + 1, torch::full({2, 2}, 2.0)));
  CHECK(same(f(x), x * 2));
  CHECK(f.statistics().compiled_calls == 1);
}

TEST_CASE("an index out of range raises what eager raises") {
  auto f = braze::compile([](at::Tensor x, at::Tensor i) { return x.index_select(0, i); });
  const auto x = torch::arange(4.0);
  CHECK(same(f(x, torch::tensor({1, 3})), torch::tensor({1.0, 3.0}).to(torch::kFloat)));
  CHECK_THROWS_AS(f(x, torch::tensor({1, 4})), c10::Error);
  CHECK(same(f(x, torch::tensor({2, 0})), torch::tensor({2.0, 0.0}).to(torch::kFloat)));
}

TEST_CASE("a function that keeps a tensor somewhere runs eagerly") {
  at::Tensor state = torch::zeros({3});
  auto f = braze::compile([&state](at::Tensor x) {
    state = state + x;
    return state * 2;
  });
  const auto x = torch::ones({3});
  for (int i = 1; i <= 3; ++i) {
    CHECK(same(f(x), torch::full({3}, 2.0 * i)));
    CHECK(same(state, torch::full({3}, 1.0 * i)));
  }
  CHECK(f.statistics().unsupported == 3);
}

TEST_CASE("what a function keeps is real, and shares memory as in eager mode") {
  std::vector<at::Tensor> kept;
  auto f = braze::compile([&kept](at::Tensor x) {
    kept.push_back(x + 1);
    kept.push_back(kept[0].slice(0, 1, 3));
    kept.push_back(x);
    return kept[0];
  });
  auto x = torch::zeros({4});
  const auto y = f(x);
  REQUIRE(kept.size() == 3);
  CHECK(same(y, torch::ones({4})));
  y.fill_(5);
  CHECK(same(kept[1], torch::full({2}, 5.0)));
  x.fill_(6);
  CHECK(same(kept[2].clone(), torch::full({4}, 6.0)));
  CHECK(same(kept[0].detach() * 2, torch::full({4}, 10.0)));
  kept.clear();
  CHECK(same(f(x), torch::full({4}, 7.0)));
}

TEST_CASE("a function that keeps a tensor and reads a value says so") {
  at::Tensor state = torch::zeros({3});
  auto f = braze::compile([&state](at::Tensor x) {
    state = state + x;
    return state.sum().item<float>();
  });
  CHECK_THROWS_AS(f(torch::ones({3})), braze::Error);
}

TEST_CASE("tensors that the function closes over are bound") {
  auto w = torch::ones({3});
  auto f = braze::compile([&w](at::Tensor x) { return x + w; });
  const auto x = torch::zeros({3});
  CHECK(same(f(x), torch::ones({3})));
  w.fill_(2);
  CHECK(same(f(x), torch::full({3}, 2.0)));
  CHECK(f.statistics().captures == 1);
  w = torch::full({3}, 5.0);  // another tensor in the same variable
  CHECK(same(f(x), torch::full({3}, 5.0)));
  w.set_data(torch::full({3}, 7.0, torch::kDouble));
  CHECK(same(f(x), torch::full({3}, 7.0, torch::kDouble)));
  CHECK(f.statistics().captures == 3);
}

TEST_CASE("a bound tensor that loses an owner is looked at once more, not compiled once more") {
  auto w = torch::ones({3});
  auto other = std::make_unique<at::Tensor>(w);
  auto f = braze::compile([&w](at::Tensor x) { return x + w; });
  const auto x = torch::zeros({3});
  CHECK(same(f(x), torch::ones({3})));
  other.reset();
  CHECK(same(f(x), torch::ones({3})));
  CHECK(same(f(x), torch::ones({3})));
  CHECK(f.statistics().captures == 1);
}

TEST_CASE("an argument in the memory of a bound tensor") {
  auto w = torch::ones({4});
  auto f = braze::compile([&w](at::Tensor x) {
    w.add_(1);
    return x * 10;
  });
  CHECK(same(f(torch::ones({4})), torch::full({4}, 10.0)));
  CHECK(same(w, torch::full({4}, 2.0)));
  CHECK(same(f(w), torch::full({4}, 30.0)));
  CHECK(same(f(torch::ones({4})), torch::full({4}, 10.0)));
  CHECK(same(w, torch::full({4}, 4.0)));
}

TEST_CASE("a compiled function within another becomes a part of it") {
  auto inner = braze::compile([](at::Tensor x) { return x.relu(); });
  auto outer = braze::compile([&inner](at::Tensor x) { return inner(x) + 1; });
  const auto x = torch::randn({5});
  CHECK(same(outer(x), x.relu() + 1));
  CHECK(inner.statistics().captures == 0);
  CHECK(outer.programs()[0].kernels().size() == 1);
}

TEST_CASE("tensors that are not ordinary ones run eagerly") {
  auto f = braze::compile([](at::Tensor x) { return x + x; });
  const auto sparse = torch::eye(3).to_sparse();
  CHECK(f(sparse).to_dense().equal(torch::eye(3) * 2));
  const auto conjugate = torch::randn({3}, torch::kComplexFloat).conj();
  CHECK(same(f(conjugate).resolve_conj(), (conjugate + conjugate).resolve_conj()));
  CHECK(f(torch::ones({3}, torch::kMeta)).is_meta());
  CHECK(f.statistics().unsupported == 3);
}

TEST_CASE("several threads may call one function") {
  auto f = braze::compile([](at::Tensor x, int64_t n) { return torch::softmax(x * n, -1); });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const int64_t n = 1 + (t + i) % 3;
        const auto x = torch::full({3, 4 + n}, t + 0.5 * i);
        wrong += !same(f(x, n), torch::softmax(x * n, -1));
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(f.statistics().compiled_calls == 80);
  CHECK(f.programs().size() == 3);
}

TEST_CASE("a copy shares programs") {
  auto f = braze::compile([](at::Tensor x) { return x + 1; });
  auto g = f;
  g(torch::ones({2}));
  CHECK(f.statistics().captures == 1);
}
