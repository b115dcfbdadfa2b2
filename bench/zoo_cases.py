"""The models of bench/zoo.py: small random configurations of other people's libraries.

A case gives a module or function in eval mode and what makes the arguments of a call, by the call's number.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Made = tuple[Callable[..., Any], Callable[[int], tuple]]
CASES: dict[str, Callable[[], Made]] = {}


def image(*sizes: int) -> Callable[[int], tuple]:
    return lambda number: (torch.randn(*sizes, generator=torch.Generator().manual_seed(number)),)


def drawn(*shapes: tuple[int, ...]) -> Callable[[int], tuple]:
    """Arguments of these shapes, drawn anew by the number of the call."""

    def inputs(number: int) -> tuple:
        generator = torch.Generator().manual_seed(number)
        return tuple(torch.randn(*shape, generator=generator) for shape in shapes)

    return inputs


def without_compiled_torchvision() -> None:
    """A torchvision for CUDA has operators that a torch for CPUs cannot load. Only their shapes are asked for."""
    try:
        torch.ops.torchvision.nms  # noqa: B018
    except AttributeError:
        sys.modules.setdefault(
            "torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations")
        )


TIMM = (
    "resnet18 resnet26d resnetv2_50 resnext50_32x4d seresnet18 ecaresnet26t res2net50_26w_4s resnest14d "
    "densenet121 regnetx_002 regnety_002 regnetz_005 efficientnet_b0 efficientnetv2_rw_t mobilenetv2_050 "
    "mobilenetv3_small_050 mobilenetv4_conv_small mnasnet_small fbnetc_100 ghostnet_100 hrnet_w18_small dla34 "
    "vgg11 inception_v3 xception41 dpn48b vovnet39a cspresnet50 darknet53 nf_resnet26 convnext_atto "
    "convnextv2_atto repvgg_a0 mobileone_s0 lcnet_050 tinynet_e edgenext_xx_small fastvit_t8 repvit_m0_9 "
    "efficientformer_l1 vit_tiny_patch16_224 deit_tiny_patch16_224 beit_base_patch16_224 "
    "swin_tiny_patch4_window7_224 swinv2_cr_tiny_224 cait_xxs24_224 mixer_s32_224 gmlp_ti16_224 resmlp_12_224 "
    "poolformer_s12 levit_128s coat_tiny xcit_nano_12_p16_224 pvt_v2_b0 twins_svt_small crossvit_tiny_240 "
    "visformer_tiny maxvit_nano_rw_256 volo_d1_224 hiera_tiny_224"
)


def timm_case(name: str) -> Callable[[], Made]:
    def make() -> Made:
        without_compiled_torchvision()
        import timm

        model = timm.create_model(name, pretrained=False, num_classes=10).eval()
        return model, image(1, *model.default_cfg["input_size"])

    return make


CASES |= {f"timm {name}": timm_case(name) for name in TIMM.split()}


def case(name: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    def register(make: Callable[[], Made]) -> Callable[[], Made]:
        CASES[name] = make
        return make

    return register


# ---- diffusers


def diffusers_case(kind: str, settings: dict[str, Any], inputs: Callable[[int], tuple]) -> None:
    @case(f"diffusers {kind}")
    def make() -> Made:
        without_compiled_torchvision()
        import diffusers

        return getattr(diffusers, kind)(**settings).eval(), inputs


def noisy(channels: int, size: int, *context: int) -> Callable[[int], tuple]:
    def inputs(number: int) -> tuple:
        generator = torch.Generator().manual_seed(number)
        x = torch.randn(1, channels, size, size, generator=generator)
        return (x, torch.tensor([7]), *((torch.randn(*context, generator=generator),) if context else ()))

    return inputs


UNET = {"block_out_channels": (32, 64), "layers_per_block": 1, "sample_size": 16, "norm_num_groups": 8}
DOWN, UP = ("DownBlock2D", "CrossAttnDownBlock2D"), ("CrossAttnUpBlock2D", "UpBlock2D")
VAE = {"block_out_channels": (16, 32), "norm_num_groups": 8, "latent_channels": 4}
CODER = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
HEADS = {"num_attention_heads": 2, "attention_head_dim": 16}
diffusers_case(
    "UNet2DModel",
    UNET
    | {"in_channels": 3, "out_channels": 3}
    | {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")},
    noisy(3, 16),
)
diffusers_case(
    "UNet2DConditionModel",
    UNET
    | {"in_channels": 4, "out_channels": 4, "cross_attention_dim": 32, "attention_head_dim": 2}
    | {"down_block_types": DOWN, "up_block_types": UP},
    noisy(4, 16, 1, 6, 32),
)
diffusers_case("AutoencoderKL", VAE | CODER | {"in_channels": 3, "out_channels": 3}, image(1, 3, 32, 32))
diffusers_case(
    "AutoencoderTiny",
    {"encoder_block_out_channels": (16,) * 4, "decoder_block_out_channels": (16,) * 4},
    image(1, 3, 32, 32),
)
diffusers_case("VQModel", VAE | CODER | {"num_vq_embeddings": 32}, image(1, 3, 32, 32))
diffusers_case(
    "AsymmetricAutoencoderKL",
    {"norm_num_groups": 8, "down_block_out_channels": (16, 32), "up_block_out_channels": (16, 32)} | CODER,
    image(1, 3, 32, 32),
)
diffusers_case(
    "DiTTransformer2DModel",
    HEADS | {"in_channels": 4, "out_channels": 8, "num_layers": 2, "sample_size": 8, "norm_num_groups": 8},
    lambda number: (noisy(4, 8)(number)[0], torch.tensor([number + 1]), torch.tensor([number % 10])),
)
diffusers_case(
    "Transformer2DModel",
    HEADS | {"in_channels": 32, "num_layers": 1, "norm_num_groups": 8, "cross_attention_dim": 32},
    lambda number: (torch.randn(1, 32, 8, 8) + number, torch.randn(1, 6, 32)),
)
diffusers_case(
    "PixArtTransformer2DModel",
    HEADS
    | {
        "in_channels": 4,
        "out_channels": 8,
        "num_layers": 2,
        "sample_size": 8,
        "caption_channels": 32,
        "cross_attention_dim": 32,
    },
    lambda number: (torch.randn(1, 4, 8, 8) + number, torch.randn(1, 6, 32), torch.tensor([7])),
)
diffusers_case(
    "PriorTransformer",
    HEADS | {"num_layers": 2, "embedding_dim": 32, "num_embeddings": 7, "additional_embeddings": 4},
    lambda number: (torch.randn(1, 32) + number, torch.tensor([7]), torch.randn(1, 32), torch.randn(1, 7, 32)),
)
diffusers_case(
    "UNet1DModel",
    {"block_out_channels": (32, 32, 64), "sample_size": 64, "extra_in_channels": 64},
    lambda number: (torch.randn(1, 2, 64) + number, torch.tensor([7])),
)
diffusers_case(
    "AutoencoderOobleck",
    {"encoder_hidden_size": 16, "downsampling_ratios": [2, 4], "channel_multiples": [1, 2], "audio_channels": 2}
    | {"decoder_channels": 16, "decoder_input_channels": 8, "sampling_rate": 8000},
    image(1, 2, 64),
)
diffusers_case(
    "SD3Transformer2DModel",
    HEADS
    | {
        "in_channels": 4,
        "out_channels": 4,
        "num_layers": 2,
        "sample_size": 16,
        "joint_attention_dim": 32,
        "caption_projection_dim": 32,
        "pooled_projection_dim": 32,
        "pos_embed_max_size": 16,
    },
    lambda number: (
        torch.randn(1, 4, 16, 16) + number,
        torch.randn(1, 6, 32),
        torch.randn(1, 32),
        torch.tensor([7]),
    ),
)
diffusers_case(
    "AuraFlowTransformer2DModel",
    HEADS
    | {
        "sample_size": 16,
        "in_channels": 4,
        "num_mmdit_layers": 1,
        "num_single_dit_layers": 1,
        "joint_attention_dim": 32,
        "caption_projection_dim": 32,
        "out_channels": 4,
        "pos_embed_max_size": 64,
    },
    lambda number: (torch.randn(1, 4, 16, 16) + number, torch.randn(1, 6, 32), torch.tensor([0.5])),
)
diffusers_case(
    "ControlNetModel",
    {
        "block_out_channels": (32, 64),
        "layers_per_block": 1,
        "norm_num_groups": 8,
        "in_channels": 4,
        "cross_attention_dim": 32,
        "attention_head_dim": 2,
        "down_block_types": DOWN,
        "conditioning_embedding_out_channels": (8, 16),
    },
    lambda number: (
        torch.randn(1, 4, 16, 16) + number,
        torch.tensor([7]),
        torch.randn(1, 6, 32),
        torch.randn(1, 3, 32, 32),
    ),
)


# ---- x-transformers, vit-pytorch


def tokens(count: int, length: int) -> Callable[[int], tuple]:
    return lambda number: (torch.randint(0, count, (1, length), generator=torch.Generator().manual_seed(number)),)


X_TRANSFORMERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotary": {"rotary_pos_emb": True},
    "alibi": {"alibi_pos_bias": True},
    "relative": {"rel_pos_bias": True},
    "glu": {"ff_glu": True, "ff_swish": True},
    "rms norm": {"use_rmsnorm": True},
    "sandwich": {"sandwich_norm": True},
    "talking heads": {"attn_pre_talking_heads": True},
    "query-key norm": {"attn_qk_norm": True},
    "flash": {"attn_flash": True},
    "macaron": {"macaron": True},
    "shifted tokens": {"shift_tokens": 1},
}
for _name, _settings in X_TRANSFORMERS.items():

    @case(f"x-transformers {_name}")
    def make_x(settings: dict[str, Any] = _settings) -> Made:
        from x_transformers import Decoder, TransformerWrapper

        layers = Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, **settings)
        return TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers).eval(), tokens(64, 16)


VIT = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64}
VITS: dict[str, dict[str, Any]] = {
    "vit.ViT": VIT,
    "simple_vit.SimpleViT": VIT,
    "deepvit.DeepViT": VIT,
    "cait.CaiT": {**VIT, "cls_depth": 1},
    "max_vit.MaxViT": {"num_classes": 5, "dim": 32, "depth": (1, 1), "dim_conv_stem": 16, "window_size": 2},
    "parallel_vit.ViT": VIT,
    "simple_vit_with_patch_dropout.SimpleViT": VIT,
    "vit_for_small_dataset.ViT": VIT,
    "simple_vit_with_register_tokens.SimpleViT": VIT,
    "simple_vit_with_qk_norm.SimpleViT": VIT,
}
for _name, _settings in VITS.items():

    @case(f"vit-pytorch {_name}")
    def make_vit(path: str = _name, settings: dict[str, Any] = _settings) -> Made:
        import importlib

        without_compiled_torchvision()
        file, kind = path.split(".")
        return getattr(importlib.import_module(f"vit_pytorch.{file}"), kind)(**settings).eval(), image(1, 3, 32, 32)


# ---- einops, torchdiffeq, e3nn, kornia, torch_geometric


@case("einops functions")
def make_einops() -> Made:
    from einops import einsum, pack, rearrange, reduce, repeat

    def f(x: torch.Tensor) -> torch.Tensor:
        patches = rearrange(x, "b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4)
        scores = einsum(patches, patches, "b i d, b j d -> b i j")
        mean = repeat(reduce(scores, "b i j -> b i", "mean"), "b i -> b i r", r=2)
        packed, _ = pack([mean, patches], "b n *")
        return packed

    return f, image(2, 3, 16, 16)


@case("einops layers")
def make_einops_layers() -> Made:
    from einops.layers.torch import Rearrange, Reduce

    net = nn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4), nn.Linear(48, 8), Reduce("b n d -> b d", "max")
    )
    return net.eval(), image(2, 3, 16, 16)


for _method in ("euler", "rk4", "dopri5"):

    @case(f"torchdiffeq {_method}")
    def make_ode(method: str = _method) -> Made:
        from torchdiffeq import odeint

        net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)).eval()
        times = torch.linspace(0, 1, 5)
        return lambda y: odeint(lambda t, z: net(z) * t, y, times, method=method), image(4, 2)


@case("e3nn linear")
def make_e3nn_linear() -> Made:
    from e3nn import o3

    return o3.Linear("4x0e + 2x1o", "3x0e + 2x1o").eval(), image(5, 10)


@case("e3nn tensor product")
def make_e3nn_product() -> Made:
    from e3nn import o3

    product = o3.FullyConnectedTensorProduct("2x0e + 1x1o", "1x0e + 1x1o", "2x0e + 1x1o").eval()
    return lambda x: product(x[:, :5], x[:, 5:]), image(4, 9)


@case("e3nn spherical harmonics")
def make_e3nn_harmonics() -> Made:
    from e3nn import o3

    return lambda x: o3.spherical_harmonics([0, 1, 2], x, normalize=True), image(6, 3)


@case("e3nn gate")
def make_e3nn_gate() -> Made:
    from e3nn.nn import Gate

    gate = Gate("4x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1o").eval()
    return gate, image(3, 12)


KORNIA = {
    "gaussian blur": lambda k, x: k.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0)),
    "sobel": lambda k, x: k.filters.sobel(x),
    "laplacian": lambda k, x: k.filters.laplacian(x, 3),
    "median blur": lambda k, x: k.filters.median_blur(x, (3, 3)),
    "hsv": lambda k, x: k.color.rgb_to_hsv(x.sigmoid()),
    "lab": lambda k, x: k.color.rgb_to_lab(x.sigmoid()),
    "rotate": lambda k, x: k.geometry.rotate(x, torch.tensor([30.0, 15.0])),
    "resize": lambda k, x: k.geometry.resize(x, (10, 12)),
    "warp": lambda k, x: k.geometry.warp_perspective(x, torch.eye(3).expand(2, 3, 3) * 1.0, (16, 16)),
    "ssim": lambda k, x: k.metrics.ssim(x, x * 0.9, 5),
    "dilation": lambda k, x: k.morphology.dilation(x, torch.ones(3, 3)),
    "harris": lambda k, x: k.feature.harris_response(x),
}
for _name, _call in KORNIA.items():

    @case(f"kornia {_name}")
    def make_kornia(call: Callable[..., Any] = _call) -> Made:
        without_compiled_torchvision()
        import kornia

        return lambda x: call(kornia, x), image(2, 3, 16, 16)


CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "GCNConv": {},
    "SAGEConv": {},
    "GATConv": {"heads": 2},
    "GATv2Conv": {"heads": 2},
    "GraphConv": {},
    "TransformerConv": {"heads": 2},
    "TAGConv": {},
    "ChebConv": {"K": 2},
    "SGConv": {},
    "ResGatedGraphConv": {},
    "ClusterGCNConv": {},
    "LEConv": {},
}
for _name, _settings in CONVOLUTIONS.items():

    @case(f"torch_geometric {_name}")
    def make_graph(name: str = _name, settings: dict[str, Any] = _settings) -> Made:
        import torch_geometric.nn

        layer = getattr(torch_geometric.nn, name)(8, 4, **settings).eval()
        edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
        return layer, lambda number: (image(6, 8)(number)[0], edges)
