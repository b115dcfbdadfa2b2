"""braze.trace(dynamic=): programs for arguments of several sizes."""

import pytest
import torch

import braze

pytestmark = pytest.mark.usefixtures("no_gradients")


@pytest.fixture
def no_gradients():
    with torch.no_grad():
        yield


def scaled(x, y):
    n = x.shape[0]
    return torch.softmax(x.view(n, 2, -1), -1).sum(0) + y[: n // 2].sum(), x[1:] * n - n, n / x


SIZES = {"x": {0: "batch"}, "y": {0: "batch"}}


def traced():
    return braze.trace(scaled, (torch.randn(6, 8), torch.randn(6)), dynamic=SIZES)


def test_one_program_for_all_sizes():
    program = traced()
    for n in (3, 5, 9, 40, 6):
        x, y = torch.randn(n, 8), torch.randn(n)
        for one, other in zip(program(x, y), scaled(x, y), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((torch.ones(4, 8), torch.ones(5)), "size 0 is 5, and must be batch = 4; batch is size 0 of argument 0"),
        ((torch.ones(1, 8), torch.ones(1)), "batch must be at least 2; batch is size 0 of argument 0 (`x`), 1"),
        ((torch.ones(4, 7), torch.ones(4)), "argument 0 (`x`): size 1 is 7, and must be 8"),
        ((torch.ones(8, 4).t(), torch.ones(4)), "argument 0 (`x`): stride 0 is 1, and must be 8"),
        ((torch.ones(4, 8), torch.ones(4, 1)), "argument 1 (`y`): a tensor of 1 dimensions is wanted"),
        ((torch.ones(4, 8).double(), torch.ones(4)), "argument 0 (`x`)"),
    ],
)
def test_errors_name_the_relation(arguments, text):
    with pytest.raises(braze.Error) as error:
        traced()(*arguments)
    assert text in str(error.value)


def test_a_decision_is_that_of_the_example():
    program = braze.trace(lambda x: x + 1 if x.shape[0] > 4 else x - 1, torch.ones(6), dynamic={"x": 0})
    assert program(torch.ones(5)).sum() == 10
    with pytest.raises(braze.Error, match="the program is for x_0 >= 5"):
        program(torch.ones(3))


@pytest.mark.parametrize(
    ("dynamic", "text"),
    [
        ({"z": 0}, "dynamic names z; tensors are passed as x"),
        ({"x": 3}, "`x` has 1 dimensions, and none of number 3"),
        ({"x": -2}, "`x` has 1 dimensions, and none of number -2"),
        ({"x": {0: ("b", 2, 4)}}, "size 0 of `x` is 6 in the example; it may vary from 2 up to 4"),
        ({"x": {0: ("b", 7)}}, "size 0 of `x` is 6 in the example; it may vary from 7 up"),
        ({"x": {0: ("b", 5, 3)}}, "size 0 is at least 5 and at most 3: it has no value"),
        ({"x": {0: "b", -1: "c"}}, "size 0 of `x` is named twice"),
        ({"x": [0, 0]}, "size 0 of `x` is named twice"),
        ({"x": {0: 5}}, "a name or"),
        ({"x": {0: "a b"}}, "a name or"),
        ({"x": "b"}, "a dimension, a list of them or a name by dimension, not 'b'"),
        ({"x": True}, "a dimension, a list of them or a name by dimension, not True"),
        ({"x": None}, "a dimension, a list of them or a name by dimension, not None"),
        (["x"], "dynamic is a list"),
    ],
)
def test_wrong_names(dynamic, text):
    with pytest.raises(braze.Error) as error:
        braze.trace(lambda x: x * 2, torch.ones(6), dynamic=dynamic)
    assert text in str(error.value)


def test_dimensions_of_one_name_have_the_bounds_of_all():
    example = torch.ones(4), torch.ones(4)
    dynamic = {"x": {0: ("n", 2, 8)}, "y": {0: ("n", 3, 9)}}
    program = braze.trace(lambda x, y: x + y, example, dynamic=dynamic)
    assert program(torch.ones(8), torch.ones(8)).sum() == 16
    for size in (2, 9):
        with pytest.raises(braze.Error, match="n must be at least 3 and at most 8"):
            program(torch.ones(size), torch.ones(size))
    with pytest.raises(braze.Error, match="'n' is at least 6 and at most 5"):
        braze.trace(lambda x, y: x + y, example, dynamic={"x": {0: ("n", 2, 5)}, "y": {0: ("n", 6)}})
    with pytest.raises(braze.Error, match="n is 4 in the examples, and 5 in size 0 of `y`"):
        braze.trace(
            lambda x, y: x.sum() + y.sum(), (torch.ones(4), torch.ones(5)), dynamic={"x": {0: "n"}, "y": {0: "n"}}
        )


@pytest.mark.parametrize(
    ("function", "asked"),
    [
        (lambda x: x * int(x.shape[0]), "test_trace_sizes.py:"),
        (lambda x: x + 1 if x.shape[0] == 6 else x, "test_trace_sizes.py:"),
        (lambda x: sum(x[k] for k in range(x.shape[0])), "test_trace_sizes.py:"),
        (lambda x: x.view(6), "aten::view at "),
        (lambda x: x + torch.ones(6), "aten::add at "),
    ],
)
def test_a_size_that_is_a_number_to_the_function(function, asked):
    with pytest.raises(braze.Error) as error:
        braze.trace(function, torch.ones(6), dynamic={"x": {0: "n"}})
    text = (
        "dynamic: n was to vary, which is size 0 of `x`, and the function needs it to be 6: n == 6, asked for by "
    )
    assert str(error.value).startswith(text)
    assert asked in str(error.value)


def test_relations_that_were_found():
    halves = braze.trace(lambda x: x.view(x.shape[0] // 4, 4).sum(1), torch.ones(8), dynamic={"x": {0: "n"}})
    assert halves(torch.ones(12)).tolist() == [4, 4, 4]
    with pytest.raises(
        braze.Error, match=r"for n mod 4 == 0 \(aten::view at .*; n is size 0 of argument 0 \(`x`\), 10"
    ):
        halves(torch.ones(10))
    both = {"x": {0: "n"}, "y": {0: "m"}}
    added = braze.trace(lambda x, y: x + y, (torch.ones(8), torch.ones(8)), dynamic=both)
    assert added(torch.ones(5), torch.ones(5)).sum() == 10
    with pytest.raises(braze.Error, match=r"for n == m \(aten::add at .*, 7, m is size 0 of argument 1 \(`y`\), 8"):
        added(torch.ones(7), torch.ones(8))


def test_names_of_nested_arguments_and_bounds():
    def doubled(batch):
        return batch["ids"] * 2

    dynamic = {"batch['ids']": {0: None, -1: ("length", 2, 8)}}
    program = braze.trace(doubled, ({"ids": torch.ones(3, 4)},), dynamic=dynamic)
    assert program({"ids": torch.ones(5, 8)}).shape == (5, 8)
    with pytest.raises(braze.Error, match="length must be at least 2 and at most 8"):
        program({"ids": torch.ones(5, 9)})


def test_dimensions_of_export():
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", min=3, max=8)
    program = braze.trace(lambda x: x * 2, torch.randn(4, 5), dynamic={"x": {0: batch, 1: length}})
    for shape in ((2, 3), (9, 8)):
        x = torch.randn(shape)
        assert torch.equal(program(x), x * 2)
    for columns in (2, 9):
        with pytest.raises(braze.Error, match="length"):
            program(torch.randn(4, columns))
    for told in (2 * batch, torch.export.Dim.AUTO):
        with pytest.raises(TypeError, match="or a torch.export.Dim"):
            braze.trace(lambda x: x * 2, torch.randn(4, 5), dynamic={"x": {0: told}})


def test_a_size_where_a_tensor_could_stand():
    with pytest.raises(RuntimeError, match="a size that varies in the place of a tensor"):
        braze.trace(lambda x: x // x.shape[0], torch.ones(6), dynamic={"x": 0})
    with pytest.raises(braze.Error, match="x_0 was to vary"):
        braze.trace(lambda x: x * x.shape[0], torch.ones(6, dtype=torch.float16), dynamic={"x": 0})


@pytest.mark.parametrize(
    "function",
    [lambda x: x * {6: 2}[x.shape[0]], lambda x: x * (x.shape[0] in {6, 7}), lambda x: x * {}.get(x.shape[0], 3)],
    ids=["dict", "set", "get"],
)
def test_sizes_as_keys(function):
    x = torch.randn(6, 2)
    with pytest.raises(
        braze.Error, match=r"test_trace_sizes.py:\d+ needs the value of a size that was to vary, as the"
    ):
        braze.trace(function, x, dynamic={"x": 0})
    torch.testing.assert_close(braze.trace(function, x)(x), function(x))
    torch.testing.assert_close(braze.trace(function, x, dynamic={"x": 1})(x), function(x))


def test_code_that_does_without_keys():
    def kept(x):
        try:
            return x * {6: 6}[x.shape[0]]
        except TypeError:
            return x * x.shape[0]

    program = braze.trace(kept, torch.randn(6, 2), dynamic={"x": 0})
    assert torch.equal(program(torch.ones(4, 2)), torch.full((4, 2), 4.0))


def test_arguments_are_named():
    with pytest.raises(braze.ArgumentTypeError, match="given by names of arguments, not by 0"):
        braze.trace(lambda x: x, torch.randn(6, 2), dynamic={0: 0})
