"""TorchBench's models (github.com/pytorch/benchmark) as cases of zoo.py, with random weights and without downloads.

    git clone https://github.com/pytorch/benchmark torchbench
    PYTHONPATH=zoo-site:torchbench python bench/torchbench.py                 # all that can be made
    PYTHONPATH=zoo-site:torchbench python bench/torchbench.py --only resnet   # and zoo.py's other options

Models that want data, weights of their own, a GPU or a package that is not there are told with what they raise.
Those of LARGE take minutes a call on two cores and are left out, as are Hugging Face's, which zoo.py has too.
"""

import contextlib
import importlib
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torchbenchmark
from torch.utils._pytree import tree_map

import zoo
from zoo_cases import CASES, Made, without_compiled_torchvision

LARGE = (
    "cm3leon",
    "detectron2",
    "hf_",
    "llama_v2",
    "llava",
    "modded",
    "moondream",
    "resnet152",
    "sam_fast",
    "simple_gpt",
    "stable_diffusion_unet",
    "timm_vision_transformer_large",
)


class NoWeights(dict):
    """In the place of what would be downloaded."""


def without_downloads() -> None:
    load = torch.nn.Module.load_state_dict

    def load_state_dict(module: torch.nn.Module, state: Any, *rest: Any, **named: Any) -> Any:
        return None if isinstance(state, NoWeights) else load(module, state, *rest, **named)

    torch.nn.Module.load_state_dict = load_state_dict
    torch.hub.load_state_dict_from_url = lambda *rest, **named: NoWeights()
    with contextlib.suppress(ImportError):
        importlib.import_module(
            "torchvision.models._api"
        ).load_state_dict_from_url = torch.hub.load_state_dict_from_url
    with contextlib.suppress(ImportError):
        timm = importlib.import_module("timm")
        timm.create_model = untrained(timm.create_model)


def untrained(create: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *rest, **named: create(*rest, **{**named, "pretrained": False})


def made(name: str) -> tuple[Any, Any]:
    """A model and its arguments: a tuple, or a dict of those by name."""
    without_compiled_torchvision()
    without_downloads()
    model = importlib.import_module(f"torchbenchmark.models.{name}").Model
    try:
        return model(test="eval", device="cpu", batch_size=2).get_module()
    except (NotImplementedError, AssertionError, ValueError):  # Those that have one batch size alone.
        return model(test="eval", device="cpu").get_module()


def case(name: str) -> Callable[[], Made]:
    def make() -> Made:
        module, inputs = made(name)
        if isinstance(module, torch.nn.Module):
            module.eval()

        def arguments(number: int) -> Any:
            """Other numbers near those of the model's own; indices stay."""

            def other(value: Any) -> Any:
                if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                    return value
                noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(number))
                return value + 0.01 * noise.to(value.dtype) * value.detach().abs().mean().nan_to_num()

            return tree_map(other, inputs)

        if isinstance(inputs, dict):
            return (lambda named: module(**named)), lambda number: (arguments(number),)
        return module, lambda number: tuple(arguments(number))

    return make


def main() -> int:
    warnings.simplefilter("ignore")
    folder = Path(torchbenchmark.__file__).parent / "models"
    CASES.clear()
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith(("_", *LARGE)):
            CASES[path.name] = case(path.name)
    return zoo.main()


if __name__ == "__main__":
    sys.exit(main())
