"""What the tracer sees and keeps: aliasing, writes, random numbers, frozen values, autograd, clean-up."""

import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from compare import assert_same, check, copies

import braze


def traced(fn, *args, **kwargs):
    return braze.trace(fn, args, kwargs, check=False)


def nodes(program, op):
    return program.code("traced").count(f" = {op} ")


# ---- memory


def write_row(a):
    b = a * 2
    b[1].add_(1)
    b.t()[0].mul_(3)
    return b, b.sum()


def write_through_reshape(a):
    b = a.clone(memory_format=torch.contiguous_format)
    b.view(-1)[3:7].zero_()
    return b


def write_through_expand_of_one(a):
    b = a + 0
    b[:, :1].expand(a.shape[0], 1).fill_(4.0)
    return b


def write_diagonal(a):
    b = a + 0
    b.diagonal().mul_(2)
    return b, b.diagonal()


def write_strided(a):
    b = a + 0
    b.as_strided((2, 3), (1, 2), 1).add_(10)
    return b


def read_view_after_write(a):
    b = a + 0
    view = b[0]
    b.mul_(2)
    return view + 1


def write_input(a):
    a.mul_(2)
    return a


def write_input_view(a):
    a[:, 1:3].copy_(a[:, 3:5])
    return a.t()


def detach_shares(a):
    b = a + 0
    b.detach().add_(1)
    b.data.mul_(2)
    return b


def out_argument(a):
    target = torch.empty(0)
    torch.add(a, 1, out=target)
    torch.mul(target, 2, out=target)
    return target


def integer_write(a):
    counts = torch.zeros(3, dtype=torch.int32)
    counts[1:] += 2
    return counts + a.sum().to(torch.int32) * 0


def maximum_into(a):
    values, places = torch.empty(4), torch.empty(4, dtype=torch.int64)
    torch.max(a, 1, out=(values, places))
    return values, places


WRITES = [
    write_row,
    write_through_reshape,
    write_through_expand_of_one,
    write_diagonal,
    write_strided,
    read_view_after_write,
    write_input,
    write_input_view,
    detach_shares,
    out_argument,
    integer_write,
    maximum_into,
]


@pytest.mark.parametrize("fn", WRITES, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_writes(fn, layout):
    a = torch.randn(4, 6) if layout == "rows" else torch.randn(6, 4).t()
    check(fn, a)


def test_overlapping_writes_raise_as_in_eager():
    def bad(a):
        a[:1].expand(3, 6).add_(1)

    for call in (lambda: bad(torch.randn(4, 6)), lambda: traced(bad, torch.randn(4, 6))):
        with pytest.raises(RuntimeError, match="single memory location"):
            call()


def test_arguments_that_share_memory():
    def fn(a, b):
        a.add_(1)
        return b * 2, a

    def arguments():
        base = torch.arange(24.0).reshape(4, 6)
        return base, base[1]

    program = traced(fn, *arguments())
    mine, theirs = arguments(), arguments()
    assert_same(program(*mine), fn(*theirs))
    assert_same(mine, theirs)


def test_arguments_that_overlap_in_part_are_refused():
    base = torch.randn(10)
    with pytest.raises(RuntimeError, match="braze: .*clone"):
        traced(lambda a, b: (a.add_(1), b + 1), base[:6], base[4:])


def test_bound_tensors_are_written_and_read_anew():
    counter = torch.zeros(2)

    def fn(a):
        counter.add_(a.sum())
        return counter * 1, counter

    program = traced(fn, torch.ones(3))
    assert counter.tolist() == [0, 0], "tracing computes nothing"
    first, same = program(torch.ones(3))
    assert same is counter
    assert first.tolist() == counter.tolist() == [3, 3]
    counter.zero_()
    assert program(torch.ones(3))[0].tolist() == [3, 3]


def test_data_of_a_parameter_is_the_parameter():
    weight = torch.nn.Parameter(torch.ones(3))
    program = traced(lambda a: a * weight.data + weight.detach(), torch.ones(3))
    with torch.no_grad():
        weight.mul_(5)
    assert program(torch.ones(3)).tolist() == [10, 10, 10]


# ---- constants


def test_constants_built_inside_are_private():
    def fn(a):
        table = torch.tensor([1.0, 2.0, 3.0])
        table.add_(1)
        return a * table, table

    program = check(fn, torch.randn(3))
    program(torch.randn(3))[1].zero_()
    assert program(torch.randn(3))[1].tolist() == [2, 3, 4]


def test_scalar_constants_become_numbers():
    program = check(lambda a: a / torch.sqrt(torch.tensor(768.0)), torch.randn(3))
    assert "constant" not in program.code("traced")


def test_numbers_of_python_do_not_promote():
    check(lambda a: (a * 2.5 + 1, a / 3, 2**a, a // 2, a % 2), torch.randint(0, 5, (6,), dtype=torch.int32))
    check(lambda a: (a * 2.1, a + 0.1, a.clamp(min=0.3), a * True), torch.randn(6, dtype=torch.bfloat16))
    check(lambda a, b: (a * b, a + b.double()), torch.randn(4), torch.tensor(2.0, dtype=torch.float64))


# ---- values read while tracing


def test_values_that_no_input_decides_are_free():
    def fn(a):
        ids = torch.arange(a.shape[0])
        return a * 2 if bool((ids[1:] - ids[:-1] == 1).all()) else a

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(fn, torch.randn(5))


def test_reading_a_value_freezes_it_and_warns():
    with pytest.warns(braze.TraceWarning, match=r"test_capture.py:\d+.*item"):
        program = traced(lambda a: a * a.sum().item(), torch.full((2,), 3.0))
    assert program(torch.full((2,), 1.0)).tolist() == [6, 6]


def test_reading_after_a_write_sees_it():
    def fn(a):
        a.add_(1)
        return a * a.sum().item()

    a = torch.ones(2)
    with pytest.warns(braze.TraceWarning):
        program = traced(fn, a)
    assert a.tolist() == [1, 1]
    assert program(torch.ones(2)).tolist() == [8, 8]


def test_shapes_that_the_data_decides_are_frozen():
    a = torch.tensor([1.0, -1.0, 2.0])
    with pytest.warns(braze.TraceWarning, match="nonzero"):
        program = traced(lambda a: a[(a > 0).nonzero()[:, 0]] * 2, a)
    assert program(a).tolist() == [2, 4]


# ---- random numbers


def dropout_twice(a):
    return F.dropout(a, 0.5), F.dropout(a, 0.3)


def seeded(a):
    torch.manual_seed(7)
    return a + torch.rand(3), torch.randn_like(a)


def forked(a):
    first = torch.rand(3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        second = torch.rand(3)
    return a + first, second, torch.rand(3)


def restored(a):
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    return a + first, torch.rand(3)


def filled_in_place(a):
    return torch.empty(5).uniform_(-1, 1) + torch.empty(5).normal_() + a.sum()


@pytest.mark.parametrize(
    "fn", [dropout_twice, seeded, forked, restored, filled_in_place], ids=lambda fn: fn.__name__
)
def test_random_numbers_are_those_of_eager(fn):
    before = torch.get_rng_state()
    check(fn, torch.randn(3))
    torch.set_rng_state(before)
    traced(fn, torch.zeros(3))
    assert torch.equal(torch.get_rng_state(), before), "tracing draws nothing"


def test_seeding_like_before_the_trace_is_seen():
    torch.manual_seed(7)
    program = traced(seeded, torch.zeros(3))
    torch.manual_seed(1)
    got = program(torch.zeros(3))
    torch.manual_seed(1)
    assert_same(got, seeded(torch.zeros(3)))


# ---- autograd


def test_gradients_inside():
    def fn(a):
        with torch.enable_grad():
            b = a.detach().requires_grad_()
            (gradient,) = torch.autograd.grad((b.tanh() * b).sum(), b)
        return gradient

    check(fn, torch.randn(4, 3))


def test_backward_is_refused_and_undone():
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.full((3,), 2.0)

    def fn(a):
        weight.grad = None
        (a * weight).sum().backward()
        return a

    with pytest.raises(braze.Error, match="autograd.grad"):
        traced(fn, torch.randn(3))
    assert weight.grad is None or not weight.grad.isnan().any()


def test_functional_transforms():
    check(lambda a: torch.vmap(lambda row: row.softmax(0).sum() + torch.tensor(1.0))(a), torch.randn(4, 3))
    check(lambda a: torch.func.grad(lambda x: (x**3).sum())(a), torch.randn(4))


# ---- what a trace leaves behind


def test_an_exception_leaves_nothing():
    class Mine(Exception):
        pass

    kept = []

    def fn(a):
        kept.append(a + 1)
        raise Mine("as it was")

    with pytest.raises(Mine, match="as it was"):
        traced(fn, torch.randn(3))
    assert torch.is_tensor(torch.ones(2) + 1)
    assert torch.rand(2).data_ptr() != 0
    with pytest.raises(RuntimeError, match="finished trace"):
        kept[0] + 1


def bump(x):
    x.copy_(torch.from_numpy(x.numpy() + 1))


def test_unknown_operators_become_calls():
    with torch.library._scoped_library("braze_test", "DEF") as library:
        library.define("scale(Tensor x, float by) -> Tensor")
        library.define("bump_(Tensor(a!) x) -> ()")
        library.impl("scale", lambda x, by: torch.from_numpy(x.numpy() * by), "CPU")
        library.impl("bump_", bump, "CPU")

        def fn(a):
            b = torch.ops.braze_test.scale(a + 1, 3.0)
            torch.ops.braze_test.bump_(b[0])
            return b * 2

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", braze.TraceWarning)  # shapes are asked of the example
            program = check(fn, torch.randn(4, 3))
        assert nodes(program, "call") == 2


def test_custom_operators_are_kept_whole():
    @torch.library.custom_op("braze_test_custom::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.detach().numpy() * 2)

    @double.register_fake
    def _(x):
        return torch.empty_like(x)

    program = check(lambda a: double(a) + 1, torch.randn(4, 3))
    assert nodes(program, "call") == 1


def test_models_need_no_calls():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")

        def forward(self, x):
            return self.inner(x)

    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            program = check(Model().eval(), torch.randn(2, 5, 16))
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert nodes(program, "call") == 0


def test_copies_helper_keeps_layout():
    # The comparisons above mean nothing if the copies were laid out otherwise.
    a = torch.randn(6, 4).t()
    assert copies(a).stride() == a.stride()


def test_inference_mode():
    weight = torch.nn.Parameter(torch.randn(3))

    def fn(a):
        b = weight[:2] * a[:2]
        b[0].add_(1)
        a.mul_(2)
        return b, a.t()

    for made_inside in (False, True):
        with torch.inference_mode(made_inside):
            a = torch.randn(3)
        with torch.inference_mode():
            check(fn, a)


def test_threads_that_trace_and_draw_at_the_same_time():
    before = torch.get_rng_state()
    programs = {}
    stop = threading.Event()

    def draw():
        while not stop.is_set():
            torch.rand(3)

    def trace(number):
        for _ in range(5):
            programs[number] = traced(lambda a: F.dropout(a, 0.5) + torch.rand(3) + number, torch.zeros(3))

    noise = threading.Thread(target=draw)
    threads = [threading.Thread(target=trace, args=(n,)) for n in range(4)]
    noise.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    noise.join()
    torch.set_rng_state(before)
    for program in programs.values():
        assert "generator_state" not in program.code("traced")
