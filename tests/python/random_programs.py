"""Random PyTorch programs as text: made from a seed, shrunk to the few lines that fail.

A program is a list of lines `v7 = torch.add(v3, v1)` over named tensors. It is run eagerly while it is made, so every
line is valid for the shapes before it. *Inexact* values (sums of floats, exp, ...) may differ in their last bits between
eager and a program, so they never reach what turns the last bit into another result: comparisons, floor, casts to
integers, argmax, denominators. Memory that holds one is tracked through views.

As a script:
    python tests/python/random_programs.py --first 0 --count 1000
"""
# ruff: noqa: E501  (the table of forms is wide)

import argparse
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator

import oracle
import processes
import torch

FLOATS = ("float32", "float32", "float32", "float64", "bfloat16", "float16")
INTEGERS = ("int64", "int64", "int32", "int16", "int8", "uint8")
LARGEST = 4096  # elements of any value
# No number so large that a sum of squares overflows in f32: in which order it does so is nobody's promise.
SPECIAL = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1e-40, 1e15)


def make(shape: tuple[int, ...], dtype: str, seed: int, layout: str) -> torch.Tensor:
    """An input: eighths in [-4, 4], with special values if the seed says so; small integers; bools."""
    generator = torch.Generator().manual_seed(seed)
    kind = getattr(torch, dtype)
    base = {"transposed": shape[::-1], "strided": tuple(2 * n for n in shape)}.get(layout, shape)
    eighths = torch.randint(-32, 33, base, generator=generator)
    if kind == torch.bool:
        value = eighths > 0
    elif kind.is_floating_point:
        value = (eighths / 8).to(kind)
        if seed % 4 == 0 and value.numel():
            for k in torch.randint(0, value.numel(), (1 + value.numel() // 8,), generator=generator).tolist():
                value.view(-1)[k] = SPECIAL[(k + seed) % len(SPECIAL)]
    else:
        value = (eighths.abs() if dtype == "uint8" else eighths).to(kind)
    if layout == "transposed":
        return value.permute(tuple(range(len(shape)))[::-1])
    if layout == "strided":
        return value[tuple(slice(None, None, 2) for _ in shape)]
    return value


class Maker:
    """Makes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.inputs: list[str] = []
        self.values: dict[str, torch.Tensor] = {"torch": torch, "F": torch.nn.functional}  # type: ignore[dict-item]
        self.inexact: set[int] = set()  # storages
        self.seed = seed

    # ---- choosing

    def names(self, where: Callable[[torch.Tensor], bool] = lambda _: True) -> list[str]:
        found = [k for k, v in self.values.items() if isinstance(v, torch.Tensor) and where(v)]
        return found + found[-4:]  # late values more often

    def pick(self, where: Callable[[torch.Tensor], bool] = lambda _: True) -> str:
        found = self.names(where)
        if not found:
            raise LookupError
        return self.random.choice(found)

    def is_exact(self, tensor: torch.Tensor) -> bool:
        return not tensor.is_floating_point() or tensor.untyped_storage()._cdata not in self.inexact

    def floating(self) -> str:
        return self.pick(lambda v: v.is_floating_point())

    def exact(self) -> str:
        return self.pick(lambda v: v.is_floating_point() and self.is_exact(v))

    def integral(self) -> str:
        return self.pick(lambda v: not v.is_floating_point() and v.dtype != torch.bool)

    def boolean(self) -> str:
        return self.pick(lambda v: v.dtype == torch.bool)

    def numeric(self) -> str:
        return self.pick(lambda v: v.dtype != torch.bool)

    def like(self, name: str, dtype: bool = True) -> str:
        """A value that broadcasts with `name`."""
        mine = self.values[name]

        def fits(other: torch.Tensor) -> bool:
            pairs = zip(mine.shape[::-1], other.shape[::-1], strict=False)
            return all(a == b or 1 in (a, b) for a, b in pairs) and (not dtype or other.dtype == mine.dtype)

        return self.pick(fits)

    def dim(self, name: str) -> int:
        rank = self.values[name].dim()
        if rank == 0:
            raise LookupError
        return self.random.randrange(-rank, rank)

    def dims(self, name: str) -> tuple[int, ...]:
        rank = self.values[name].dim()
        if rank == 0:
            raise LookupError
        return tuple(sorted(self.random.sample(range(rank), self.random.randint(1, rank))))

    def number(self) -> str:
        return self.random.choice(["2", "0.5", "-1", "3", "1.25", "-0.75", "0", "1", "7"])

    def shape(self) -> tuple[int, ...]:
        sizes = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33]
        rank = self.random.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
        if self.random.random() < 0.06:
            sizes = [0, *sizes[:4]]
        while True:
            shape = tuple(self.random.choice(sizes) for _ in range(rank))
            if torch.Size(shape).numel() <= LARGEST // 2:
                return shape

    # ---- making

    def add_inputs(self) -> None:
        common = self.shape()
        for k in range(self.random.randint(1, 4)):
            shape = common if self.random.random() < 0.6 else self.shape()
            if self.random.random() < 0.3:
                shape = tuple(1 if self.random.random() < 0.4 else n for n in common)
            dtype = self.random.choice((*FLOATS, *FLOATS[:3], "int64", self.random.choice(INTEGERS), "bool"))
            layout = self.random.choice(["plain", "plain", "plain", "transposed", "strided"])
            self.inputs.append(f"make({shape}, {dtype!r}, {self.random.randrange(1000)}, {layout!r})")
            self.values[f"x{k}"] = eval(self.inputs[-1])

    def add_line(self) -> None:
        form, inexact = self.random.choice(FORMS)
        name = f"v{len(self.lines)}"
        try:
            text = form(self)
        except LookupError:
            return
        line = text if text.startswith("!") else f"{name} = {text}"
        line = line.removeprefix("!")
        scope = dict(self.values)
        versions = {k: v._version for k, v in self.values.items() if isinstance(v, torch.Tensor)}
        try:
            exec(line, scope)
        except Exception:
            # What eager refuses it must refuse before it writes.
            assert all(self.values[k]._version == version for k, version in versions.items()), line
            return
        result = scope.get(name)
        if isinstance(result, torch.Tensor) and (result.numel() > LARGEST or result.is_complex()):
            return
        self.lines.append(line)
        used = [self.values[word] for word in re.findall(r"\b[vx]\d+\b", line) if word in self.values]
        spoilt = inexact or any(not self.is_exact(tensor) for tensor in used)
        if isinstance(result, torch.Tensor):
            if spoilt:
                self.inexact.add(result.untyped_storage()._cdata)
            self.values[name] = result
        if line != f"{name} = {text}" and spoilt and used:
            self.inexact.add(used[0].untyped_storage()._cdata)

    def make(self) -> "Program":
        self.add_inputs()
        wanted = self.random.randint(5, 60)
        for _ in range(wanted * 3):
            if len(self.lines) >= wanted:
                break
            self.add_line()
        names = [k for k, v in self.values.items() if isinstance(v, torch.Tensor)]
        outputs = sorted(set(self.random.sample(names, min(len(names), self.random.randint(1, 4)))) | {names[-1]})
        return Program(self.seed, self.inputs, self.lines, outputs)


def unary(function: str, operand: Callable[[Maker], str]) -> Callable[[Maker], str]:
    return lambda m: function.format(operand(m))


def binary(function: str, operand: Callable[[Maker], str], same: bool = True) -> Callable[[Maker], str]:
    def form(m: Maker) -> str:
        x = operand(m)
        return function.format(x, m.like(x, dtype=same))

    return form


def _compare(m: Maker) -> str:
    x = m.pick(m.is_exact)
    y = m.like(x)
    if not m.is_exact(m.values[y]):
        raise LookupError
    return f"{x} {m.random.choice(['<', '<=', '>', '>=', '==', '!='])} {m.random.choice([y, y, m.number()])}"


def _divide(m: Maker) -> str:
    x = m.floating()
    y = m.like(x)
    if not m.is_exact(m.values[y]):
        return f"{x} / ({y}.abs() + 0.5)"
    return f"{x} / {y}"


def _rounded_quotient(m: Maker) -> str:
    x = m.exact()
    y = m.like(x)
    if not m.is_exact(m.values[y]):
        raise LookupError
    return m.random.choice(["torch.fmod({}, {})", "torch.remainder({}, {})", "torch.floor_divide({}, {})",
                            "torch.div({}, {}, rounding_mode='trunc')"]).format(x, y)  # fmt: skip


def _integer_quotient(m: Maker) -> str:
    x = m.integral()
    y = f"({m.like(x)}.abs().clamp(max=50) + 1)"
    return m.random.choice(["{} // {}", "{} % {}", "torch.fmod({}, {})", "{} / {}",
                            "torch.div({}, {}, rounding_mode='trunc')"]).format(x, y)  # fmt: skip


def _shift(m: Maker) -> str:
    x = m.integral()
    return f"{x} {m.random.choice(['<<', '>>'])} ({m.like(x)} & 3)"


def _slice(m: Maker) -> str:
    x = m.pick(lambda v: v.dim() > 0)
    parts = []
    for size in m.values[x].shape:
        low = m.random.randint(0, max(size // 2, 0))
        parts.append(
            m.random.choice([":", f"{low}:", f":{max(size - 1, 0)}", f"{low}::2", "::2", "None", f"{low}"])
        )
    return f"{x}[{', '.join(parts)}]"


def _permute(m: Maker) -> str:
    x = m.pick(lambda v: v.dim() > 1)
    order = list(range(m.values[x].dim()))
    m.random.shuffle(order)
    return f"{x}.permute({tuple(order)})"


def _reshape(m: Maker) -> str:
    x = m.pick(lambda v: v.dim() > 0)
    sizes = list(m.values[x].shape)
    k = m.random.randrange(len(sizes))
    how = m.random.random()
    if how < 0.4 and len(sizes) > 1:
        k = min(k, len(sizes) - 2)
        sizes[k : k + 2] = [sizes[k] * sizes[k + 1]]
    elif how < 0.7:
        for factor in (2, 3, 5, 7):
            if sizes[k] % factor == 0 and sizes[k]:
                sizes[k : k + 1] = [factor, sizes[k] // factor]
                break
    else:
        sizes = [m.values[x].numel()]
    return f"{x}.{m.random.choice(['reshape', 'reshape', 'view'])}({tuple(sizes)})"


def _expand(m: Maker) -> str:
    x = m.pick()
    sizes = [n if n != 1 else m.random.choice([1, 3, 4]) for n in m.values[x].shape]
    return f"{x}.expand({tuple([m.random.choice([2, 3])] * m.random.randint(0, 1) + sizes)})"


def _cat(m: Maker) -> str:
    x = m.pick(lambda v: v.dim() > 0)
    dim = m.dim(x)

    def fits(other: torch.Tensor) -> bool:
        mine = m.values[x]
        k = dim % mine.dim()
        return other.dim() == mine.dim() and all(
            a == b for i, (a, b) in enumerate(zip(mine.shape, other.shape, strict=True)) if i != k
        )

    parts = [x, *(m.pick(fits) for _ in range(m.random.randint(0, 2)))]
    return f"torch.cat([{', '.join(parts)}], {dim})"


def _stack(m: Maker) -> str:
    x = m.pick()
    return f"torch.stack([{x}, {m.pick(lambda v: v.shape == m.values[x].shape)}], {m.random.choice([0, -1])})"


def _pad(m: Maker) -> str:
    x = m.pick(lambda v: 0 < v.dim() < 5)
    widths = tuple(m.random.choice([0, 1, 2, -1]) for _ in range(2 * m.random.randint(1, m.values[x].dim())))
    value = "0" if m.values[x].dtype == torch.bool else m.random.choice(["0", "1", "2.5"])
    if not m.values[x].is_floating_point():
        value = value.replace("2.5", "3")
    return f"F.pad({x}, {widths}, value={value})"


def reduce(function: str, operand: Callable[[Maker], str], several: bool = True) -> Callable[[Maker], str]:
    def form(m: Maker) -> str:
        x = operand(m)
        if several and m.random.random() < 0.2:
            return f"{x}.{function}()"
        dims = m.dims(x) if several else m.dim(x)
        return f"{x}.{function}({dims}, keepdim={m.random.random() < 0.5})"

    return form


def along(function: str, operand: Callable[[Maker], str]) -> Callable[[Maker], str]:
    def form(m: Maker) -> str:
        x = operand(m)
        return function.format(x, m.dim(x))

    return form


def _layer_norm(m: Maker) -> str:
    x = m.pick(lambda v: v.is_floating_point() and v.dim() > 0 and v.numel() > 0)
    size = m.values[x].shape[-1]
    dtype = m.values[x].dtype
    weights = m.names(lambda v: v.dtype == dtype and tuple(v.shape) == (size,))
    weight = m.random.choice([*weights, "None"])
    # Of a constant row only rounding errors are left: the usual eps would multiply them by 300.
    return f"F.layer_norm({x}.clamp(-1e4, 1e4), ({size},), {weight}, {m.random.choice([*weights, 'None'])}, 0.1)"


def _matmul(m: Maker) -> str:
    x = m.pick(lambda v: v.is_floating_point() and v.dim() > 0)
    mine = m.values[x]
    y = m.pick(
        lambda v: (
            v.dtype == mine.dtype and v.dim() > 0 and mine.shape[-1] in (v.shape[-1], v.shape[max(v.dim() - 2, 0)])
        )
    )
    swap = m.values[y].dim() > 1 and m.values[y].shape[-2] != mine.shape[-1]
    return f"{x} @ {y}{'.transpose(-1, -2)' if swap else ''}"


def _index(m: Maker) -> str:
    x = m.pick(lambda v: v.dim() > 0 and v.numel() > 0)
    i = m.pick(lambda v: v.dtype in (torch.int64, torch.int32) and v.numel() < 200)
    dim = m.dim(x)
    size = m.values[x].shape[dim]
    index = f"({i} % {size}).long()"
    how = m.random.random()
    if how < 0.3:
        return f"{x}.index_select({dim}, {index}.reshape(-1))"
    if how < 0.5 and m.values[x].dim() == 2:
        return f"F.embedding(({i} % {m.values[x].shape[0]}).long(), {x})"
    if how < 0.75:
        return f"{x}[({i} % {m.values[x].shape[0]}).long()]"
    return f"torch.gather({x}, {dim}, ({x}.nan_to_num(0).clamp(-9, 9).long() * 0 + 1) % {size})"


def _where(m: Maker) -> str:
    x = m.pick()
    condition = m.like(x, dtype=False)
    y = m.like(x)
    if m.values[condition].dtype != torch.bool:
        condition = m.boolean()
    other = m.random.choice([y, y, m.number()])
    return m.random.choice(
        [f"torch.where({condition}, {x}, {other})", f"{x}.masked_fill({condition}, {m.number()})"]
    )


def _cast(m: Maker) -> str:
    x = m.pick()
    value = m.values[x]
    to = m.random.choice([*FLOATS, *FLOATS[:2], "int64", m.random.choice(INTEGERS), "bool"])
    if value.is_floating_point() and not getattr(torch, to).is_floating_point:
        if not m.is_exact(value):
            raise LookupError
        if to != "bool":
            return f"{x}.nan_to_num(0).clamp(0, 100).to(torch.{to})"
    return f"{x}.to(torch.{to})"


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether two elements may lie at one place (an expanded tensor, an unfolded one)."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def overlap_partly(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether what is read may have been written before: then the result depends on the order of eager's loop."""

    def places(tensor: torch.Tensor) -> set[int]:
        count = tensor.untyped_storage().nbytes() // tensor.element_size()
        return set(
            torch.arange(count)
            .as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
            .flatten()
            .tolist()
        )

    if one.untyped_storage()._cdata != other.untyped_storage()._cdata or not one.numel() or not other.numel():
        return False
    same = (one.shape, one.stride(), one.storage_offset()) == (other.shape, other.stride(), other.storage_offset())
    return not same and bool(places(one) & places(other))


def in_place(function: str, operand: Callable[[Maker], str]) -> Callable[[Maker], str]:
    def form(m: Maker) -> str:
        x = operand(m)
        mine = m.values[x]
        if overlaps_itself(mine):
            raise LookupError  # Eager refuses such writes, or the result depends on how its loop was vectorised.

        def fits(v: torch.Tensor) -> bool:
            joined = v.dim() <= mine.dim() and all(
                a in (b, 1) for a, b in zip(v.shape[::-1], mine.shape[::-1], strict=False)
            )
            return joined and v.dtype == mine.dtype

        y = m.pick(fits) if "{1}" in function else ""
        if y and overlap_partly(mine, m.values[y]):
            raise LookupError
        return "!" + function.format(x, y, m.number())

    return form


def _out(m: Maker) -> str:
    x = m.numeric()
    mine = m.values[x]
    y = m.pick(lambda v: v.dtype == mine.dtype and v.shape == mine.shape and not overlaps_itself(v))
    if overlap_partly(mine, m.values[y]):
        raise LookupError
    return f"!torch.mul({x}, 2, out={y})"


def _assign(m: Maker) -> str:
    x = m.pick(lambda v: v.dim() > 0)
    place = _slice(m)
    if "None" in place:
        raise LookupError
    target = m.values[place.split("[")[0]]
    written = eval(place, {**m.values})
    shape = written.shape
    if overlaps_itself(target):
        raise LookupError
    try:
        y = m.pick(lambda v: v.dtype == target.dtype and tuple(v.shape) == tuple(shape))
    except LookupError:
        y = m.random.choice([m.number(), x]) if target.dtype != torch.bool else "True"
    if y in m.values and m.values[y].is_floating_point() and not target.is_floating_point():
        raise LookupError
    if y in m.values and overlap_partly(written, m.values[y]):
        raise LookupError
    if y not in m.values and not target.is_floating_point() and target.dtype != torch.bool:
        y = "1"
    return f"!{place} = {y}"


def _factory(m: Maker) -> str:
    x = m.pick()
    shape = tuple(m.values[x].shape)
    kind = m.random.choice(["float32", "float64", "int64", "bool"])
    n = m.random.randint(1, 12)
    return m.random.choice([f"torch.zeros({shape}, dtype=torch.{kind})", f"torch.ones_like({x})", f"torch.arange({n})",
                            f"torch.arange(0, {n}, 0.5)", f"torch.full({shape}, {m.number()})", f"torch.eye({n})",
                            f"torch.full_like({x}, 1)", f"torch.tensor([1.0, 2.0, {m.number()}])", f"torch.tensor({m.number()})",
                            f"torch.arange({shape[-1] if shape else 3}, dtype=torch.float32)", f"torch.zeros_like({x})"])  # fmt: skip


def _scalar_arithmetic(m: Maker) -> str:
    x = m.floating()
    return m.random.choice(["{} + {}", "{} - {}", "{} * {}", "{} / {}", "{1} - {0}", "torch.maximum({}, torch.tensor({}))",
                            "torch.clamp({}, min={})", "torch.clamp({}, max={})"]).format(x, m.number())  # fmt: skip


def _integer_scalar(m: Maker) -> str:
    x = m.integral()
    return m.random.choice(["{} + {}", "{} - {}", "{} * {}", "{} + 0.5", "{} // 3", "{} % 5", "{} & {}", "{} | {}",
                            "{} ^ {}", "{} / 3", "{} * 1.5", "{} == {}", "{} > {}", "~{}", "-{}",
                            "{}.abs()"]).format(x, m.random.choice(["1", "2", "3", "7"]))  # fmt: skip


def _view(m: Maker) -> str:
    x = m.pick(lambda v: v.dim() > 0)
    d = m.dim(x)
    size = m.values[x].shape[d]
    return m.random.choice([f"{x}.unsqueeze({d})", f"{x}.squeeze()", f"{x}.squeeze({d})", f"{x}.flip({d})", f"{x}.transpose({d}, 0)",
                            f"{x}.narrow({d}, 0, {max(size - 1, 0)})", f"{x}.select({d}, {size - 1})", f"{x}.unbind({d})[-1]",
                            f"{x}.chunk(2, {d})[-1]", f"{x}.split(2, {d})[0]", f"{x}.movedim({d}, 0)", f"{x}.flatten()",
                            f"{x}.unfold({d}, 2, 1)", f"torch.roll({x}, 1, {d})", f"{x}.mT", f"{x}.diagonal()", f"{x}.T",
                            f"{x}.repeat_interleave(2, {d})", f"torch.tile({x}, (2,))"])  # fmt: skip


def _pair(m: Maker) -> str:
    x = m.pick(lambda v: m.is_exact(v) and v.dim() > 0 and v.numel() > 0 and v.dtype != torch.bool)
    d = m.dim(x)
    return m.random.choice([f"{x}.max({d}).values", f"{x}.max({d}).indices", f"{x}.min({d})[0]", f"{x}.sort({d}, stable=True).values",
                            f"{x}.topk(1, {d}).values", f"{x}.median({d}).values", f"{x}.aminmax(dim={d}).max"])  # fmt: skip


# (form, whether its result is inexact)
FORMS: list[tuple[Callable[[Maker], str], bool]] = [
    *[(unary(f"torch.{f}({{}})", Maker.floating), False) for f in ("neg", "abs", "relu", "positive")],
    *[(unary(f"torch.{f}({{}})", Maker.exact), False)
      for f in ("floor", "ceil", "trunc", "round", "sign", "sqrt", "reciprocal", "isnan", "isinf", "logical_not", "frac",
                "isfinite", "nan_to_num")],
    (unary("torch.signbit({}.nan_to_num(1))", Maker.exact), False),  # NaN has whatever sign the instruction gives it
    *[(unary(f"torch.{f}({{}})", Maker.exact), True)
      for f in ("log", "log1p", "log2", "rsqrt", "exp", "expm1", "exp2", "tan", "asin", "log10")],
    *[(unary(f, Maker.floating), True)
      for f in ("torch.exp({}.clamp(-8, 8))", "torch.sin({})", "torch.cos({})", "torch.tanh({})", "torch.sigmoid({})", "torch.erf({})",
                "F.gelu({})", "F.gelu({}, approximate='tanh')", "F.silu({})", "F.softplus({})", "torch.log({}.abs() + 0.5)",
                "F.elu({})", "F.leaky_relu({})", "F.hardtanh({})", "F.hardswish({})", "F.mish({})", "torch.sqrt({}.abs() + 0.5)",
                "{} ** 2", "{} ** 3", "({}.abs() + 0.5) ** 1.5", "torch.logsigmoid({})", "F.logsigmoid({})")],
    *[(binary(f, Maker.numeric), False) for f in ("{} + {}", "{} - {}", "{} * {}", "torch.maximum({}, {})", "torch.minimum({}, {})")] * 3,
    *[(binary(f, Maker.numeric, same=False), False) for f in ("{} + {}", "{} * {}", "torch.maximum({}, {})")],
    *[(binary(f, Maker.integral), False) for f in ("{} & {}", "{} | {}", "{} ^ {}")],
    *[(binary(f, Maker.boolean), False) for f in ("{} & {}", "{} | {}", "{} ^ {}", "torch.logical_xor({}, {})", "{} + {}", "{} * {}")],
    *[(binary(f, Maker.floating), True) for f in ("torch.add({}, {}, alpha=0.3)", "torch.lerp({}, {}, 0.25)", "torch.addcmul({0}, {1}, {0})")],
    *[(binary(f, Maker.exact), True) for f in ("torch.atan2({}, {})",)],
    *[(reduce(f, Maker.floating), True) for f in ("sum", "mean", "logsumexp")] * 2,
    # Eager's variance is computed in float64: squares of numbers beyond 1e19 overflow later than ours.
    *[(reduce(f"clamp(-1e4, 1e4).{f}", Maker.exact), True) for f in ("var", "std")] * 2,
    *[(reduce(f, Maker.floating), False) for f in ("amax", "amin")],
    *[(reduce(f, Maker.integral), False) for f in ("sum", "amax", "amin")],
    *[(reduce(f, Maker.boolean, several=False), False) for f in ("any", "all", "sum")],
    *[(reduce(f, Maker.exact, several=False), False) for f in ("argmax", "argmin")],
    *[(reduce("clamp(-1.25, 1.25).prod", Maker.floating, several=False), True), (reduce("norm", Maker.floating), True)],
    *[(along(f, Maker.floating), True) for f in ("torch.softmax({}, {})", "torch.log_softmax({}, {})", "torch.cumsum({}, {})",
                                                 "F.normalize({}, dim={})", "torch.softmax({0} + 1, {1}).sum({1})")] * 2,
    (along("torch.cumsum({}, {})", Maker.integral), False),
    (along("torch.cumprod({}, {})", Maker.integral), False),
    *[(f, False) for f in (_compare, _compare, _rounded_quotient, _integer_quotient, _shift, _slice, _slice, _permute, _reshape, _reshape,
                           _expand, _cat, _cat, _stack, _pad, _index, _index, _where, _where, _cast, _cast, _factory, _view, _view, _view,
                           _pair, _scalar_arithmetic, _scalar_arithmetic, _integer_scalar, _assign, _assign, _divide)],
    *[(f, True) for f in (_layer_norm, _matmul, _matmul)],
    *[(in_place(f, Maker.floating), False) for f in ("{0}.add_({1})", "{0}.mul_({1})", "{0}.relu_()", "{0}.fill_({2})", "{0}.neg_()",
                                                     "{0}.copy_({1})", "{0} += {2}", "{0}.clamp_(-1, 1)", "{0}.sub_({1})",
                                                     "{0}.masked_fill_({0}.isnan(), {2})")],
    (_out, False),
    *[(in_place(f, Maker.floating), True) for f in ("{0}.sigmoid_()", "{0}.add_({1}, alpha=0.3)", "{0}.tanh_()")],
    *[(in_place(f, Maker.integral), False) for f in ("{0}.add_({1})", "{0}.mul_(3)", "{0}.copy_({1})")],
    *[(unary(f, Maker.pick), False) for f in ("{}.clone()", "{}.contiguous()", "{}.unsqueeze(0)", "{}.reshape(-1)", "{}.unsqueeze(-1)",
                                              "{}.tril()", "{}.triu(1)", "{}.t()", "{}.ravel()", "{}.detach()")],
]  # fmt: skip


class Program:
    def __init__(self, seed: int, inputs: list[str], lines: list[str], outputs: list[str]) -> None:
        self.seed, self.inputs, self.lines, self.outputs = seed, inputs, lines, outputs

    def text(self) -> str:
        names = ", ".join(f"x{k}" for k in range(len(self.inputs)))
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def program({names}):\n{body}    return {', '.join(self.outputs)},\n"

    def repro(self) -> str:
        return f"# seed {self.seed}\ninputs = [{', '.join(self.inputs)}]\n{self.text()}"

    def arguments(self) -> tuple[torch.Tensor, ...]:
        return tuple(eval(text) for text in self.inputs)

    def function(self, *, wide: bool = False) -> Callable[..., tuple[torch.Tensor, ...]]:
        """wide: with float64 for every floating type."""
        scope = {"torch": torch, "F": torch.nn.functional}
        text = re.sub(r"torch\.b?float(16|32)", "torch.float64", self.text()) if wide else self.text()
        exec(compile(text, f"<random program {self.seed}>", "exec"), scope)
        return scope["program"]

    def failure(self) -> str | None:
        """What differs from eager; None if nothing does, or if braze says that it cannot trace the program."""
        try:
            oracle.check(self.function(), self.arguments(), slack=16, wider=self.function(wide=True))
        except oracle.Mismatch as mismatch:
            return None if "which cannot be traced" in str(mismatch) else str(mismatch)
        return None

    def is_valid(self) -> bool:
        try:
            self.function()(*self.arguments())
        except Exception:
            return False
        return True


def shrunk(program: Program, fails: Callable[[Program], str | None] = Program.failure) -> Program:
    """The same failure in as few lines, outputs and inputs' special values as simple steps find."""
    wanted = _sort(fails(program))
    changed = True
    while changed:
        changed = False
        candidates = [
            Program(program.seed, program.inputs, program.lines, [name])
            for name in program.outputs
            if len(program.outputs) > 1
        ]
        for k in reversed(range(len(program.lines))):
            rest = program.lines[:k] + program.lines[k + 1 :]
            name = program.lines[k].split(" = ")[0]
            for other in ("", "x0", "x1", "x2", "x3"):
                if other and (not re.fullmatch(r"v\d+", name) or int(other[1]) >= len(program.inputs)):
                    continue
                renamed = [re.sub(rf"\b{name}\b", other, line) for line in rest] if other else rest
                outputs = [other if other and o == name else o for o in program.outputs]
                candidates.append(Program(program.seed, program.inputs, renamed, outputs))
        for candidate in candidates:
            if candidate.is_valid() and _sort(fails(candidate)) == wanted:
                program, changed = candidate, True
                break
    return program


def _sort(failure: str | None) -> str | None:
    """Failures that differ in numbers and names only are the same."""
    return (
        None
        if failure is None
        else re.sub(r"[\d.@%]+|[a-f0-9]{8}|\[.*|at \(.*|@\w+", "", failure.split("\n")[0])[:60]
    )


def program(seed: int) -> Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Maker(seed).make()


def _in_child(made: Program) -> str | None:
    """Its failure, from a child process: a crash is a failure like others."""
    [(_, failure)] = processes.results([made], lambda p, _: p.failure(), jobs=1, seconds=60)
    return str(failure) if failure is not None else None


def _batch(seeds: range, say: Callable[[str], None]) -> list[int]:
    """Those of the programs that fail."""
    failing = []
    for seed in seeds:
        say(str(seed))
        if program(seed).failure():
            failing.append(seed)
    return failing


def _failing(options: argparse.Namespace) -> Iterator[int]:
    """Seeds of failing programs, as they are found."""
    end, batch = options.first + options.count, 20
    until = time.monotonic() + options.in_all if options.in_all else float("inf")
    done = 0

    def batches() -> Iterator[range]:
        for first in range(options.first, end, batch):
            if time.monotonic() > until:
                return
            yield range(first, min(first + batch, end))

    for seeds, found in processes.results(batches(), _batch, jobs=options.jobs, seconds=300):
        done += len(seeds)
        if isinstance(found, processes.Crash):
            # One by one: the crash may have hidden others.
            found = [seed for seed in seeds if _in_child(program(seed))]
        yield from found
    print(f"{done} of {options.count} programs run", flush=True)


def _shrunk(seed: int, options: argparse.Namespace) -> str:
    made = program(seed)
    if not options.no_shrink:
        made = shrunk(made, _in_child)
    return f"==== {_in_child(made)}\n{made.repro()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--in-all", type=int, default=0, help="seconds after which no program is begun")
    parser.add_argument("--shrink-seconds", type=int, default=600, help="for one failure")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--most", type=int, default=10, help="failures of one kind to shrink")
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    chosen = []
    for seed in _failing(options):
        failure = _in_child(program(seed)) or "differs only after other programs of the same process"
        kind = _sort(failure) or ""
        kinds[kind] += 1
        print(f"seed {seed}: {failure}", flush=True)
        if kinds[kind] <= options.most:
            chosen.append(seed)
    print(f"{kinds.total()} programs fail", flush=True)
    for kind, count in kinds.most_common():
        print(f"{count:6d}  {kind}", flush=True)
    for _, text in processes.results(
        chosen, lambda seed, _: _shrunk(seed, options), jobs=options.jobs, seconds=options.shrink_seconds
    ):
        print(text, flush=True)
    return bool(kinds)


if __name__ == "__main__":
    sys.exit(main())
