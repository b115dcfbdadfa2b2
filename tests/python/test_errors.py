"""What the user sees when something is wrong."""

import pytest
import torch

import braze


def fn(x, mask):
    return x * mask


@pytest.fixture(scope="module")
def program():
    return braze.trace(fn, (torch.randn(4, 8), torch.ones(4, 8)))


X = torch.randn(4, 8)
WRONG = {
    "shape": (
        torch.ones(4, 9),
        ValueError,
        r"argument 1 \(`mask`\): traced with f32\[4,8\], got f32\[4,9\]; trace again",
    ),
    "dtype": (
        torch.ones(4, 8).double(),
        TypeError,
        r"argument 1 \(`mask`\): traced with f32\[4,8\], got f64\[4,8\]",
    ),
    "strides": (torch.ones(8, 4).t(), ValueError, r"got f32\[4,8\]\{1,4\}"),
    "device": (torch.ones(4, 8, device="meta"), ValueError, r"got f32\[4,8\]@meta"),
    "sparse": (torch.ones(4, 8).to_sparse(), ValueError, "Sparse"),
    "no tensor": (3, TypeError, "traced with a tensor, got int 3"),
    "None": (None, TypeError, "traced with a tensor, got None"),
    "negated": (torch.complex(X, X).conj().imag, ValueError, "negated|got"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_argument(program, name):
    mask, kind, message = WRONG[name]
    with pytest.raises(kind, match=message) as raised:
        program(X, mask)
    assert isinstance(raised.value, braze.Error)
    program(X, torch.ones(4, 8))


def test_wrong_number(program):
    with pytest.raises(TypeError, match=r"argument 1 \(`mask`\) is missing"):
        program(X)
    with pytest.raises(TypeError, match="3 positional arguments"):
        program(X, X, X)
    with pytest.raises(TypeError, match="unexpected keyword argument `other`"):
        program(X, X, other=1)
    with pytest.raises(TypeError, match="given twice"):
        program(X, X, mask=X)


def test_index_out_of_range():
    program = braze.trace(torch.nn.functional.embedding, (torch.tensor([0, 1]), torch.randn(5, 3)))
    weight = torch.randn(5, 3)
    for index in (5, -1):
        with pytest.raises(IndexError, match="index out of range in self") as raised:
            program(torch.tensor([0, index]), weight)
        assert isinstance(raised.value, braze.Error)
    assert torch.equal(program(torch.tensor([4, 0]), weight), weight[[4, 0]])


class Custom(Exception):
    pass


def raising(x):
    y = x + 1
    raise Custom(f"after {y.shape}")


def test_exceptions_of_the_function_pass_through():
    with pytest.raises(Custom, match="after") as raised:
        braze.trace(raising, (X,))
    assert raised.traceback[-1].name == "raising"
    assert torch.equal(X + 1, X.clone().add_(1)), "the thread records no more"
    braze.trace(fn, (X, X))


def test_operator_errors_are_torchs():
    with pytest.raises(RuntimeError, match="shape|size|multiplied|reduction dim"):
        braze.trace(lambda a, b: a @ b, (torch.randn(2, 3), torch.randn(4, 5)))


def test_tensors_of_a_finished_trace():
    kept = []
    braze.trace(lambda x: kept.append(x + 1) or x * 2, (X,), check=False)
    with pytest.raises(RuntimeError):
        kept[0] + 1


def test_reading_values_freezes_them():
    def by_value(x):
        return x * 2 if x.sum() > 0 else x * 3

    with pytest.warns(braze.TraceWarning, match=r"test_errors\.py:\d+"):
        program = braze.trace(by_value, (torch.ones(3),), check=False)
    assert torch.equal(program(-torch.ones(3)), -2 * torch.ones(3))


READS = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "tolist": lambda x: x.tolist()[0],
    "numpy": lambda x: float(x.numpy()[0]),
    "asarray": lambda x: float(__import__("numpy").asarray(x)[0]),
    "format": lambda x: len(f"{x.sum():.2f}"),
}


@pytest.mark.parametrize("name", READS)
def test_every_way_to_read(name):
    x = torch.tensor([2.0, 0.0])
    with pytest.warns(braze.TraceWarning, match=r"test_errors\.py"):
        program = braze.trace(lambda x: x * READS[name](x + 0), (x,), check=False)
    assert torch.equal(program(x), x * READS[name](x))


def test_print_while_tracing(capsys):
    with pytest.warns(braze.TraceWarning):
        braze.trace(lambda x: print(x + 1), (torch.zeros(2),), check=False)
    assert capsys.readouterr().out.strip() == "tensor([1., 1.])"


def test_methods_of_tensor_are_put_back():
    before = {
        name: torch.Tensor.__dict__.get(name) for name in ("tolist", "numpy", "__array__", "__repr__", "data_ptr")
    }
    braze.trace(fn, (X, X))
    with pytest.raises(Custom):
        braze.trace(raising, (X,))
    assert before == {name: torch.Tensor.__dict__.get(name) for name in before}


def test_check_sees_what_tracing_cannot():
    calls = []

    def counting(x):
        calls.append(None)
        return x + len(calls)

    with pytest.warns(braze.TraceWarning, match="differs"):
        braze.trace(counting, (X,))


def test_tracing_inside_of_a_trace():
    inner = braze.trace(fn, (X, X))
    with pytest.raises(braze.Error, match="being traced"):
        braze.trace(lambda x: inner(x, x), (X,))
    with pytest.raises(braze.Error, match="being traced"):
        braze.trace(lambda x: braze.trace(fn, (x, x)), (X,))


def test_example_inputs_of_a_wrong_kind():
    with pytest.raises(TypeError, match="example_inputs is a dict"):
        braze.trace(fn, {"x": X})
    with pytest.raises(TypeError):
        braze.trace(fn, (X,))


def test_stage_names():
    program = braze.trace(fn, (X, X))
    with pytest.raises(ValueError, match="graph, loops, llvm"):
        program.code("assembler")


def test_memory_shared_later():
    def add_to(a, b):
        a.add_(b)
        return a * b

    program = braze.trace(add_to, (torch.ones(4), torch.ones(4)))
    a = torch.ones(4)
    with pytest.raises(ValueError, match="did not share memory"):
        program(a, a.view(2, 2).view(4))


@pytest.mark.parametrize(
    "divide",
    [
        lambda a, b: a // b,
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        lambda a, b: a % b,
        lambda a, b: torch.fmod(a, b),
    ],
)
def test_integer_division_by_zero_raises_as_in_eager(divide):
    a, b, zero = torch.tensor([4, 5]), torch.tensor([1, 2]), torch.tensor([0, 2])
    program = braze.trace(divide, (a, b))
    assert torch.equal(program(a, b), divide(a, b))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        program(a, zero)


def test_integer_division_by_a_number_is_a_kernel():
    a = torch.arange(-20, 20)
    program = braze.trace(lambda a: (a // 3) % 7, (a,))
    assert torch.equal(program(a), (a // 3) % 7)
    assert all(step.kind == "kernel" for step in program.steps)
