"""Every case that the demo and the benchmarks run: the program, its inputs, and what is expected of it.

A case is built inside the process that measures it. `build()` gives the same weights and inputs in every process
(fixed seeds). JAX versions of the small cases are in `jax_cases.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import measure

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "scorers"))
from scorers import AllScorers, Information, QueryContent, Salience


@dataclass(frozen=True)
class Built:
    """A program and its example inputs."""

    fn: Callable[..., Any]
    args: tuple
    kwargs: dict[str, Any]

    def once(self, fn: Callable[..., Any]) -> Any:
        """One call of `fn`, which is the program or what a compiler has made of it."""
        return fn(*self.args, **self.kwargs)

    def doubled(self) -> Built:
        """The same program in float64, for judging errors. Changes the module in place: build anew afterwards."""

        def double(value: Any) -> Any:
            return value.double() if torch.is_tensor(value) and value.is_floating_point() else value

        fn = self.fn.double() if isinstance(self.fn, nn.Module) else self.fn
        return Built(fn, tuple(map(double, self.args)), {k: double(v) for k, v in self.kwargs.items()})


@dataclass(frozen=True)
class Trained(Built):
    """A program in train mode: a call is forward, backward and an optimizer's step. What has no parameters learns
    its inputs."""

    optimizer: torch.optim.Optimizer

    @classmethod
    def of(cls, built: Built) -> Trained:
        learnt = list(built.fn.train().parameters()) if isinstance(built.fn, nn.Module) else []
        if not learnt:
            inputs = [tensor for tensor in measure.tensors(built.args) if tensor.is_floating_point()]
            learnt = [tensor.requires_grad_() for tensor in inputs]
        # So small that all calls do the same.
        return cls(built.fn, built.args, built.kwargs, torch.optim.SGD(learnt, lr=1e-9))

    def once(self, fn: Callable[..., Any]) -> torch.Tensor:
        self.optimizer.zero_grad()
        results = [tensor for tensor in measure.tensors(super().once(fn)) if tensor.requires_grad]
        loss = torch.stack([tensor.square().mean() for tensor in results]).sum()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


@dataclass(frozen=True)
class Case:
    """`cold_limit_ms` bounds the sum of braze's phase timers for a first compilation."""

    name: str
    group: str  # "micro", "scorer", "model" or "kernel"
    build: Callable[[], Built]
    cold_limit_ms: float | None = None


def _scorer(make: Callable[[], nn.Module]) -> Callable[[], Built]:
    def build() -> Built:
        torch.manual_seed(0)
        return Built(make().eval(), (torch.randn(32, 196, 768), torch.randn(32, 1, 768)), {})

    return build


def _plus_one() -> Built:
    return Built(lambda x: x + 1, (torch.arange(10, dtype=torch.float32),), {})


def _mlp() -> Built:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512))
    return Built(model.eval(), (torch.randn(64, 512),), {})


def _bert(batch: int, tokens: int) -> Callable[[], Built]:
    def build() -> Built:
        from transformers import BertConfig, BertModel

        torch.manual_seed(0)
        config = BertConfig()
        return Built(BertModel(config).eval(), (torch.randint(config.vocab_size, (batch, tokens)),), {})

    return build


def _gpt2(batch: int, tokens: int) -> Callable[[], Built]:
    def build() -> Built:
        from transformers import GPT2Config, GPT2Model

        torch.manual_seed(0)
        config = GPT2Config(use_cache=False)
        return Built(GPT2Model(config).eval(), (torch.randint(config.vocab_size, (batch, tokens)),), {})

    return build


class TrainingStep(nn.Module):
    """Forward and backward of a model; its gradients are left in `.grad`."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, *args):
        with torch.enable_grad():
            self.model.zero_grad()
            result = self.model(*args)
            loss = (result if torch.is_tensor(result) else result[0]).square().mean()
            loss.backward()
        return loss.detach()


def _trained(build: Callable[[], Built]) -> Callable[[], Built]:
    """Without dropout: every call gives the same numbers."""

    def build_step() -> Built:
        built = build()
        return Built(TrainingStep(built.fn), built.args, built.kwargs)

    return build_step


def _pointwise(x, y):
    return torch.relu(x * 1.5 + y) * torch.sigmoid(x) - 0.25


def _softmax(x):
    return torch.softmax(x, dim=-1)


def _layer_norm(x, weight, bias):
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def _entropy(x):
    p = torch.softmax(x, dim=-1)
    return -(p * torch.log(p)).sum(dim=-1)


def _transpose(x):
    return x.t().contiguous()


COLUMNS = 1024


def _kernel(
    fn: Callable[..., Any], megabytes: int, extra: Callable[[int], tuple] = lambda rows: ()
) -> Callable[[], Built]:
    """A function of one f32 matrix of `megabytes` MiB (and what `extra` makes for that many rows)."""

    def build() -> Built:
        torch.manual_seed(0)
        rows = megabytes * 2**20 // (4 * COLUMNS)
        return Built(fn, (torch.randn(rows, COLUMNS), *extra(rows)), {})

    return build


def _weight_and_bias(rows: int) -> tuple:
    return torch.randn(COLUMNS), torch.randn(COLUMNS)


def _second_matrix(rows: int) -> tuple:
    return (torch.randn(rows, COLUMNS),)


CASES: dict[str, Case] = {
    case.name: case
    for case in [
        Case("x+1", "micro", _plus_one, cold_limit_ms=25),
        Case("mlp", "model", _mlp, cold_limit_ms=50),
        Case("information", "scorer", _scorer(Information), cold_limit_ms=60),
        Case("salience", "scorer", _scorer(Salience), cold_limit_ms=60),
        Case("query-content", "scorer", _scorer(QueryContent), cold_limit_ms=60),
        Case("scorers", "scorer", _scorer(AllScorers), cold_limit_ms=60),
        Case("bert-4x256", "model", _bert(4, 256), cold_limit_ms=200),
        Case("bert-1x8", "model", _bert(1, 8), cold_limit_ms=200),
        Case("gpt2-4x256", "model", _gpt2(4, 256), cold_limit_ms=200),
        Case("gpt2-1x8", "model", _gpt2(1, 8), cold_limit_ms=200),
        Case("mlp-train", "model", _trained(_mlp), cold_limit_ms=60),
        Case("bert-train-4x256", "model", _trained(_bert(4, 256)), cold_limit_ms=300),
        Case("bert-train-1x8", "model", _trained(_bert(1, 8)), cold_limit_ms=300),
        Case("gpt2-train-4x256", "model", _trained(_gpt2(4, 256)), cold_limit_ms=300),
        Case("gpt2-train-1x8", "model", _trained(_gpt2(1, 8)), cold_limit_ms=300),
        *(
            Case(f"{name}-{megabytes}MB", "kernel", _kernel(fn, megabytes, *extra))
            for megabytes in (64, 512)
            for name, fn, *extra in [
                ("pointwise", _pointwise, _second_matrix),
                ("softmax", _softmax),
                ("layer-norm", _layer_norm, _weight_and_bias),
                ("entropy", _entropy),
                ("transpose", _transpose),
            ]
        ),
    ]
}


def select(groups: tuple[str, ...], only: list[str] | None) -> list[Case]:
    """The cases of `groups`, or those of them whose name contains one of the words in `only`."""
    names = [case.name for case in CASES.values() if case.group in groups]
    return [CASES[name] for name in measure.named_like(names, only)]
