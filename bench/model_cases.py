"""The models of models.py: random weights, nothing downloaded, sizes for which eager needs less than two seconds a
call on two cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import vision
from cases import CASES, Built, Case


def _transformer(family: str, batch: int, tokens: int, **config: Any) -> Callable[[], Built]:
    """A text model of transformers, its configuration's defaults where `config` says nothing."""

    def build() -> Built:
        import transformers

        torch.manual_seed(0)
        configuration = getattr(transformers, f"{family.removesuffix('Encoder')}Config")(**config)
        model = getattr(transformers, f"{family}Model")(configuration).eval()
        return Built(model, (torch.randint(5, configuration.vocab_size, (batch, tokens)),), {})

    return build


def _vit() -> Built:
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    return Built(ViTModel(ViTConfig()).eval(), (torch.randn(2, 3, 224, 224),), {})


def _whisper() -> Built:
    from transformers import WhisperConfig, WhisperModel

    torch.manual_seed(0)
    return Built(WhisperModel(WhisperConfig()).encoder.eval(), (torch.randn(1, 80, 3000),), {})


def _convolutional(make: Callable[[], nn.Module], *shape: int) -> Callable[[], Built]:
    def build() -> Built:
        torch.manual_seed(0)
        return Built(make().eval(), (torch.randn(shape),), {})

    return build


_LLAMA = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "num_attention_heads": 8}

MODELS: dict[str, Case] = {
    case.name: case
    for case in [
        CASES["mlp"],
        CASES["scorers"],
        Case("bert-base", "network", _transformer("Bert", 1, 128)),
        Case("distilbert", "network", _transformer("DistilBert", 2, 128)),
        Case("gpt2", "network", _transformer("GPT2", 1, 128, use_cache=False)),
        Case("llama-small", "network", _transformer("Llama", 2, 128, use_cache=False, **_LLAMA)),
        Case("t5-encoder", "network", _transformer("T5Encoder", 4, 128)),
        Case("whisper-encoder", "network", _whisper),
        Case("vit-base", "network", _vit),
        Case("resnet50", "network", _convolutional(vision.ResNet, 4, 3, 224, 224)),
        Case("mobilenet-v2", "network", _convolutional(vision.MobileNet, 8, 3, 224, 224)),
        Case("unet", "network", _convolutional(vision.UNet, 2, 3, 128, 128)),
    ]
}
