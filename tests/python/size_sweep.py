"""One compiled function at many sizes: samples of operators (OpInfo) and random programs with all sizes symbolic,
against eager: results, or with --gradients the gradients of the arguments.

Each sample is called as it is, and as it is with other sizes: all larger, twice as large, one of them 1 or 0.
Calls that eager refuses are left out. As a script:
    python tests/python/size_sweep.py --ops 'softmax|sum$' --dtypes float32,int64 --samples 0
    python tests/python/size_sweep.py --programs 300
    python tests/python/size_sweep.py --table table.txt      (which operators want sizes as numbers, how often)
    python tests/python/size_sweep.py --gradients --automatic    (dynamic=None: symbols from the second shape on)
"""

import argparse
import contextlib
import dataclasses
import logging
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import opinfo_sweep
import oracle
import processes
import random_programs
import torch
from opinfo_skips import ANY_STRIDES, KNOWN, NO_VALUES, SKIPPED
from torch.utils import _pytree as pytree

import braze

Call = tuple[tuple[Any, ...], dict[str, Any]]
LARGEST = 1 << 18  # elements of a tensor
# Whose kernels read beyond their arguments, or crash, where offsets or lengths are not those of the sizes; or whose
# result is memory that nobody has written, where there is nothing to add up.
UNSAFE = {"nn.functional.embedding_bag", "_segment_reduce.offsets", "_segment_reduce.lengths"}
UNWRITTEN = {"nn.functional.multi_margin_loss"}
# Singular vectors are any of many; and the weights of cubic samples cancel, whether sizes are numbers or not.
MANY_ANSWERS = {"pca_lowrank", "svd_lowrank", "grid_sampler_2d"}
# Of matrices that have lost their rank where their elements are repeated.
NO_GRADIENT = MANY_ANSWERS | {"pinverse"}


# -------------------------------------------------------------------------------------------- calls of other sizes


def _sizes_of(call: Call) -> list[int]:
    tensors = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor)]
    return sorted({size for tensor in tensors for size in tensor.shape if size > 1})


def resized(tensor: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Its elements over again, and its dimensions in the same order in memory; expanded ones stay so."""
    source = tensor.detach()
    own = [k for k in range(source.dim()) if source.stride(k) != 0 or source.shape[k] <= 1]
    kept = [sizes[k] if k in own else 1 for k in range(source.dim())]
    count = 1
    for size in kept:
        count *= size
    flat = source[tuple(slice(None) if k in own else slice(0, 1) for k in range(source.dim()))].reshape(-1)
    if not flat.numel():
        flat = flat.new_zeros(1)
    values = flat[torch.arange(count, device=flat.device) % flat.numel()].view(kept)
    order = sorted(range(source.dim()), key=lambda k: -source.stride(k))
    values = values.permute(order).contiguous().permute([order.index(k) for k in range(source.dim())])
    return values.expand(sizes).requires_grad_(tensor.requires_grad)


def with_sizes(call: Call, change: dict[int, int], numbers: bool) -> Call | None:
    """The call with other sizes of tensors, and other ints where these are among the old sizes."""
    made: dict[int, torch.Tensor] = {}

    def one(leaf):
        if isinstance(leaf, torch.Tensor):
            if leaf.layout != torch.strided or leaf.is_conj() or leaf.is_neg():
                return leaf
            sizes = [change.get(size, size) for size in leaf.shape]
            if id(leaf) not in made:
                made[id(leaf)] = leaf if sizes == list(leaf.shape) else resized(leaf, sizes)
            return made[id(leaf)]
        return change.get(leaf, leaf) if numbers and type(leaf) is int else leaf

    changed = pytree.tree_map(one, call)
    large = any(leaf.numel() > LARGEST for leaf in made.values())
    return None if large or all(leaf is old for leaf, old in _pairs(changed, call)) else changed


def _pairs(one: Call, other: Call) -> Iterator[tuple[Any, Any]]:
    return zip(pytree.tree_leaves(one), pytree.tree_leaves(other), strict=True)


def changes(call: Call) -> Iterator[tuple[str, dict[int, int]]]:
    sizes = _sizes_of(call)
    if not sizes:
        return
    yield "larger", {size: size + 1 + k for k, size in enumerate(sizes)}
    yield "twice", {size: 2 * size for size in sizes}
    yield "smaller", {size: max(2, size - 1) for size in sizes}
    for size in {sizes[0], sizes[-1]}:
        yield f"{size} as 1", {size: 1}
        yield f"{size} as 0", {size: 0}
        yield f"{size} alone", {size: size + 3}


def calls_of(fn: Callable[..., Any], call: Call) -> Iterator[tuple[str, Call]]:
    """The call, and those of other sizes that eager takes; the call again at the end."""
    yield "as it is", call
    for name, change in changes(call):
        for numbers in (False, True):
            other = with_sizes(call, change, numbers)
            if other is None or not _runs(fn, other):
                continue
            yield name, other
            break
    yield "as it is again", call


def _runs(fn: Callable[..., Any], call: Call) -> bool:
    from braze._check import _Copies

    args, kwargs = _Copies().of(call)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        try:
            fn(*args, **kwargs)
        except Exception:
            return False
    return True


# ------------------------------------------------------------------------------------------------------- comparing

# Gradients are sums whose order is free: so many times f32's own rounding, of the largest element.
GRADIENT_SLACK = 2e-4


def gradients(fn: Callable[..., Any], call: Call) -> list[torch.Tensor | None]:
    """Of the arguments, for fixed gradients of the results."""
    from braze._check import _Copies

    args, kwargs = _Copies().of(call)
    leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    wanted = [leaf.requires_grad_() for leaf in leaves if leaf.is_floating_point() or leaf.is_complex()]
    torch.manual_seed(0)
    results = [leaf for leaf in pytree.tree_leaves(fn(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
    results = [leaf for leaf in results if leaf.requires_grad]
    if not results or not wanted:
        return []
    weights = [
        torch.linspace(0.5, 1.5, leaf.numel(), dtype=torch.float64).view(leaf.shape).to(leaf.dtype)
        for leaf in results
    ]
    return list(torch.autograd.grad(results, wanted, weights, allow_unused=True))


def check_gradients(compiled: Callable[..., Any], fn: Callable[..., Any], call: Call) -> None:
    """Not their strides: a gradient that is a view of another one has that one's in eager, and is dense here, at
    one size as at all (what is accumulated in `.grad` lies as its tensor does)."""
    try:
        expected = gradients(fn, call)
    except Exception:
        return
    # Rounding of what gradients are made of goes by the largest of them.
    there = [one.abs().nan_to_num(0, 0, 0) for one in expected if one is not None and one.numel()]
    largest = max([1.0, *(float(one.max()) for one in there)])
    allowed = GRADIENT_SLACK * largest
    for k, (one, other) in enumerate(zip(gradients(compiled, call), expected, strict=True)):
        if one is None or other is None:
            if one is not other:
                raise oracle.Mismatch(f"gradient {k} is {'None' if one is None else 'there'}, in eager it is not")
            continue
        oracle._compare_types(f"gradient {k}", one, other, False)
        if not torch.allclose(one, other, rtol=GRADIENT_SLACK, atol=allowed, equal_nan=True):
            raise oracle.Mismatch(f"gradient {k} is {one}, in eager {other}")


@dataclasses.dataclass
class Counts:
    samples: int = 0
    calls: int = 0
    captured: int = 0
    native: int = 0  # calls
    once: int = 0  # samples of which every size above 1 is served by one capture
    failing: int = 0
    specialised: Counter[str] = dataclasses.field(default_factory=Counter)  # by operator or reason, samples

    def add(self, other: "Counts") -> None:
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def __str__(self) -> str:
        return (
            f"{self.samples} samples, {self.calls} calls: {self.failing} fail, {self.captured} captures, "
            f"{self.native} calls native; one capture for all sizes above 1 in {self.once}"
        )


class _Reasons(logging.Handler):
    """Why sizes became numbers, from the log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def names(self) -> Iterator[str]:
        for text in self.texts:
            if found := re.search(r"asked for by (\S+)", text):
                yield found[1]


@contextlib.contextmanager
def _told() -> Iterator[_Reasons]:
    handler = _Reasons()
    logger = logging.getLogger("braze.recompiles")
    braze.set_logs(recompiles=True)
    before, logger.propagate = logger.propagate, False
    stderr, logger.handlers = logger.handlers, [handler]
    try:
        yield handler
    finally:
        logger.handlers, logger.propagate = stderr, before
        braze.set_logs()


def compare(
    fn: Callable[..., Any],
    calls: Iterator[tuple[str, Call]],
    counts: Counts,
    begin: Callable[[str], None] = lambda where: None,
    *,
    dynamic: bool | None = True,
    of_gradients: bool = False,
    **how: Any,
) -> list[str]:
    """What differs from eager, call by call, of one function compiled with symbols for all sizes."""
    failures = []
    with _told() as reasons, braze.config.patch(recompile_limit=64):
        compiled = braze.compile(fn, dynamic=dynamic)
        captured = 0
        for label, (args, kwargs) in calls:
            begin(label)
            counts.calls += 1
            try:
                if of_gradients:
                    check_gradients(compiled, fn, (args, kwargs))
                else:
                    oracle.check_call(compiled, fn, args, kwargs, **how)
            except oracle.Mismatch as mismatch:
                failures.append(f"{label}: {mismatch}")
            now = compiled.counts()["captured"]
            if label in ("larger", "twice", "smaller"):
                captured = max(captured, now)
        counts.samples += 1
        counts.captured += compiled.counts()["captured"]
        counts.native += compiled.counts()["native"]
        counts.once += captured <= (1 if dynamic else 2) and not compiled.counts()["native"]
        counts.specialised.update(set(reasons.names()))
        if compiled.counts()["native"]:
            counts.specialised.update({f"native: {reason}" for reason in compiled.reasons()})
    counts.failing += bool(failures)
    return failures


def sweep(
    op, dtype: torch.dtype, samples: int, seconds: float, begin: Callable[[str], None], **settings: Any
) -> tuple[list[str], Counts]:
    """Failures and counts of an operator's samples."""
    name, counts = opinfo_sweep.name_of(op), Counts()
    if name in SKIPPED or name in KNOWN or name in UNSAFE or dtype not in op.supported_dtypes("cpu"):
        return [], counts
    until, failures = time.monotonic() + seconds, []
    for k, sample in enumerate(opinfo_sweep.samples_of(op, dtype, samples)):
        if time.monotonic() > until or not opinfo_sweep.is_there(sample, ("cpu",)):
            continue
        variant = op.op

        def call(*args, variant=variant, **kwargs):
            return variant(*args, **kwargs)

        where = f"{name} {str(dtype).removeprefix('torch.')} sample {k}"
        example = ((sample.input, *sample.args), sample.kwargs)
        has_values = not ({name} & (NO_VALUES | UNWRITTEN | MANY_ANSWERS))
        how = {"values": has_values, "strides": name not in ANY_STRIDES}
        if settings.get("of_gradients") and name in NO_GRADIENT:
            continue
        found = compare(
            call, calls_of(call, example), counts, lambda at, w=where: begin(f"{w} {at}"), **settings, **how
        )
        failures += [f"{where} {failure}" for failure in found]
    return failures, counts


def program_failures(seed: int, counts: Counts, begin: Callable[[str], None] = lambda where: None) -> list[str]:
    program = random_programs.program(seed)
    fn = program.function()
    calls = calls_of(fn, (program.arguments(), {}))
    found = compare(fn, calls, counts, begin, wider=program.function(wide=True), amplified=True)
    return [f"seed {seed} {failure}" for failure in found if "which cannot be traced" not in failure]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="", help="a regular expression")
    parser.add_argument("--dtypes", default="float32", help="'all', or names with commas")
    parser.add_argument("--samples", type=int, default=3, help="of each operator; 0: all")
    parser.add_argument("--programs", type=int, default=0, help="so many random programs instead of operators")
    parser.add_argument("--first", type=int, default=0, help="seed of the first of them")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120, help="for one operator in one dtype")
    parser.add_argument("--gradients", action="store_true", help="of the arguments, instead of results")
    parser.add_argument("--automatic", action="store_true", help="dynamic=None")
    parser.add_argument("--table", help="a file for a line an operator and dtype")
    options = parser.parse_args()

    settings = {"dynamic": None if options.automatic else True, "of_gradients": options.gradients}

    def operator(unit: tuple, say: Callable[[str], None]) -> tuple[list[str], Counts]:
        try:
            return sweep(*unit, options.samples, options.seconds, say, **settings)
        except Exception as error:
            return [f"{named(unit)}: the sweep itself failed: {type(error).__name__}: {error}"], Counts()

    def program(seed: int, say: Callable[[str], None]) -> tuple[list[str], Counts]:
        counts = Counts()
        return program_failures(seed, counts, say), counts

    def named(unit: Any) -> str:
        return f"seed {unit}" if isinstance(unit, int) else f"{opinfo_sweep.name_of(unit[0])} {unit[1]}"

    if options.programs:
        units, task = list(range(options.first, options.first + options.programs)), program
    else:
        units, task = opinfo_sweep.units(options.ops, options.dtypes, opinfo_sweep.DTYPES), operator
    total, bad, lines = Counts(), 0, []
    for unit, result in processes.results(units, task, jobs=options.jobs, seconds=2 * options.seconds):
        if isinstance(result, processes.Crash):
            result = [f"{named(unit)} {result.last}: {result}"], Counts()
        failures, counts = result
        total.add(counts)
        bad += len(failures)
        lines.append(f"{named(unit)}: {counts}; {dict(counts.specialised)}\n")
        for line in failures:
            print(line, flush=True)
    if options.table:
        with open(options.table, "w") as file:
            file.writelines(sorted(lines))
    for name, count in total.specialised.most_common(60):
        print(f"{count:5d}  {name}")
    print(total, f"{bad} failures", sep="\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
