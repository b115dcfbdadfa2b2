"""Sampling for bench/zoo.py, by the schedulers of diffusers: settings in NumPy, state that they move."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from zoo_cases import CASES, Made, drawn, without_compiled_torchvision

STEPS = 4
SCHEDULERS = (
    "DEISMultistepScheduler DDIMScheduler DDPMScheduler DPMSolverMultistepScheduler DPMSolverSinglestepScheduler "
    "EulerDiscreteScheduler EulerAncestralDiscreteScheduler HeunDiscreteScheduler KDPM2DiscreteScheduler "
    "LMSDiscreteScheduler PNDMScheduler UniPCMultistepScheduler FlowMatchEulerDiscreteScheduler LCMScheduler"
)


def sampler(kind: str) -> Callable[[], Made]:
    def make() -> Made:
        without_compiled_torchvision()
        import diffusers

        net = nn.Sequential(nn.Linear(6, 16), nn.SiLU(), nn.Linear(16, 6)).eval()
        scheduler = getattr(diffusers, kind)()

        scaled = getattr(scheduler, "scale_model_input", lambda x, t: x)  # Flow matching scales nothing.

        def sample(x: torch.Tensor) -> torch.Tensor:
            scheduler.set_timesteps(STEPS)
            for t in scheduler.timesteps:
                noise = net(scaled(x, t))
                x = scheduler.step(noise, t, x, return_dict=False)[0]
            return x

        return sample, drawn((2, 6))

    return make


CASES |= {f"diffusers {kind}": sampler(kind) for kind in SCHEDULERS.split()}
