"""The lines that random programs may have: one form each, with whether its result is inexact."""
# ruff: noqa: E501  (the table of forms is wide)

from collections.abc import Callable

import torch
from random_choices import FLOATS, INTEGERS, Choices, overlap_partly, overlaps_itself


def unary(function: str, operand: Callable[[Choices], str]) -> Callable[[Choices], str]:
    return lambda m: function.format(operand(m))


def binary(function: str, operand: Callable[[Choices], str], same: bool = True) -> Callable[[Choices], str]:
    def form(m: Choices) -> str:
        x = operand(m)
        return function.format(x, m.like(x, dtype=same))

    return form


def _compare(m: Choices) -> str:
    x = m.pick(m.is_exact)
    y = m.like(x)
    if not m.is_exact(m.values[y]):
        raise LookupError
    return f"{x} {m.random.choice(['<', '<=', '>', '>=', '==', '!='])} {m.random.choice([y, y, m.number()])}"


def _divide(m: Choices) -> str:
    x = m.floating()
    y = m.like(x)
    if not m.is_exact(m.values[y]):
        return f"{x} / ({y}.abs() + 0.5)"
    return f"{x} / {y}"


def _rounded_quotient(m: Choices) -> str:
    x = m.exact()
    y = m.like(x)
    if not m.is_exact(m.values[y]):
        raise LookupError
    return m.random.choice(["torch.fmod({}, {})", "torch.remainder({}, {})", "torch.floor_divide({}, {})",
                            "torch.div({}, {}, rounding_mode='trunc')"]).format(x, y)  # fmt: skip


def _integer_quotient(m: Choices) -> str:
    x = m.integral()
    y = f"({m.like(x)}.abs().clamp(max=50) + 1)"
    return m.random.choice(["{} // {}", "{} % {}", "torch.fmod({}, {})", "{} / {}",
                            "torch.div({}, {}, rounding_mode='trunc')"]).format(x, y)  # fmt: skip


def _shift(m: Choices) -> str:
    x = m.integral()
    return f"{x} {m.random.choice(['<<', '>>'])} ({m.like(x)} & 3)"


def _slice(m: Choices) -> str:
    x = m.pick(lambda v: v.dim() > 0)
    parts = []
    for size in m.values[x].shape:
        low = m.random.randint(0, max(size // 2, 0))
        parts.append(
            m.random.choice([":", f"{low}:", f":{max(size - 1, 0)}", f"{low}::2", "::2", "None", f"{low}"])
        )
    return f"{x}[{', '.join(parts)}]"


def _permute(m: Choices) -> str:
    x = m.pick(lambda v: v.dim() > 1)
    order = list(range(m.values[x].dim()))
    m.random.shuffle(order)
    return f"{x}.permute({tuple(order)})"


def _reshape(m: Choices) -> str:
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


def _expand(m: Choices) -> str:
    x = m.pick()
    sizes = [n if n != 1 else m.random.choice([1, 3, 4]) for n in m.values[x].shape]
    return f"{x}.expand({tuple([m.random.choice([2, 3])] * m.random.randint(0, 1) + sizes)})"


def _cat(m: Choices) -> str:
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


def _stack(m: Choices) -> str:
    x = m.pick()
    return f"torch.stack([{x}, {m.pick(lambda v: v.shape == m.values[x].shape)}], {m.random.choice([0, -1])})"


def _pad(m: Choices) -> str:
    x = m.pick(lambda v: 0 < v.dim() < 5)
    widths = tuple(m.random.choice([0, 1, 2, -1]) for _ in range(2 * m.random.randint(1, m.values[x].dim())))
    value = "0" if m.values[x].dtype == torch.bool else m.random.choice(["0", "1", "2.5"])
    if not m.values[x].is_floating_point():
        value = value.replace("2.5", "3")
    return f"F.pad({x}, {widths}, value={value})"


def reduce(function: str, operand: Callable[[Choices], str], several: bool = True) -> Callable[[Choices], str]:
    def form(m: Choices) -> str:
        x = operand(m)
        if several and m.random.random() < 0.2:
            return f"{x}.{function}()"
        dims = m.dims(x) if several else m.dim(x)
        return f"{x}.{function}({dims}, keepdim={m.random.random() < 0.5})"

    return form


def along(function: str, operand: Callable[[Choices], str]) -> Callable[[Choices], str]:
    def form(m: Choices) -> str:
        x = operand(m)
        return function.format(x, m.dim(x))

    return form


def _layer_norm(m: Choices) -> str:
    x = m.pick(lambda v: v.is_floating_point() and v.dim() > 0 and v.numel() > 0)
    size = m.values[x].shape[-1]
    dtype = m.values[x].dtype
    weights = m.names(lambda v: v.dtype == dtype and tuple(v.shape) == (size,))
    weight = m.random.choice([*weights, "None"])
    # Of a constant row only rounding errors are left: the usual eps would multiply them by 300.
    return f"F.layer_norm({x}.clamp(-1e4, 1e4), ({size},), {weight}, {m.random.choice([*weights, 'None'])}, 0.1)"


def _matmul(m: Choices) -> str:
    x = m.pick(lambda v: v.is_floating_point() and v.dim() > 0)
    mine = m.values[x]
    y = m.pick(
        lambda v: (
            v.dtype == mine.dtype and v.dim() > 0 and mine.shape[-1] in (v.shape[-1], v.shape[max(v.dim() - 2, 0)])
        )
    )
    swap = m.values[y].dim() > 1 and m.values[y].shape[-2] != mine.shape[-1]
    return f"{x} @ {y}{'.transpose(-1, -2)' if swap else ''}"


def _index(m: Choices) -> str:
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


def _where(m: Choices) -> str:
    x = m.pick()
    condition = m.like(x, dtype=False)
    y = m.like(x)
    if m.values[condition].dtype != torch.bool:
        condition = m.boolean()
    other = m.random.choice([y, y, m.number()])
    return m.random.choice(
        [f"torch.where({condition}, {x}, {other})", f"{x}.masked_fill({condition}, {m.number()})"]
    )


def _cast(m: Choices) -> str:
    x = m.pick()
    value = m.values[x]
    to = m.random.choice([*FLOATS, *FLOATS[:2], "int64", m.random.choice(INTEGERS), "bool"])
    if value.is_floating_point() and not getattr(torch, to).is_floating_point:
        if not m.is_exact(value):
            raise LookupError
        if to != "bool":
            return f"{x}.nan_to_num(0).clamp(0, 100).to(torch.{to})"
    return f"{x}.to(torch.{to})"


def in_place(function: str, operand: Callable[[Choices], str]) -> Callable[[Choices], str]:
    def form(m: Choices) -> str:
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


def _out(m: Choices) -> str:
    x = m.numeric()
    mine = m.values[x]
    y = m.pick(lambda v: v.dtype == mine.dtype and v.shape == mine.shape and not overlaps_itself(v))
    if overlap_partly(mine, m.values[y]):
        raise LookupError
    return f"!torch.mul({x}, 2, out={y})"


def _assign(m: Choices) -> str:
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


def _factory(m: Choices) -> str:
    x = m.pick()
    shape = tuple(m.values[x].shape)
    kind = m.random.choice(["float32", "float64", "int64", "bool"])
    n = m.random.randint(1, 12)
    return m.random.choice([f"torch.zeros({shape}, dtype=torch.{kind})", f"torch.ones_like({x})", f"torch.arange({n})",
                            f"torch.arange(0, {n}, 0.5)", f"torch.full({shape}, {m.number()})", f"torch.eye({n})",
                            f"torch.full_like({x}, 1)", f"torch.tensor([1.0, 2.0, {m.number()}])", f"torch.tensor({m.number()})",
                            f"torch.arange({shape[-1] if shape else 3}, dtype=torch.float32)", f"torch.zeros_like({x})"])  # fmt: skip


def _scalar_arithmetic(m: Choices) -> str:
    x = m.floating()
    return m.random.choice(["{} + {}", "{} - {}", "{} * {}", "{} / {}", "{1} - {0}", "torch.maximum({}, torch.tensor({}))",
                            "torch.clamp({}, min={})", "torch.clamp({}, max={})"]).format(x, m.number())  # fmt: skip


def _integer_scalar(m: Choices) -> str:
    x = m.integral()
    return m.random.choice(["{} + {}", "{} - {}", "{} * {}", "{} + 0.5", "{} // 3", "{} % 5", "{} & {}", "{} | {}",
                            "{} ^ {}", "{} / 3", "{} * 1.5", "{} == {}", "{} > {}", "~{}", "-{}",
                            "{}.abs()"]).format(x, m.random.choice(["1", "2", "3", "7"]))  # fmt: skip


def _view(m: Choices) -> str:
    x = m.pick(lambda v: v.dim() > 0)
    d = m.dim(x)
    size = m.values[x].shape[d]
    return m.random.choice([f"{x}.unsqueeze({d})", f"{x}.squeeze()", f"{x}.squeeze({d})", f"{x}.flip({d})", f"{x}.transpose({d}, 0)",
                            f"{x}.narrow({d}, 0, {max(size - 1, 0)})", f"{x}.select({d}, {size - 1})", f"{x}.unbind({d})[-1]",
                            f"{x}.chunk(2, {d})[-1]", f"{x}.split(2, {d})[0]", f"{x}.movedim({d}, 0)", f"{x}.flatten()",
                            f"{x}.unfold({d}, 2, 1)", f"torch.roll({x}, 1, {d})", f"{x}.mT", f"{x}.diagonal()", f"{x}.T",
                            f"{x}.repeat_interleave(2, {d})", f"torch.tile({x}, (2,))"])  # fmt: skip


def _pair(m: Choices) -> str:
    x = m.pick(lambda v: m.is_exact(v) and v.dim() > 0 and v.numel() > 0 and v.dtype != torch.bool)
    d = m.dim(x)
    return m.random.choice([f"{x}.max({d}).values", f"{x}.max({d}).indices", f"{x}.min({d})[0]", f"{x}.sort({d}, stable=True).values",
                            f"{x}.topk(1, {d}).values", f"{x}.median({d}).values", f"{x}.aminmax(dim={d}).max"])  # fmt: skip


# (form, whether its result is inexact)
FORMS: list[tuple[Callable[[Choices], str], bool]] = [
    *[(unary(f"torch.{f}({{}})", Choices.floating), False) for f in ("neg", "abs", "relu", "positive")],
    *[(unary(f"torch.{f}({{}})", Choices.exact), False)
      for f in ("floor", "ceil", "trunc", "round", "sign", "isnan", "isinf", "logical_not", "frac",
                "isfinite", "nan_to_num")],
    (unary("torch.signbit({}.nan_to_num(1))", Choices.exact), False),  # NaN has whatever sign the instruction gives it
    *[(unary(f"torch.{f}({{}})", Choices.exact), True)
      for f in ("log", "log1p", "log2", "sqrt", "reciprocal", "rsqrt", "exp", "expm1", "exp2", "tan", "asin", "log10")],
    *[(unary(f, Choices.floating), True)
      for f in ("torch.exp({}.clamp(-8, 8))", "torch.sin({})", "torch.cos({})", "torch.tanh({})", "torch.sigmoid({})", "torch.erf({})",
                "F.gelu({}.clamp(-1e4, 1e4))", "F.gelu({}.clamp(-2, 1e4), approximate='tanh')", "F.silu({})", "F.softplus({})", "torch.log({}.abs() + 0.5)",
                "F.elu({})", "F.leaky_relu({})", "F.hardtanh({})", "F.hardswish({})", "F.mish({})", "torch.sqrt({}.abs() + 0.5)",
                "{} ** 2", "{} ** 3", "({}.abs() + 0.5) ** 1.5", "torch.logsigmoid({})", "F.logsigmoid({})")],
    # Of two zeros of other signs eager takes either: + 0 makes them one.
    *[(binary(f, Choices.numeric), False) for f in ("{} + {}", "{} - {}", "{} * {}", "torch.maximum({}, {}) + 0", "torch.minimum({}, {}) + 0")] * 3,
    *[(binary(f, Choices.numeric, same=False), False) for f in ("{} + {}", "{} * {}", "torch.maximum({}, {}) + 0")],
    *[(binary(f, Choices.integral), False) for f in ("{} & {}", "{} | {}", "{} ^ {}")],
    *[(binary(f, Choices.boolean), False) for f in ("{} & {}", "{} | {}", "{} ^ {}", "torch.logical_xor({}, {})", "{} + {}", "{} * {}")],
    *[(binary(f, Choices.floating), True) for f in ("torch.add({}, {}, alpha=0.3)", "torch.lerp({}, {}, 0.25)", "torch.addcmul({0}, {1}, {0})")],
    *[(binary(f, Choices.exact), True) for f in ("torch.atan2({}, {})",)],
    *[(reduce(f, Choices.floating), True) for f in ("sum", "mean", "logsumexp")] * 2,
    # Squares of more than 100 overflow in float16.
    *[(reduce(f"clamp(-100, 100).{f}", Choices.exact), True) for f in ("var", "std")] * 2,
    *[(reduce(f, Choices.floating), False) for f in ("amax", "amin")],
    *[(reduce(f, Choices.integral), False) for f in ("sum", "amax", "amin")],
    *[(reduce(f, Choices.boolean, several=False), False) for f in ("any", "all", "sum")],
    *[(reduce(f, Choices.exact, several=False), False) for f in ("argmax", "argmin")],
    *[(reduce("clamp(-1.25, 1.25).abs().add(1).prod", Choices.floating, several=False), True), (reduce("norm", Choices.floating), True)],
    *[(along(f, Choices.floating), True) for f in ("torch.softmax({}, {})", "torch.log_softmax({}, {})", "torch.cumsum({}, {})",
                                                 "F.normalize({}, dim={})", "torch.softmax({0} + 1, {1}).sum({1})")] * 2,
    (along("torch.cumsum({}, {})", Choices.integral), False),
    (along("torch.cumprod({}, {})", Choices.integral), False),
    *[(f, False) for f in (_compare, _compare, _rounded_quotient, _integer_quotient, _shift, _slice, _slice, _permute, _reshape, _reshape,
                           _expand, _cat, _cat, _stack, _pad, _index, _index, _where, _where, _cast, _cast, _factory, _view, _view, _view,
                           _pair, _scalar_arithmetic, _scalar_arithmetic, _integer_scalar, _assign, _assign, _divide)],
    *[(f, True) for f in (_layer_norm, _matmul, _matmul)],
    *[(in_place(f, Choices.floating), False) for f in ("{0}.add_({1})", "{0}.mul_({1})", "{0}.relu_()", "{0}.fill_({2})", "{0}.neg_()",
                                                     "{0}.copy_({1})", "{0} += {2}", "{0}.clamp_(-1, 1)", "{0}.sub_({1})",
                                                     "{0}.masked_fill_({0}.isnan(), {2})")],
    (_out, False),
    *[(in_place(f, Choices.floating), True) for f in ("{0}.sigmoid_()", "{0}.add_({1}, alpha=0.3)", "{0}.tanh_()")],
    *[(in_place(f, Choices.integral), False) for f in ("{0}.add_({1})", "{0}.mul_(3)", "{0}.copy_({1})")],
    *[(unary(f, Choices.pick), False) for f in ("{}.clone()", "{}.contiguous()", "{}.unsqueeze(0)", "{}.reshape(-1)", "{}.unsqueeze(-1)",
                                              "{}.tril()", "{}.triu(1)", "{}.t()", "{}.ravel()", "{}.detach()")],
]  # fmt: skip
