"""NumPy's arrays that are made of numbers which vary, and numbers that vary beside arrays (arrays_of_numbers.txt, a
program of a tensor `x` of `n` rows a line): one program for all sizes, with NumPy's types, shapes and values."""

import pathlib

import numpy as np
import pytest
import torch
from test_numpy_functions import alike
from test_numpy_numbers import outcome

import braze
from braze._load import C

pytestmark = [
    pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python"),
    pytest.mark.usefixtures("quiet"),
]
PROGRAMS = pathlib.Path(__file__).with_name("arrays_of_numbers.txt").read_text().strip().splitlines()
# What has no operator, is an error, or asks for the very number.
OTHERS = """
r = np.arange(float(n)), x * 2
r = np.arange(0, 1, 1 / (n + 1)), x * 2
r = np.arange(n, dtype=np.float16), np.arange(n, dtype=np.int32), np.arange(n, dtype=bool if n < 2 else np.uint8)
r = np.zeros((n, 2), order="F"), np.eye(n, k=1), np.zeros(n - 6), np.linspace(0, 1, n), np.linspace(2, 2, n)
r = np.arange(0, n, 0)
r = np.zeros(n, dtype=[("a", int)])["a"] + 1
r = np.full(n, 1.5, dtype=int), np.full(n, np.float32(2)), np.full(n, 300, dtype=np.int8)
r = np.full((n, 2), [1, 2]), np.full(n, 1j), np.array([n, 4]), np.array(n)
r = list(np.arange(n)), np.arange(n).tolist(), [int(k) for k in np.arange(n)]
r = x * np.matmul(x[0].numpy(), x[0].numpy()), np.matmul(x, x.T) + 1
b = np.zeros(n); b.resize(3); r = b
b = np.arange(n); np.random.shuffle(b); r = np.sort(b)
b = np.arange(n); r = x[torch.from_numpy(b)], repr(b), b.tobytes()
a = x.numpy().astype(np.int64); r = a % (n + 1), a // (n + 1), a + n, a & n, a > n
a = x.numpy().astype(np.int8); r = a + n
a = x.numpy(); o = np.zeros(4); np.sum(a, axis=0, out=o); r = o
a = x.numpy(); o = np.zeros(3, np.float32); np.sum(a, axis=0, out=o); r = o
a = x.numpy(); o = np.zeros(4, np.float32); v = o[:]; np.sum(a, axis=0, out=o); r = v
y = x * 2; y[np.arange(n), 1] += 1; y[np.arange(n) < 3] = 0; r = y
r = x[np.arange(n)[None]], x[np.arange(n, dtype=np.uint8)]
r = torch.from_numpy(np.sin(x))
r = torch.from_numpy(x * 2)
""".strip().splitlines()
SIZES = (5, 7, 4, 12, 6, 30)


def function_of(line):
    names = {"np": np, "torch": torch}
    exec(f"def f(x, n):{''.join(f'{chr(10)}    {part}' for part in line.split('; '))}\n    return r", names)
    return names["f"]


def drawn(n):
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(n))


def outcome_at(call, n):
    np.random.seed(n)
    return outcome(call, drawn(n), n)


@pytest.mark.parametrize("line", PROGRAMS)
def test_one_program_for_all_sizes(line):
    f = function_of(line)
    fast = braze.compile(f, fullgraph=True)
    for n in SIZES:
        alike(fast(drawn(n), n), f(drawn(n), n))
    assert fast.counts() == {"captured": 2, "replayed": len(SIZES) - 2, "native": 0}


@pytest.mark.parametrize("line", PROGRAMS + OTHERS)
@pytest.mark.parametrize("dynamic", [None, True, False])
def test_is_right(line, dynamic):
    f = function_of(line)
    for _ in range(20):  # CPython has specialised the code by then.
        outcome_at(f, 4)
    fast = braze.compile(f, dynamic=dynamic)
    for n in (5, 7, 1, 0, 3, 4, 5):
        alike(outcome_at(fast, n), outcome_at(f, n))


def test_no_whole_number_differs_from_numpys():
    fast = braze.compile(
        lambda n: (np.arange(n, 2**24 + n, dtype=np.float32)[-3:], np.arange(n - 2**54, n - 2**54 + 9))
    )
    for n in (5, 700, 333, 41):
        alike(fast(n), (np.arange(n, 2**24 + n, dtype=np.float32)[-3:], np.arange(n - 2**54, n - 2**54 + 9)))


def test_the_reason_says_what_it_is():
    def f(x):
        return x * 2, np.arange(x.shape[0], 9.5)

    alike(braze.compile(f, dynamic=True)(drawn(4)), f(drawn(4)))
    told = braze.explain(f, dynamic=True)(drawn(4))
    assert [each.id for each in told.break_reasons] == ["array_of_number"]
