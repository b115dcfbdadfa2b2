"""Whole architectures whose sizes vary: batch and length, or batch and the sides of images.

As a script: a table of captures, programs and the operators that wanted sizes as numbers.
    python tests/python/architecture_sizes.py                 # every architecture
    python tests/python/architecture_sizes.py bert t5 --seed 3
"""

import argparse
import copy
import dataclasses
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import oracle
import processes
import size_sweep
import torch
from architectures import ARCHITECTURES
from test_architectures import randomised

import braze

Inputs = dict[str, torch.Tensor]
# Batch, and what is added to the other sizes. Patches and windows want steps that are alike.
CHANGES = ((3, 0), (4, 1), (6, 3), (5, 5), (9, 2))
IMAGE_STEP = 16
# Their configuration fixes these sizes: positions are for them alone.
FIXED = {"input_features"}


def resized(inputs: Inputs, batch: int, longer: int) -> Inputs:
    """The inputs with another batch, and with other lengths or sides."""
    made = {}
    for name, tensor in inputs.items():
        sizes = [batch, *tensor.shape[1:]]
        if name not in FIXED:
            first = 2 if tensor.dim() == 4 else 1
            step = IMAGE_STEP if tensor.dim() == 4 else 1
            sizes[first:] = [size + step * longer for size in sizes[first:]]
        made[name] = size_sweep.resized(tensor, sizes)
    if "attention_mask" in made:
        made["attention_mask"][:, 0] = 1
    return made


def _accepts(module: torch.nn.Module, inputs: Inputs) -> bool:
    try:
        module(**inputs)
    except Exception:
        return False
    return True


def calls_of(module: torch.nn.Module, inputs: Inputs) -> Iterator[Inputs]:
    """Inputs of other sizes that eager takes: with lengths of their own where it takes these, else with batches."""
    for batch, longer in CHANGES:
        made = resized(inputs, batch, longer)
        yield made if _accepts(module, made) else resized(inputs, batch, 0)


@dataclasses.dataclass
class Result:
    static: int = 0  # captures of the first call
    captured: int = 0  # captures of all calls, dynamic=None
    late: int = 0  # those of the third and later calls
    native: int = 0
    varied: int = 0  # different sizes of a call's tensors, over all calls
    reasons: list[str] = dataclasses.field(default_factory=list)
    failures: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        counts = f"{self.static} static, {self.captured} captures, {self.late} late, {self.native} native"
        return "; ".join([counts, *self.reasons, *(f"FAILS {text}" for text in self.failures)])


def example(name: str, seed: int = 0) -> tuple[torch.nn.Module, Inputs]:
    torch.manual_seed(seed)
    module, inputs = ARCHITECTURES[name](random.Random(f"{name} {seed}"))
    return randomised(module), inputs


def check(name: str, seed: int = 0) -> Result:
    """The architecture at several sizes with dynamic=None, each call against eager."""
    module, inputs = example(name, seed)
    result = Result()
    with torch.no_grad(), warnings.catch_warnings(), size_sweep._told() as told:
        warnings.simplefilter("ignore")
        module(**resized(inputs, *CHANGES[0]))
        compiled, wider = braze.compile(module.forward), copy.deepcopy(module).double()
        for k, call in enumerate(calls_of(module, inputs)):
            before = compiled.counts()["captured"]
            try:
                oracle.check_call(compiled, module, (), call, wider=wider, slack=16)
            except oracle.Mismatch as mismatch:
                result.failures.append(f"call {k}: {mismatch}")
            now = compiled.counts()["captured"] - before
            result.static += now if k == 0 else 0
            result.late += now if k > 1 else 0
        result.captured, result.native = (compiled.counts()[key] for key in ("captured", "native"))
        result.reasons = list(dict.fromkeys(told.texts))
        result.reasons += [f"native: {reason}" for reason in compiled.reasons()]
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="architectures; none: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--brief", action="store_true", help="without the reasons")
    options = parser.parse_args()

    def task(name: str, say: Any) -> Result:
        try:
            return check(name, options.seed)
        except Exception as error:
            return Result(failures=[f"{type(error).__name__}: {error}"])

    short = 0
    for name, result in processes.results(options.names or list(ARCHITECTURES), task, jobs=1, seconds=300):
        if isinstance(result, processes.Crash):
            result = Result(failures=[str(result)])
        if options.brief:
            result.reasons = []
        short += bool(result.failures or result.late or result.native)
        print(f"{name}: {result}", flush=True)
    print(f"{short} fall short")
    return bool(short)


if __name__ == "__main__":
    sys.exit(main())
