// braze::compile for libtorch's modules.
#include <torch/nn.h>
#include <torch/optim/sgd.h>

#include "api_cases.h"
#include "braze/module.h"

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", torch::nn::Linear(6, 8))),
        second(register_module("second", torch::nn::Linear(8, 3))) {
    scale = register_parameter("scale", torch::ones({3}));
    count = register_buffer("count", torch::zeros({1}));
  }
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, double slope) {
    const auto hidden = torch::leaky_relu(first(x), slope);
    return {second(hidden) * scale, hidden + count};
  }
  torch::nn::Linear first, second;
  at::Tensor scale, count;
};
TORCH_MODULE(Net);

}  // namespace

TEST_CASE("a module's forward") {
  Net net;
  auto f = braze::compile(net);
  torch::NoGradGuard no_grad;
  for (int i = 0; i < 2; ++i) {
    const auto x = torch::randn({4, 6});
    const auto [y, hidden] = f(x, 0.1);
    const auto [expected_y, expected_hidden] = net->forward(x, 0.1);
    CHECK(same(y, expected_y));
    CHECK(same(hidden, expected_hidden));
  }
  CHECK(f.statistics().compiled_calls == 2);
  CHECK(f.programs()[0].graph().find("first.weight") != std::string::npos);
}

TEST_CASE("later changes of parameters are seen") {
  Net net;
  auto f = braze::compile(net.ptr());
  torch::NoGradGuard no_grad;
  auto x = torch::randn({4, 6});
  const auto agrees = [&] {
    const auto [y, hidden] = f(x, 0.1);
    const auto [expected_y, expected_hidden] = net->forward(x, 0.1);
    return same(y, expected_y) && same(hidden, expected_hidden);
  };
  CHECK(agrees());
  net->count.add_(1);
  net->scale.mul_(3);
  CHECK(agrees());
  CHECK(f.statistics().captures == 1);

  SUBCASE("by an optimizer") {
    net->parameters();
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    {
      torch::AutoGradMode grad(true);
      std::get<0>(f(x, 0.1)).sum().backward();
    }
    CHECK(f.statistics().gradients == 1);
    optimizer.step();
    const int64_t captures = f.statistics().captures;
    CHECK(agrees());
    CHECK(f.statistics().captures == captures);
  }
  SUBCASE("cast to another dtype") {
    net->to(torch::kDouble);
    x = x.to(torch::kDouble);
    CHECK(agrees());
  }
  SUBCASE("a cast of one parameter") {
    net->scale.set_data(net->scale.to(torch::kDouble));
    CHECK(agrees());
    CHECK((std::get<0>(f(x, 0.1)).scalar_type() == torch::kDouble));
  }
  SUBCASE("another tensor in its place") {
    net->first->weight = torch::randn({8, 6});
    CHECK(agrees());
    net->scale = torch::randn({3});
    CHECK(agrees());
  }
  SUBCASE("two that come to share memory") {
    net->first->bias.set_data(net->count.expand({8}));
    CHECK(agrees());
    net->count.fill_(5);
    CHECK(agrees());
  }
  SUBCASE("another submodule") {
    net->second = net->replace_module("second", torch::nn::Linear(8, 3));
    CHECK(agrees());
  }
}

TEST_CASE("parameters that require grad run eagerly in grad mode, until they are frozen") {
  torch::nn::Linear linear(3, 2);
  auto f = braze::compile(linear);
  const auto x = torch::randn({4, 3});
  CHECK(f(x).requires_grad());
  CHECK(f(x).requires_grad());
  CHECK(f.statistics().gradients == 2);
  for (auto& parameter : linear->parameters()) parameter.requires_grad_(false);
  CHECK_FALSE(f(x).requires_grad());
  CHECK(f.statistics().compiled_calls == 1);
  linear->weight.requires_grad_(true);
  CHECK(f(x).requires_grad());
}

TEST_CASE("Sequential, train and eval, running statistics") {
  torch::nn::Sequential model(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::Dropout(0.5));
  torch::nn::Sequential twin(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::Dropout(0.5));
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < model->parameters().size(); ++i) twin->parameters()[i].copy_(model->parameters()[i]);
  auto f = braze::compile(model);
  const auto x = torch::randn({5, 6});
  for (const bool training : {true, false, true, false}) {
    model->train(training);
    twin->train(training);
    torch::manual_seed(1);
    const auto expected = twin->forward(x);
    torch::manual_seed(1);
    CHECK(same(f(x), expected));
    for (size_t i = 0; i < model->buffers().size(); ++i) CHECK(same(model->buffers()[i], twin->buffers()[i]));
  }
  CHECK(f.statistics().captures == 2);
  CHECK(f.statistics().compiled_calls == 4);
}

TEST_CASE("a convolutional net") {
  torch::nn::Sequential model(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3).padding(1)), torch::nn::ReLU(),
                              torch::nn::MaxPool2d(2), torch::nn::Flatten(), torch::nn::Linear(64, 5));
  model->eval();
  torch::NoGradGuard no_grad;
  auto f = braze::compile(model);
  for (int i = 0; i < 2; ++i) {
    const auto x = torch::randn({2, 3, 8, 8});
    CHECK(same(f(x), model->forward(x)));
  }
  CHECK(f.statistics().compiled_calls == 2);
}

TEST_CASE("a function over modules watches those that it is told of") {
  torch::nn::Linear linear(3, 3);
  torch::nn::Dropout dropout(0.5);
  auto f =
      braze::compile_with({linear.ptr(), dropout.ptr()}, [=](at::Tensor x) mutable { return dropout(linear(x)); });
  torch::NoGradGuard no_grad;
  const auto x = torch::randn({2, 3});
  dropout->eval();
  CHECK(same(f(x), linear(x)));
  dropout->train();
  torch::manual_seed(1);
  const auto expected = dropout(linear(x));
  torch::manual_seed(1);
  CHECK(same(f(x), expected));
}

TEST_CASE("a traced module") {
  Net net;
  torch::NoGradGuard no_grad;
  const auto x = torch::randn({4, 6});
  const auto program = braze::trace(net, {}, x, 0.2);
  net->scale.fill_(4);
  CHECK(same(std::get<0>(program(x, 0.2)), std::get<0>(net->forward(x, 0.2))));
}
