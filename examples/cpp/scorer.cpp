// A C++ function and a libtorch module, compiled by braze and compared with eager PyTorch.
#include <braze/braze.h>
#include <torch/torch.h>

#include <chrono>
#include <iostream>

namespace {

/// The entropy of every token's softmax.
at::Tensor entropy(at::Tensor features, double epsilon) {
  const auto p = torch::softmax(features, -1);
  return -(p * torch::log(p + epsilon)).sum(-1);
}

template <typename Call>
double best_ms(Call&& call) {
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    best =
        std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

int main() {
  torch::NoGradGuard no_grad;
  bool right = true;

  auto fast = braze::compile(entropy, {.name = "entropy"});
  const auto features = torch::randn({32, 196, 768});
  right &= torch::allclose(fast(features, 1e-9), entropy(features, 1e-9), 1e-4, 1e-5);
  std::cout << fast.programs().front().graph();
  for (const braze::Kernel& kernel : fast.programs().front().kernels())
    std::cout << kernel.name << ": " << kernel.fused.size() << " nodes, reads " << kernel.bytes_read
              << " bytes, writes " << kernel.bytes_written << "\n";
  std::cout << "entropy: eager " << best_ms([&] { entropy(features, 1e-9); }) << " ms, braze "
            << best_ms([&] { fast(features, 1e-9); }) << " ms\n";

  torch::nn::Sequential model(torch::nn::Linear(512, 2048), torch::nn::GELU(), torch::nn::Linear(2048, 512));
  model->eval();
  auto mlp = braze::compile(model, {.name = "mlp"});
  const auto x = torch::randn({64, 512});
  right &= torch::allclose(mlp(x), model->forward(x), 1e-4, 1e-5);
  model->parameters()[0].mul_(0.5);  // Parameters are bound, not copied.
  right &= torch::allclose(mlp(x), model->forward(x), 1e-4, 1e-5);

  const braze::Statistics statistics = mlp.statistics();
  std::cout << "mlp: " << statistics.captures << " capture, " << statistics.compiled_calls << " compiled calls, "
            << statistics.eager_calls << " eager ones\n";
  std::cout << (right ? "the results are eager's\n" : "WRONG RESULTS\n");
  return right ? 0 : 1;
}
