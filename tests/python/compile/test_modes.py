"""Autocast and the grad mode, around compiled calls and inside of them: results, dtypes and modes as in eager."""

import contextlib

import pytest
import torch
from compiling import compiled
from torch import nn

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
torch.manual_seed(0)
NET = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 8), nn.Softmax(-1))
NET.requires_grad_(False)
SURROUNDINGS = {
    "nothing": [],
    "no_grad": [torch.no_grad],
    "inference_mode": [torch.inference_mode],
    "autocast": [lambda: torch.autocast("cpu", torch.bfloat16)],
    "autocast, off": [lambda: torch.autocast("cpu", enabled=False)],
    "no_grad, autocast, without a cache": [torch.no_grad, lambda: torch.autocast("cpu", cache_enabled=False)],
}


def modes():
    nesting = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return (
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
        nesting,
    )


def same(one, other):
    if isinstance(one, torch.Tensor):
        assert (one.dtype, one.requires_grad, one.is_inference()) == (
            other.dtype,
            other.requires_grad,
            other.is_inference(),
        )
        torch.testing.assert_close(one, other, rtol=2e-2, atol=1e-2)
    elif isinstance(one, tuple):
        for a, b in zip(one, other, strict=True):
            same(a, b)
    else:
        assert one == other


def region(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = NET(x)
    return y, x @ x.T


@torch.autocast("cpu")
def decorated(x):
    return NET(x)


def nested(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = NET(x)
        with torch.autocast("cpu", enabled=False):
            b = NET(x.float())
        return a, b, NET(x), torch.is_autocast_enabled("cpu")


def among_grad_modes(x):
    with torch.no_grad(), torch.amp.autocast("cpu", torch.float16):
        with torch.enable_grad():
            a = NET(x)
        b = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_grad_enabled()
    return a, b, torch.is_autocast_enabled("cpu")


def uncached(x):
    with torch.autocast("cpu", cache_enabled=False):
        inner = torch.is_autocast_cache_enabled()
        y = NET(x)
    return y, inner, torch.is_autocast_cache_enabled()


def reads_modes(x):
    return x * 2, torch.is_autocast_cache_enabled(), torch.is_autocast_enabled("cpu")


def left_by_an_exception(x):
    y = x
    try:
        with torch.autocast("cpu"):
            y = NET(x)
            raise ValueError
    except ValueError:
        pass
    return y, x @ x.T


def changed_for_good(x):
    torch.set_grad_enabled(False)
    torch.set_autocast_enabled("cpu", True)
    y = x @ x.T
    torch.set_autocast_cache_enabled(False)
    return y


def out_of_inference_mode(x):
    with torch.inference_mode(False):
        y = x * 2
        z = y.sin()
    return y, z, z[0], z.T, x * 3


WHOLE = [
    region,
    decorated,
    nested,
    among_grad_modes,
    uncached,
    reads_modes,
    left_by_an_exception,
    changed_for_good,
    out_of_inference_mode,
]


def broken_inside(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = NET(x) @ x.T
        print(end="")
        z = y @ y
    return z, x @ x.T


def broken_in_a_callee(x):
    def callee(x):
        with torch.autocast("cpu", cache_enabled=False):
            y = x @ x.T
            print(end="")
            return y @ y

    return callee(x) + 1, x @ x.T


@pytest.mark.parametrize("surrounding", SURROUNDINGS)
@pytest.mark.parametrize("function", [*WHOLE, broken_inside, broken_in_a_callee], ids=lambda f: f.__name__)
def test_as_in_eager(function, surrounding):
    fast = compiled(function)
    for _ in range(3):
        x = torch.randn(4, 8)
        outcomes = []
        for call in (function, fast):
            before = torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
            with contextlib.ExitStack() as stack:
                for enter in SURROUNDINGS[surrounding]:
                    stack.enter_context(enter())
                with torch.set_grad_enabled(torch.is_grad_enabled()), torch.autocast("cpu", enabled=False):
                    torch.set_autocast_enabled("cpu", "autocast" in surrounding and "off" not in surrounding)
                    outcomes.append((call(x), modes()))
            assert (torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()) == before
        same(outcomes[1], outcomes[0])
    if function in WHOLE:
        assert fast.reasons() == {} and fast.counts() == {"captured": 1, "replayed": 2, "native": 0}
        assert len(fast.report()["segments"]) == 1


def test_the_mode_around_is_guarded():
    fast = compiled(lambda x: NET(x))
    x = torch.randn(4, 8)
    for _ in range(2):
        for enabled in (False, True):
            for dtype in (torch.bfloat16, torch.float16):
                with torch.autocast("cpu", dtype, enabled=enabled):
                    same(fast(x), NET(x))
    assert fast.counts()["replayed"] >= 4


def test_casts_of_parameters_are_neither_left_nor_taken():
    """Autocast keeps casts of parameters that require grad: real ones for captures, tracers for eager calls."""
    net = nn.Linear(8, 8)
    fast = compiled(lambda x: net(x))
    x = torch.randn(4, 8)
    with torch.no_grad(), torch.autocast("cpu"):
        same(net(x), net(x))
        same(fast(x), net(x))
        same(fast(x), net(x))
    net.weight.data.mul_(3)
    with torch.no_grad(), torch.autocast("cpu"):
        same(fast(x), net(x))
        inner = compiled(lambda x: region(net(x)))
        for _ in range(2):
            same(inner(x), region(net(x)))
            assert torch.is_autocast_cache_enabled()


@contextlib.contextmanager
def put_back(setter, value):
    setter(not value)
    try:
        yield
    finally:
        setter(value)


@pytest.mark.parametrize(
    ("read", "setter"),
    [
        (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
        (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
        (torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark),
        (torch._C._get_cudnn_deterministic, torch._C._set_cudnn_deterministic),
        (torch._C._get_flash_sdp_enabled, torch._C._set_sdp_use_flash),
        (torch._C._get_mem_efficient_sdp_enabled, torch._C._set_sdp_use_mem_efficient),
        (torch._C._get_math_sdp_enabled, torch._C._set_sdp_use_math),
        (torch.is_deterministic_algorithms_warn_only_enabled, None),
        (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
        (torch._C._is_multithreading_enabled, None),
        (torch._C._is_fwd_grad_enabled, None),
    ],
)
def test_what_pytorch_is_told_is_read_in_a_graph_and_guarded(read, setter):
    """torch.backends.mkldnn.flags() and its like read before they set."""

    def f(x):
        y = x * 2
        return y + 1 if read() else y - 1

    x = torch.ones(3)
    quick = braze.compile(f, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(quick(x), f(x))
    assert quick.counts()["captured"] == 1
    if setter:
        with put_back(setter, read()):
            torch.testing.assert_close(quick(x), f(x))
        torch.testing.assert_close(quick(x), f(x))


def with_factories(x):
    return torch.nn.functional.softmax(x + torch.ones(8), -1) * torch.arange(8) + torch.zeros(8)


def through_device(x):
    with torch.device("cpu"):
        y = with_factories(x)
    return y * 2


@pytest.fixture
def default_device():
    yield torch.set_default_device
    torch.set_default_device(None)


def test_a_default_device_that_is_the_cpu_changes_nothing(default_device):
    """Programs hold with it and without: one capture for both."""
    fast = braze.compile(with_factories, fullgraph=True)
    x = torch.randn(4, 8)
    for device in ("cpu", None, torch.device("cpu"), None):
        default_device(device)
        for _ in range(2):
            torch.testing.assert_close(fast(x), with_factories(x))
        with torch.device("cpu"):
            torch.testing.assert_close(fast(x), with_factories(x))
    assert fast.counts() == {"captured": 1, "replayed": 11, "native": 0}


def test_a_default_device_that_is_another(default_device):
    fast = compiled(with_factories)
    x = torch.randn(4, 8)
    for device in ("cpu", "meta", "cpu", "meta"):
        default_device(device)
        with torch.no_grad():
            given = x.to(device)
            ours, theirs = fast(given), with_factories(given)
        assert ours.device == theirs.device
        if device == "cpu":
            torch.testing.assert_close(ours, theirs)
        assert torch.get_default_device() == torch.device(device)


def test_factories_take_the_default_device_where_eagers_do(default_device):
    """PyTorch's Python functions run without the mode: what F.gelu makes would be on the CPU."""

    def helper(x):
        return torch.overrides.has_torch_function_unary(x), torch.zeros(2).device

    def f(x):
        made = torch.zeros(2), torch.tensor(1.5), torch.ones(3, device="cpu"), torch.arange(4, device=None)
        return torch.nn.functional.gelu(x), [one.device for one in made], helper(x), torch.empty(1).device

    x = torch.ones(3)
    fast = compiled(f)
    for device in ("meta", "cpu", None, "meta", torch.device("cpu")):
        default_device(device)
        for _ in range(2):
            assert str(fast(x)) == str(f(x))
        with torch.device("meta"):
            assert str(fast(x)) == str(f(x))


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_default_device_with_a_number_is_captured(default_device, dynamic):
    """As "cuda" is: this one every machine has. Layers that ask for modes do what they do in eager."""
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()

    def f(x):
        rows = torch.arange(x.shape[0])[:, None] + torch.zeros(x.shape[0], 8) + torch.tensor(1.5)
        return rows * x, torch.rand(x.shape[0], 2, device=None), attention(x[None], x[None], x[None])[0]

    fast = compiled(f) if dynamic is None else braze.compile(f, dynamic=True)
    default_device("cpu:0")
    with torch.no_grad():
        for length in (4, 6, 4, 9, 12):
            x = torch.randn(length, 8)
            torch.manual_seed(2)
            mine = fast(x)
            torch.manual_seed(2)
            for one, other in zip(mine, f(x), strict=True):
                torch.testing.assert_close(one, other)
                assert one.stride() == other.stride()
    assert fast.counts()["native"] == 0 and fast.counts()["captured"] <= 2, fast.reasons()


def test_a_device_as_a_context_inside(default_device):
    fast = compiled(through_device)
    x = torch.randn(4, 8)
    for device in (None, "cpu", "meta", "cpu"):
        default_device(device)
        for _ in range(2):
            torch.testing.assert_close(fast(x), through_device(x))
    assert fast.counts()["replayed"] > 0


def test_code_that_asks_for_a_mode_sees_the_default_device(default_device):
    def f(x):
        y = x + 1
        return y * (2 if torch._C._is_torch_function_mode_enabled() else 3)

    x = torch.randn(4, 8)
    for device in ("cpu", None, "cpu"):
        fast = compiled(f)
        default_device(device)
        for _ in range(3):
            torch.testing.assert_close(fast(x), f(x))
        default_device(None if device else "cpu")
        torch.testing.assert_close(fast(x), f(x))


class Scaled(torch.overrides.TorchFunctionMode):
    def __init__(self, factor):
        self.factor = factor
        super().__init__()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * self.factor if func in (torch.sin, torch.Tensor.add) else out


def entered_in_the_function(x):
    with Scaled(3):
        return torch.sin(x).add(1)


@pytest.mark.parametrize("function", [lambda x: torch.sin(x).add(1), entered_in_the_function])
def test_a_mode_of_functions_around(function):
    """Its handler runs for each operator, whichever mode it is; without one a program is replayed."""
    fast = compiled(function)
    for factors in [(), (), (2,), (5,), (5, 7), (), ()]:
        with contextlib.ExitStack() as stack:
            for factor in factors:
                stack.enter_context(Scaled(factor))
            x = torch.randn(3, 4)
            torch.testing.assert_close(fast(x), function(x))
            assert torch._C._len_torch_function_stack() == len(factors)
    assert fast.counts()["replayed"] >= 3


def test_a_mode_of_functions_that_stays():
    def enters(x):
        mode = Scaled(2)
        mode.__enter__()
        return torch.sin(x), mode

    fast = compiled(enters)
    for _ in range(3):
        x = torch.randn(3, 4)
        result, mode = fast(x)
        assert torch._C._len_torch_function_stack() == 1
        mode.__exit__(None, None, None)
        torch.testing.assert_close(result, torch.sin(x) * 2)


def test_code_that_counts_modes(default_device):
    def counts(x):
        return x + torch._C._len_torch_function_stack()

    fast = compiled(counts)
    x = torch.randn(3, 4)
    for _ in range(3):
        torch.testing.assert_close(fast(x), x)
    assert fast.counts()["replayed"] > 0
    default_device("cpu")
    torch.testing.assert_close(fast(x), x + 1)
    with Scaled(2):
        assert torch.equal(fast(x), x + 2)
    default_device(None)
    torch.testing.assert_close(fast(x), x)


def test_the_default_device_changes_inside(default_device):
    def changes(x, device):
        torch.set_default_device(device)
        return x + torch.ones(4)

    def lengths(function):
        default_device(None)
        found = []
        for device in (None, "cpu", None, "cpu", "cpu", None, None):
            function(torch.ones(4), device)
            found.append(torch._C._len_torch_function_stack())
        return found

    assert lengths(compiled(changes)) == lengths(changes) == [0, 1, 0, 1, 1, 0, 0]
