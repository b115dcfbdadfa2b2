"""Loads the compiled part, after a look at the version of torch: another one would end in unresolved symbols."""

import os

import torch

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _check_torch() -> None:
    path = os.path.join(_FOLDER, "lib", "torch_version.txt")
    try:
        with open(path) as file:
            built = file.read().strip()
    except FileNotFoundError:
        raise ImportError(f"braze is not built: {path} is missing. Run ./setup.sh, or install the wheel.") from None
    if built.split(".")[:2] != torch.__version__.split(".")[:2]:
        raise ImportError(
            f"braze was built for torch {built}, and torch {torch.__version__} is installed. "
            f"Install torch {built}, or build braze again with this one."
        )


_check_torch()

from braze import _C as C  # noqa: E402

C.install_source_hook(os.path.dirname(os.path.abspath(torch.__file__)), _FOLDER)
