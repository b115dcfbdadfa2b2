"""NumPy on what a graph computes: translated into operators of PyTorch, with NumPy's types, shapes and values."""

import warnings

import numpy as np
import pytest
import torch
from compiling import compiled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # NumPy's, of tensors among its arguments.
]


def alike(ours, theirs, where=""):
    assert type(ours) is type(theirs), (where, type(ours), type(theirs))
    if isinstance(theirs, (np.ndarray, np.generic)):
        assert ours.dtype == theirs.dtype, where
        assert ours.shape == theirs.shape, where
        assert ours.strides == theirs.strides or 1 in theirs.shape or theirs.size == 0, where
        np.testing.assert_allclose(ours, theirs, rtol=2e-3 if theirs.dtype == np.float16 else 2e-5, atol=1e-6)
        if isinstance(theirs, np.ndarray):
            assert ours.flags.writeable == theirs.flags.writeable, where
    elif isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=1e-6, equal_nan=True)
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            alike(one, other, where)
    else:
        assert ours == theirs, where


def places(result):
    """Where tensors lie in their storages."""
    items = result if isinstance(result, (tuple, list)) else [result]
    return [
        (item.storage_offset(), item._version, item._is_view()) for item in items if isinstance(item, torch.Tensor)
    ]


def inputs(seed, shape=(3, 4)):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# Lines of a function of x (3x4, f32), that leave a result in `r`. All are one graph.
ONE_GRAPH = """
r = torch.from_numpy(np.sin((x + 1).numpy()) * 2) + x
r = (x * 2).numpy()
a = (x * 2).numpy(); r = a, a.T, a[0], a[:, 1:3], a.shape, a.dtype, a.ndim, a.size
a = (x * 2).numpy(); r = a.nbytes, a.itemsize, a.strides, len(a), a[0].itemsize
a = (x * 2).numpy(); r = a.sum(), a.mean(axis=0), a.max(1, keepdims=True), a.std(), a.argmax()
a = (x * 2).numpy(); r = a.var(axis=1, ddof=1), a.prod(axis=-1), a.min(), (a > 0).any(axis=1), (a > 0).all()
a = x.numpy(); r = isinstance(a, np.ndarray), type(a) is np.ndarray, isinstance(a, (int, torch.Tensor))
a = x.numpy(); r = hasattr(a, "detach"), hasattr(a, "shape"), getattr(a, "requires_grad", 3)
a = (x + 1).numpy(); r = isinstance(a[0, 0], np.floating), isinstance(a[0, 0], float), type(a.sum()) is np.float32
a = (x * 1).numpy(); a += 1; a[1:] *= 2; a[0, 1] = 5; a[2] = np.arange(4); r = a, torch.from_numpy(a)
a = np.array(x); a -= 3; r = a, x * 1
a = np.asarray(x * 2); b = a[1:]; b += 1; r = a, b
a = np.asarray(x) * np.arange(4.0) + np.float32(2); r = a, np.float64(3) * a, 2 - a, a ** 2, 1 / a
a = x.numpy() > 0; r = a, ~a, a & (x.numpy() < 1), np.where(a, x.numpy(), 0), np.where(a, 1, 0)
a = (x * 3).numpy(); r = a.astype(np.int64), a.astype("float64") / 3, a.astype(bool), a.round(), np.clip(a, 0, 1)
a = (x * 3).numpy().astype(np.int32); r = a + 1, a * 2.5, a / 2, a // 2, a % 3, a ** 2, a.sum(), a.mean(), a > 1, -a
r = np.log(x[0, 0] * x[0, 0] + 1) * 3, np.exp(x), np.greater(x, 0.5)
a = x.numpy(); r = np.concatenate([a, a[:1]]), np.stack([a, a * 2]), np.concatenate([a[0], [x[0, 0]]])
a = x.numpy(); r = np.vstack([a, a]), np.hstack([a, a]), np.vstack([a[0], a[1]]), np.hstack([a[0], a[1]])
a = x.numpy(); r = np.outer(a[0], a[1]), np.around(a), np.abs(a), np.outer(a[0], np.arange(3))
a = x.numpy(); r = np.array([a[0, 0], a[1, 1], 2.0]), np.array([[a[0, 0]], [x[0, 1]]]), np.square(a).sum(0)
a = x.numpy(); r = [row * 2 for row in a], [i for i, _ in enumerate(a)]
a = (x + 2).numpy(); r = a.reshape(2, 6), a.ravel(), a.flatten(), a.transpose(1, 0)
a = (x + 2).numpy(); r = a.swapaxes(0, 1), a[None], a[:, None], a[..., 0], a[0, ..., 1], a.squeeze()
a = (x + 2).numpy(); i = np.array([0, 2]); r = a[i], a[[True] and 0], a.take(i, axis=1), np.repeat(a, 2, axis=0)
a = np.interp(np.linspace(0, 3, 7), np.arange(4), (x[0] * 2).numpy()); r = a, torch.tensor(a)
a = x.numpy(); r = torch.tensor(a), torch.tensor(a, dtype=torch.float64)
a = x.numpy(); r = torch.as_tensor(a), torch.as_tensor(a, dtype=torch.int64)
a = (x * 2).numpy(); t = torch.from_numpy(a); t.add_(1); a *= 2; r = t, a, torch.from_numpy(a)
a = (x @ x.T).numpy(); r = a @ a, a.dot(a[0]), np.dot(a, np.ones(3)), np.matmul(a, a)
with np.errstate(divide="ignore"): r = np.log((x * 0).numpy())
d = {"a": (x + 1).numpy(), "b": [(x + 2).numpy()]}; r = d["a"], d["b"], (d["a"] * d["b"][0])
""".strip().splitlines()

# Likewise; what PyTorch has no operators for, or does otherwise, ends the graph, and is right.
WITH_BREAKS = """
a = (x * 2).numpy(); r = a[::-1], np.sort(a), a.tolist(), float(a[0, 0]) * x
a = (x * 2).numpy(); r = np.linalg.norm(a), a.flags.writeable, a.tobytes()
a = (x * 2).numpy(); b = np.ones(4); b += a[0]; r = a, b
a = (x * 2).numpy(); b = np.zeros((3, 4)); b[:] = a; r = b * 2
a = (x * 2).numpy().astype(np.int32); r = a // (a * 0 + 1), a << 1, a.sum(dtype=np.uint8), a.astype(np.uint8).sum()
a = (x * 2).numpy(); t = torch.from_numpy(a[1:]); r = t, torch.from_numpy(a), torch.as_tensor(a[1:])
a = (x * 2).numpy(); r = a if a.sum() > 0 else -a
a = (x * 2).numpy(); m = a.sum; s = m(); f = a.tolist; r = s, f()
a = (x * 2).numpy(); r = memoryview(a).nbytes, repr(a), f"{a.mean():.3f}", bytes(a)
a = (x * 2).numpy(); r = np.sin(a, out=np.zeros((3, 4), np.float32)), np.add.reduce(a), list(map(float, a[0]))
a = (x * 2).numpy(); r = a.T + a.T * 2, a[:, [0, 1]], a[a > 0], np.transpose(a) * 2
a = (x * 2).numpy(); import copy; r = copy.copy(a), copy.deepcopy(a), a.__class__ is np.ndarray
a = (x * 2).numpy(); a.shape = (4, 3); r = a
a = (x * 2).numpy(); r = [v for v in np.nditer(a[0])], max(a[0]), sorted(a[0]), sum(a[0])
a = (x * 2).numpy(); r = np.mean(a, dtype=np.float64, where=a > 0), np.vectorize(lambda v: v + 1)(a)
a = (x * 2).numpy(); r = (a == a).all() and True, a.any() or False, int(a.argmax()), x[int(a.argmax()) % 3]
a = (x * 2).numpy(); r = {a[0, 1]: 1}, {float(a[0, 0]): 2}, a.sum() in [1.0], a[0, 0] == 3
with np.errstate(divide="raise"): r = np.exp(x.numpy())
""".strip().splitlines()


def function_of(lines):
    names = {"np": np, "torch": torch}
    body = "".join(f"\n    {line}" for line in ([lines] if lines.startswith("with") else lines.split("; ")))
    exec(f"def f(x):{body}\n    return r", names)
    return names["f"]


@pytest.mark.parametrize("lines", ONE_GRAPH)
def test_what_is_translated_is_one_graph(lines):
    f = function_of(lines)
    fast = C.CompiledFunction(f, fullgraph=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(3):
            mine, other = inputs(seed), inputs(seed)
            ours, theirs = fast(mine), f(other)
            alike(ours, theirs, lines)
            assert places(ours) == places(theirs), lines
            assert torch.equal(mine, other)
    assert fast.counts() == {"captured": 1, "replayed": 2, "native": 0}, fast.reasons()


@pytest.mark.parametrize("lines", WITH_BREAKS)
@pytest.mark.parametrize("is_warm", [False, True])
def test_what_is_not_is_right(lines, is_warm):
    f = function_of(lines)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(20 if is_warm else 0):  # CPython has specialised the code by then.
            f(inputs(seed))
        fast = compiled(f)
        for seed in range(4):
            mine, other = inputs(seed), inputs(seed)
            ours, theirs = fast(mine), f(other)
            alike(ours, theirs, lines)
            assert places(ours) == places(theirs), lines
            assert torch.equal(mine, other)


@pytest.mark.parametrize("lines", ONE_GRAPH)
def test_of_other_types_and_orders(lines):
    """Each is captured anew; what one of them has no translation for ends the graph."""
    f = function_of(lines)
    fast = compiled(f)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (torch.float32, torch.float64, torch.float32):
            for turned in (False, True):
                mine, other = inputs(0).to(kind), inputs(0).to(kind)
                if turned:
                    mine, other = mine.T.contiguous().T, other.T.contiguous().T
                alike(fast(mine), f(other), lines)


@pytest.mark.parametrize("lines", ONE_GRAPH)
def test_of_sizes_that_vary(lines):
    f = function_of(lines)
    fast = braze.compile(f, dynamic=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in (3, 5, 4):
            if "@" in lines and rows != 3 or "i = np.array" in lines and rows != 3:
                continue
            if "reshape" in lines and rows != 3 or "np.ones(3)" in lines and rows != 3:
                continue
            alike(fast(inputs(rows, (rows, 4))), f(inputs(rows, (rows, 4))), lines)


def test_memory_is_shared_as_natively():
    def f(x):
        y = x * 2
        a = y.numpy()
        return y, a, a[1:], a.T, torch.from_numpy(a), a.copy()

    fast = compiled(f)
    for _ in range(3):
        y, a, rows, turned, again, copied = fast(torch.ones(3, 4))
        y[1, 0] = 50.0
        assert a[1, 0] == rows[0, 0] == turned[0, 1] == again[1, 0] == 50.0
        assert copied[1, 0] == 2.0
        assert again is not y

    def g(x):
        return x.numpy(), x.detach().numpy()[0], np.asarray(x), np.array(x)

    fast = compiled(g)
    for _ in range(3):
        x = torch.ones(3, 4)
        a, row, same, copied = fast(x)
        x += 1
        assert a[0, 0] == row[0] == same[0, 0] == 2.0
        assert copied[0, 0] == 1.0


def test_writes_reach_what_was_given():
    def f(x):
        a = x.numpy()
        a += 1
        a[0] = 7
        return x * 2

    fast = compiled(f)
    for k in range(4):
        x, other = torch.full((2, 3), float(k)), torch.full((2, 3), float(k))
        alike(fast(x), f(other))
        assert torch.equal(x, other)
        assert x._version == 0


def test_tensors_that_require_grad_raise_as_natively():
    fast = compiled(lambda x: (x * 2).numpy() + 1)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="requires grad"):
            fast(torch.ones(3, requires_grad=True))
    fast = compiled(lambda x: ((x * 2).detach().numpy() + 1, x * 3))
    for k in range(3):
        x = torch.full((3,), float(k), requires_grad=True)
        a, y = fast(x)
        y.sum().backward()
        assert a.tolist() == [2.0 * k + 1] * 3
        assert x.grad.tolist() == [3.0] * 3


def test_attributes_and_containers_keep_arrays():
    class Holder:
        pass

    def f(holder, x):
        holder.array = (x + 1).numpy()
        holder.mean = holder.array.mean()
        holder.seen.append(holder.array[0])
        return x * 2

    fast = compiled(f)
    mine, other = Holder(), Holder()
    mine.seen, other.seen = [], []
    with torch.no_grad():
        for seed in range(4):
            alike(fast(mine, inputs(seed)), f(other, inputs(seed)))
            alike([mine.array, mine.mean, mine.seen], [other.array, other.mean, other.seen])


TYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"]
NUMBERS = st.one_of(
    st.booleans(),
    st.integers(-300, 300),
    st.floats(-8, 8),
    st.just(1j),
    st.sampled_from(TYPES).map(lambda t: np.dtype(t).type(3)),
)
BINARY_NAMES = (
    "add subtract multiply divide floor_divide remainder fmod power maximum minimum fmax fmin arctan2 hypot "
    "copysign logaddexp equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor"
)
UNARY_NAMES = (
    "absolute negative positive sin cos tan exp log sqrt floor ceil rint trunc isnan isinf signbit invert square "
    "logical_not expm1 log1p log2 log10 arcsin arctan sinh tanh radians degrees conjugate fabs exp2"
)
REDUCTIONS = "sum mean prod std var max min argmax argmin all any cumsum"


def drawn(kind, seed, shape=(2, 3), turned=False):
    numbers = np.random.default_rng(seed).normal(size=shape) * 3
    if kind != "complex64" and np.dtype(kind).kind == "f":
        numbers.flat[:2] = seed % 3 - 1, [np.nan, np.inf, 0.0, -0.0][seed % 4]
    made = (np.abs(numbers) if kind == "uint8" else numbers).astype(kind)
    return np.ascontiguousarray(made.T).T if turned else made


def refused(call):
    """What ends a graph, or raises a torch error under which it ends."""
    try:
        return call(), False
    except (braze.Error, RuntimeError, IndexError, NotImplementedError):
        return None, True


def as_array(value):
    from braze._arrays import Array, Scalar

    if not isinstance(value, Array):
        return value
    shown = value._tensor.numpy()
    return shown[()] if isinstance(value, Scalar) else shown


def traced(array):
    from braze import _arrays

    return _arrays.array(torch.from_numpy(array.copy(order="K")))


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(BINARY_NAMES.split()),
    st.sampled_from(TYPES),
    st.one_of(NUMBERS, st.sampled_from(TYPES)),
    st.integers(0, 99),
    st.booleans(),
    st.booleans(),
)
def test_binary_ufuncs_have_numpys_types_and_values(name, kind, other, seed, is_left, turned):
    from braze._arrays import BINARY

    one = drawn(kind, seed, turned=turned)
    two = drawn(other, seed + 1) if isinstance(other, str) else other
    ours = (traced(one), traced(two) if isinstance(other, str) else two)
    theirs = (one, two)
    if not is_left:
        ours, theirs = ours[::-1], theirs[::-1]
    got, is_refused = refused(lambda: BINARY[name](*ours))
    if is_refused:
        return
    with np.errstate(all="ignore"):
        alike(as_array(got), getattr(np, name)(*theirs), (name, kind, other))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(UNARY_NAMES.split()),
    st.sampled_from(TYPES),
    st.integers(0, 99),
    st.sampled_from([(2, 3), (), (0, 3), (2, 1, 3)]),
)
def test_unary_ufuncs_have_numpys_types_and_values(name, kind, seed, shape):
    from braze._arrays import UNARY

    one = drawn(kind, seed, (6,))[: int(np.prod(shape))].reshape(shape)
    got, is_refused = refused(lambda: UNARY[name](traced(one)))
    if is_refused:
        return
    with np.errstate(all="ignore"):
        alike(as_array(got), getattr(np, name)(one), (name, kind))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(REDUCTIONS.split()),
    st.sampled_from(TYPES),
    st.integers(0, 99),
    st.sampled_from([None, 0, 1, -1, (0, 1), 5]),
    st.booleans(),
    st.booleans(),
)
def test_reductions_have_numpys_types_and_values(name, kind, seed, axis, keepdims, turned):
    from braze._arrays import METHODS

    one = drawn(kind, seed, turned=turned)
    named = {"axis": axis} if name in ("argmax", "argmin", "cumsum") else {"axis": axis, "keepdims": keepdims}
    got, is_refused = refused(lambda: METHODS[name](traced(one), **named))
    if is_refused:
        return
    with np.errstate(all="ignore"):
        alike(as_array(got), getattr(one, name)(**named), (name, kind, named))
