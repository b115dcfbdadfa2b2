"""Further libraries for bench/zoo.py: attention, flows, Gaussian processes, metrics, segmentation.

A row of MODULES is where the class is, its settings, and the sizes of its inputs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zoo_cases import CASES, Made, case, drawn, image, tokens, without_compiled_torchvision

IDS = tokens(64, 16)
MODULES: list[tuple[str, dict[str, Any], Any]] = [
    (
        "performer_pytorch.PerformerLM",
        {"num_tokens": 64, "max_seq_len": 16, "dim": 32, "depth": 1, "heads": 2},
        IDS,
    ),
    ("performer_pytorch.SelfAttention", {"dim": 32, "heads": 2, "causal": False}, [(1, 16, 32)]),
    ("linformer.Linformer", {"dim": 32, "seq_len": 16, "depth": 1, "heads": 2, "k": 4}, [(1, 16, 32)]),
    ("nystrom_attention.Nystromformer", {"dim": 32, "depth": 1, "heads": 2, "num_landmarks": 4}, [(1, 16, 32)]),
    ("local_attention.LocalAttention", {"dim": 16, "window_size": 4, "causal": True}, [(1, 2, 16, 16)] * 3),
    (
        "perceiver_pytorch.Perceiver",
        {"num_freq_bands": 2, "depth": 1, "max_freq": 4.0, "num_latents": 4, "latent_dim": 16, "num_classes": 5}
        | {"latent_heads": 2, "latent_dim_head": 8, "cross_dim_head": 8},
        [(1, 8, 8, 3)],
    ),
    (
        "perceiver_pytorch.PerceiverIO",
        {"dim": 8, "queries_dim": 8, "depth": 1, "num_latents": 4, "latent_dim": 16, "logits_dim": 5},
        [(1, 10, 8)],
    ),
    (
        "mlp_mixer_pytorch.MLPMixer",
        {"image_size": 32, "channels": 3, "patch_size": 8, "dim": 32, "depth": 2} | {"num_classes": 5},
        [(1, 3, 32, 32)],
    ),
    (
        "g_mlp_pytorch.gMLPVision",
        {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2},
        [(1, 3, 32, 32)],
    ),
    ("soft_moe_pytorch.SoftMoE", {"dim": 16, "seq_len": 8, "num_experts": 2}, [(1, 8, 16)]),
    ("siren_pytorch.SirenNet", {"dim_in": 2, "dim_hidden": 16, "dim_out": 3, "num_layers": 2}, [(8, 2)]),
    ("egnn_pytorch.EGNN", {"dim": 8}, [(1, 6, 8), (1, 6, 3)]),
    ("egnn_pytorch.EGNN", {"dim": 8, "num_nearest_neighbors": 2, "norm_coors": True}, [(1, 6, 8), (1, 6, 3)]),
    ("vector_quantize_pytorch.VectorQuantize", {"dim": 8, "codebook_size": 16}, [(1, 10, 8)]),
    ("vector_quantize_pytorch.ResidualVQ", {"dim": 8, "codebook_size": 16, "num_quantizers": 2}, [(1, 10, 8)]),
    ("vector_quantize_pytorch.FSQ", {"levels": [4, 4, 3]}, [(1, 10, 3)]),
    ("vector_quantize_pytorch.LFQ", {"codebook_size": 16, "dim": 4}, [(1, 10, 4)]),
    ("axial_positional_embedding.AxialPositionalEmbedding", {"dim": 16, "axial_shape": (4, 4)}, [(1, 16, 16)]),
    (
        "denoising_diffusion_pytorch.Unet",
        {"dim": 16, "dim_mults": (1, 2), "flash_attn": False},
        lambda number: (image(1, 3, 16, 16)(number)[0], torch.tensor([5.0])),
    ),
    (
        "denoising_diffusion_pytorch.Unet1D",
        {"dim": 16, "dim_mults": (1, 2), "channels": 3},
        lambda number: (image(1, 3, 16)(number)[0], torch.tensor([5.0])),
    ),
    ("segmentation_models_pytorch.Unet", {"encoder_name": "resnet18", "encoder_weights": None}, [(1, 3, 32, 32)]),
    ("segmentation_models_pytorch.FPN", {"encoder_name": "resnet18", "encoder_weights": None}, [(1, 3, 32, 32)]),
    (
        "segmentation_models_pytorch.DeepLabV3Plus",
        {"encoder_name": "resnet18", "encoder_weights": None},
        [(1, 3, 64, 64)],
    ),
    (
        "segmentation_models_pytorch.Linknet",
        {"encoder_name": "mobilenet_v2", "encoder_weights": None},
        [(1, 3, 32, 32)],
    ),
    ("segmentation_models_pytorch.MAnet", {"encoder_name": "resnet18", "encoder_weights": None}, [(1, 3, 32, 32)]),
    ("segmentation_models_pytorch.PSPNet", {"encoder_name": "resnet18", "encoder_weights": None}, [(1, 3, 64, 64)]),
    ("efficientnet_pytorch.EfficientNet.b0", {}, [(1, 3, 32, 32)]),
    ("monai.networks.nets.BasicUNet", {"spatial_dims": 2, "features": (8, 8, 16, 16, 16, 8)}, [(1, 1, 32, 32)]),
    (
        "monai.networks.nets.UNETR",
        {"in_channels": 1, "out_channels": 2, "img_size": (32, 32, 32), "hidden_size": 48}
        | {"feature_size": 4, "mlp_dim": 32, "num_heads": 4},
        [(1, 1, 32, 32, 32)],
    ),
    ("monai.networks.nets.SegResNet", {"spatial_dims": 2, "init_filters": 8}, [(1, 1, 32, 32)]),
    (
        "monai.losses.DiceLoss",
        {"sigmoid": True},
        lambda n: (image(1, 2, 8, 8)(n)[0], (image(1, 2, 8, 8)(n + 1)[0] > 0).float()),
    ),
    ("pytorch_msssim.SSIM", {"data_range": 1.0, "channel": 3}, [(1, 3, 24, 24), (1, 3, 24, 24)]),
    (
        "segment_anything.modeling.TwoWayTransformer",
        {"depth": 1, "embedding_dim": 16, "num_heads": 2, "mlp_dim": 32},
        [(1, 16, 4, 4), (1, 16, 4, 4), (1, 3, 16)],
    ),
    (
        "segment_anything.modeling.ImageEncoderViT",
        {"img_size": 64, "patch_size": 16, "embed_dim": 32, "depth": 2}
        | {"num_heads": 2, "out_chans": 16, "use_rel_pos": True, "window_size": 3},
        [(1, 3, 64, 64)],
    ),
    (
        "open_clip.model.CLIP",
        {"embed_dim": 16, "vision_cfg": {"layers": 1, "width": 64, "patch_size": 8, "image_size": 32}}
        | {"text_cfg": {"context_length": 12, "vocab_size": 64, "width": 32, "heads": 2, "layers": 1}},
        lambda n: (image(1, 3, 32, 32)(n)[0], tokens(64, 12)(n)[0]),
    ),
    ("ncps.torch.CfC", {"input_size": 4, "units": 8}, [(2, 5, 4)]),
    ("ncps.torch.LTC", {"input_size": 4, "units": 8}, [(2, 5, 4)]),
    ("entmax.SparsemaxLoss", {}, lambda n: (image(4, 6)(n)[0], torch.tensor([1, 2, 3, 0]))),
]


def find(path: str) -> Any:
    """A class by its module and name, or what a function of it makes."""
    without_compiled_torchvision()
    module, name = path.rsplit(".", 1)
    if name == "b0":
        return lambda: find(module).from_name("efficientnet-b0", num_classes=5)
    return getattr(importlib.import_module(module), name)


def module_case(path: str, settings: dict[str, Any], inputs: Any) -> Callable[[], Made]:
    def make() -> Made:
        module = find(path)(**settings)
        if isinstance(module, nn.Module):
            module.eval()
        return module, drawn(*inputs) if isinstance(inputs, list) else inputs

    return make


for _number, (_path, _settings, _inputs) in enumerate(MODULES):
    _key = f"{_path.split('.')[0]} {_path.split('.')[-1]}"
    CASES[f"{_key} {_number}" if _key in CASES else _key] = module_case(_path, _settings, _inputs)


@case("rotary_embedding_torch queries")
def make_rotary() -> Made:
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(dim=8)
    return lambda q: rotary.rotate_queries_or_keys(q), drawn((1, 2, 6, 16))


@case("torchmetrics functional")
def make_metrics() -> Made:
    without_compiled_torchvision()
    import torchmetrics.functional as tm

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple:
        target = y.argmax(-1)
        return (
            tm.accuracy(x, target, task="multiclass", num_classes=4),
            tm.mean_squared_error(x, y),
            tm.pearson_corrcoef(x[:, 0], y[:, 0]),
            tm.cosine_similarity(x, y),
            tm.f1_score(x, target, task="multiclass", num_classes=4, average="macro"),
            tm.structural_similarity_index_measure(
                x.view(1, 1, 8, 4), y.view(1, 1, 8, 4), kernel_size=3, sigma=0.5
            ),
        )

    return f, drawn((8, 4), (8, 4))


@case("torchmetrics module")
def make_metric_module() -> Made:
    without_compiled_torchvision()
    import torchmetrics

    metric = torchmetrics.MeanSquaredError()

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        metric.reset()
        metric.update(x, y)
        metric.update(x * 2, y)
        return metric.compute()

    return f, drawn((8, 4), (8, 4))


@case("gpytorch kernels")
def make_gp() -> Made:
    import gpytorch

    kernel = gpytorch.kernels.ScaleKernel(
        gpytorch.kernels.RBFKernel() + gpytorch.kernels.MaternKernel(nu=1.5)
    ).eval()
    return lambda x, y: kernel(x, y).to_dense(), drawn((5, 2), (4, 2))


@case("gpytorch posterior")
def make_posterior() -> Made:
    import gpytorch

    class Model(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            x = torch.linspace(0, 1, 6)
            super().__init__(x, x.sin(), gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module, self.covar = gpytorch.means.ConstantMean(), gpytorch.kernels.RBFKernel()

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar(x))

    model = Model().eval()
    return lambda x: model(x).mean, drawn((4,))


@case("pyro distributions")
def make_pyro() -> Made:
    import pyro.distributions as dist

    def f(x: torch.Tensor) -> torch.Tensor:
        a = dist.Normal(x.mean(), x.std()).expand([4]).to_event(1).log_prob(x[:4])
        b = dist.MixtureSameFamily(dist.Categorical(logits=x[:3]), dist.Normal(x[:3], x[3:6].exp())).log_prob(x)
        return a + b.sum()

    return f, drawn((8,))


@case("pyro model")
def make_pyro_model() -> Made:
    import pyro
    import pyro.distributions as dist
    from pyro import poutine

    def model(x: torch.Tensor) -> torch.Tensor:
        loc = pyro.sample("loc", dist.Normal(0.0, 1.0), obs=x.mean())
        with pyro.plate("data", x.shape[0]):
            pyro.sample("obs", dist.Normal(loc, 1.0), obs=x)
        return loc

    return lambda x: poutine.trace(model).get_trace(x).log_prob_sum(), drawn((6,))


@case("botorch acquisition")
def make_botorch() -> Made:
    from botorch.utils.probability.utils import log_ndtr, ndtr
    from botorch.utils.safe_math import log1mexp, logplusexp

    return lambda x: (ndtr(x), log_ndtr(x), log1mexp(-x.abs() - 0.1), logplusexp(x, x * 2)), drawn((8,))


@case("torchsde euler")
def make_sde() -> Made:
    import torchsde

    class SDE(nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self) -> None:
            super().__init__()
            self.mu = nn.Linear(2, 2)

        def f(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.mu(y).tanh() * t

        def g(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return y * 0.0

    sde, times = SDE().eval(), torch.linspace(0, 1, 3)
    return lambda y: torchsde.sdeint(sde, y, times, method="euler", dt=0.25), drawn((3, 2))


for _flow, _settings in {"NSF": {"transforms": 1}, "MAF": {"transforms": 2}, "NICE": {}, "GF": {}}.items():

    @case(f"zuko {_flow}")
    def make_zuko(name: str = _flow, settings: dict[str, Any] = _settings) -> Made:
        import zuko

        flow = getattr(zuko.flows, name)(3, 2, hidden_features=[16], **settings).eval()
        return lambda x, c: flow(c).log_prob(x), drawn((4, 3), (4, 2))


@case("nflows")
def make_nflows() -> Made:
    from nflows import distributions, flows, transforms

    steps = [transforms.ReversePermutation(3), transforms.MaskedAffineAutoregressiveTransform(3, 8)]
    flow = flows.Flow(transforms.CompositeTransform(steps * 2), distributions.StandardNormal([3])).eval()
    return lambda x: flow.log_prob(x), drawn((4, 3))


@case("normflows")
def make_normflows() -> Made:
    import normflows as nf

    layers = [nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 2])), nf.flows.Permute(2, mode="swap")]
    flow = nf.NormalizingFlow(nf.distributions.DiagGaussian(2), layers * 2).eval()
    return lambda x: flow.log_prob(x), drawn((4, 2))


@case("torchcrf")
def make_torchcrf() -> Made:
    from torchcrf import CRF

    crf = CRF(4, batch_first=True).eval()
    return crf, lambda n: (image(2, 5, 4)(n)[0], tokens(4, 5)(n)[0].repeat(2, 1))


@case("entmax")
def make_entmax() -> Made:
    from entmax import entmax15, entmax_bisect, sparsemax

    return lambda x: (sparsemax(x, -1), entmax15(x, -1), entmax_bisect(x, 1.3)), drawn((4, 6))


@case("geoopt")
def make_geoopt() -> Made:
    import geoopt

    ball = geoopt.PoincareBall(c=1.0)
    return lambda x, y: (ball.expmap0(x * 0.1), ball.dist(ball.projx(x * 0.1), ball.projx(y * 0.1))), drawn(
        (4, 3), (4, 3)
    )


@case("snntorch")
def make_snn() -> Made:
    import snntorch

    fc, lif = nn.Linear(4, 6), snntorch.Leaky(beta=0.9)

    def f(x: torch.Tensor) -> tuple:
        mem, spikes = lif.init_leaky(), []
        for t in range(x.shape[0]):
            spike, mem = lif(fc(x[t]), mem)
            spikes.append(spike)
        return torch.stack(spikes), mem

    return f, drawn((5, 2, 4))


@case("tensorly")
def make_tensorly() -> Made:
    import tensorly
    from tensorly.tenalg import mode_dot, multi_mode_dot

    tensorly.set_backend("pytorch")
    return lambda x, a: (mode_dot(x, a, 1), multi_mode_dot(x, [a, a], modes=[0, 1]), tensorly.unfold(x, 1)), drawn(
        (3, 3, 4), (5, 3)
    )


@case("pytorch_metric_learning")
def make_metric_learning() -> Made:
    from pytorch_metric_learning import losses

    triplet, contrast = losses.NTXentLoss(), losses.ArcFaceLoss(3, 8)
    return lambda x: (
        triplet(x, torch.tensor([0, 1, 2, 0, 1, 2])),
        contrast(x, torch.tensor([0, 1, 2, 0, 1, 2])),
    ), drawn((6, 8))


@case("captum")
def make_captum() -> Made:
    from captum._utils.common import _format_tensor_into_tuples, _run_forward

    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    return lambda x: _run_forward(net, _format_tensor_into_tuples(x), target=1), drawn((5, 4))


@case("opt_einsum contract")
def make_contract() -> Made:
    import opt_einsum

    return lambda a, b, c: opt_einsum.contract("ij,jk,kl->il", a, b, c), drawn((3, 4), (4, 5), (5, 6))


@case("lightning module")
def make_lightning() -> Made:
    without_compiled_torchvision()
    import pytorch_lightning as pl

    class Lit(pl.LightningModule):
        def __init__(self, size: int = 4) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.net = nn.Linear(size, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x) * self.hparams.size + self.current_epoch

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            x, y = batch
            return nn.functional.cross_entropy(self(x), y)

    lit = Lit().eval()
    return lambda x: (lit(x), lit.training_step((x, torch.tensor([0, 1, 0])), 0)), drawn((3, 4))
