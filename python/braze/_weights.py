"""What keeps packed copies of weights right where PyTorch's version counters do not tell."""

import functools
from typing import Any

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from braze._load import C


@functools.cache
def watch_optimizers() -> None:
    """Copies of what an optimizer has stepped are made anew: fused ones move no version, some write to `.data`."""
    register_optimizer_step_post_hook(_stepped)


def _stepped(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    C.forget_packed_weights(weight for group in optimizer.param_groups for weight in group["params"])
