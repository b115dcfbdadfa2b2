"""Guards on tensors and on PyTorch's modes and flags."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from guarding import Case, on_argument


def fresh():
    return torch.arange(12.0).reshape(3, 4)


class Derived(torch.Tensor):
    pass


OTHERS = {
    "dtype": (lambda x: x.double(), "x.dtype == torch.float32, was torch.float64"),
    "bool dtype": (lambda x: x.bool(), "x.dtype == torch.float32, was torch.bool"),
    "sizes": (lambda x: torch.ones(3, 5), "x.shape == (3, 4), was (3, 5)"),
    "rank": (lambda x: torch.ones(12), "x.shape == (3, 4), was (12,)"),
    "strides": (lambda x: torch.ones(4, 3).t(), "x.stride() == (4, 1), was (1, 3)"),
    "device": (lambda x: x.to("meta"), "x.device == cpu, was meta"),
    "requires_grad": (lambda x: x.clone().requires_grad_(), "x.requires_grad == False, was True"),
    "leaf": (lambda x: x.clone().requires_grad_() * 1, "x.requires_grad == False, was True"),
    "parameter": (lambda x: torch.nn.Parameter(x), "type(x) is Tensor, was Parameter"),
    "subclass": (lambda x: x.as_subclass(Derived), "type(x) is Tensor, was Derived"),
    "sparse": (lambda x: x.to_sparse(), "x has dispatch keys"),
    "conjugate": (lambda x: torch.complex(x, x).conj(), "x.dtype == torch.float32, was torch.complex64"),
    "no tensor": (lambda x: x.numpy(), "type(x) is Tensor, was numpy.ndarray"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_tensors_are_told_apart(name):
    make, why = OTHERS[name]
    case = on_argument("tensor", fresh())
    assert case.holds(fresh())
    assert case.holds(fresh() * 7)
    assert case.why(make(fresh())).startswith(why)


def test_data_does_not_matter_and_views_do_only_by_geometry():
    case = on_argument("tensor", torch.ones(3, 4))
    assert case.holds(torch.full((3, 4), float("nan")))
    assert not case.holds(torch.ones(4, 8)[1:, ::2])


def test_leaves_views_and_conjugates():
    x = torch.ones(3, requires_grad=True)
    case = on_argument("tensor", x)
    assert case.why(x * 1) == "x.is_leaf == True, was False"
    z = torch.ones(3, dtype=torch.complex64)
    assert on_argument("tensor", z).why(z.conj()).startswith("x has dispatch keys")
    negative = z.conj().imag
    assert negative.is_neg()
    plain = z.imag
    assert on_argument("tensor", plain).why(negative).startswith("x has dispatch keys")
    leaf = torch.ones(3, 4, requires_grad=True)
    with torch.no_grad():
        view = leaf[0]
    assert on_argument("tensor", torch.ones(4)).why(view) == "x is a view of what requires grad == False, was True"


def test_inference_tensors():
    case = on_argument("tensor", fresh())
    with torch.inference_mode():
        inference = fresh()
    assert case.why(inference).startswith("x has dispatch keys")


def test_hooks_are_seen():
    x = torch.ones(3, requires_grad=True)
    case = on_argument("tensor", x)
    handle = x.register_hook(lambda grad: grad)
    assert case.why(x) == "x has hooks == False, was True"
    handle.remove()
    y = torch.ones(3, requires_grad=True)
    case = on_argument("tensor", y)
    y.register_post_accumulate_grad_hook(lambda p: None)
    assert not case.holds(y)
    z = (torch.ones(3, requires_grad=True) * 2).detach().requires_grad_() * 2
    case = on_argument("tensor", z)
    z.retain_grad()
    assert case.why(z) == "x.retains_grad == False, was True"


def test_a_parameter_changed_in_place():
    """`module.half()` keeps the Parameter object; what it is changes."""
    layer = torch.nn.Linear(3, 2)

    def build(g, x):
        weight = g.dict_item(g.attribute(x, "_parameters"), "weight")
        g.identity(weight, layer.weight)
        g.tensor(weight, layer.weight)

    case = Case(build)
    weight = layer.weight
    assert case.holds(layer)
    assert case.holds(layer)
    layer.half()
    assert layer.weight is weight
    assert case.why(layer) == "x.weight.dtype == torch.float32, was torch.float16"
    layer.float()
    assert case.holds(layer)
    layer.weight.data = torch.ones(2, 3).t().contiguous().t()
    assert case.why(layer) == "x.weight.stride() == (3, 1), was (1, 2)"
    layer.weight.data = torch.ones(2, 3)
    layer.weight.requires_grad_(False)
    assert case.why(layer) == "x.weight.requires_grad == True, was False"
    layer.weight.requires_grad_()
    assert case.holds(layer)
    with torch.no_grad():
        layer.weight.add_(1)
    assert case.holds(layer)
    layer.weight = torch.nn.Parameter(torch.ones(2, 3))
    assert case.why(layer) == "x.weight is a Parameter torch.float32(2, 3), was another one"


def test_resized_and_moved_in_place():
    x = fresh()
    case = on_argument("tensor", x)
    x.resize_(3, 5)
    assert case.why(x) == "x.shape == (3, 4), was (3, 5)"
    x.resize_(3, 4)
    assert case.holds(x)
    x.t_()
    assert "x.shape" in case.why(x)


def test_alignment():
    memory = torch.ones(64)
    offset = next(i for i in range(16) if memory[i:].data_ptr() % 64 == 0)
    aligned, off = memory[offset : offset + 4], memory[offset + 1 : offset + 5]
    case = on_argument("tensor", aligned, alignment=64)
    assert case.holds(aligned)
    assert case.why(off) == "x is aligned to 64 bytes, was not"
    assert on_argument("tensor", aligned).holds(off)


def test_tensors_that_cannot_be_guarded_are_refused():
    from torch._subclasses.fake_tensor import FakeTensorMode

    refused = [fresh().to_sparse(), torch.nested.nested_tensor([torch.ones(2)]), 3]
    with FakeTensorMode():
        refused.append(torch.ones(2))
    for value in refused:
        with pytest.raises(AssertionError, match="refused"):
            on_argument("tensor", value)


def test_tangents_are_seen():
    import torch.autograd.forward_ad as forward_ad

    x = fresh()
    case = on_argument("tensor", x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones(3, 4))
        assert not case.holds(dual)


# ----------------------------------------------------------------------------------------------------------- memory


def storages(*tensors):
    names = [f"a{i}" for i in range(len(tensors))]
    return Case(lambda g, *sources: g.storages(list(sources), list(tensors)), *names)


def test_memory_that_is_not_shared():
    a, b = fresh(), fresh()
    case = storages(a, b)
    assert case.holds(a, b)
    assert case.holds(b, a)
    assert case.holds(fresh(), fresh())
    assert case.why(a, a) == "a0 and a1 share no memory, was otherwise"
    assert not case.holds(a, a.view(12))
    assert not case.holds(a, a[1:])
    assert not case.holds(a[:1], a[2:])
    assert case.holds(a, b)


def test_memory_that_is_shared_at_a_distance():
    a = fresh()
    case = storages(a[0], a[1])
    assert case.holds(a[0], a[1])
    other = fresh()
    assert case.holds(other[1], other[2])
    assert case.why(a[0], a[2]) == "a0 and a1 begin 16 bytes apart, was 32"
    assert not case.holds(a[1], a[0])
    assert case.why(a[0], other[1]) == "a0 and a1 share memory, was otherwise"


def test_memory_shared_outside_of_torch():
    """Two storages may be one array's memory."""
    array = np.zeros(16, dtype=np.float32)
    apart = storages(fresh(), fresh())
    first, second = torch.from_numpy(array[:8]), torch.from_numpy(array[4:])
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata
    assert not apart.holds(first, second)
    assert apart.holds(torch.from_numpy(array[:8]), torch.from_numpy(array[8:]))
    assert storages(first, second).holds(first, second)


def test_many_memories():
    tensors = [torch.ones(i + 1) for i in range(60)]
    case = storages(*tensors)
    assert case.holds(*tensors)
    assert case.holds(*reversed(tensors))
    assert not case.holds(*tensors[:-1], tensors[7][1:])
    assert not case.holds(tensors[30], *tensors[1:])
    assert case.holds(*(torch.ones(3) for _ in range(60)))
    tied = storages(*tensors, tensors[5])
    assert tied.holds(*tensors, tensors[5])
    assert tied.why(*tensors, tensors[6]) == "a5 and a60 share memory, was otherwise"


def test_memory_that_moves_under_the_same_tensors():
    tensors = [torch.ones(4) for _ in range(6)]
    case = storages(*tensors)
    for _ in range(3):
        assert case.holds(*tensors)
        own = tensors[3].data
        tensors[3].data = tensors[1].data
        assert case.why(*tensors) == "a1 and a3 share no memory, was otherwise"
        assert not case.holds(*tensors)
        tensors[3].data = own
        tensors[2].data = torch.ones(9)


def test_empty_tensors_share_nothing():
    empty = torch.ones(0)
    case = storages(empty, fresh())
    assert case.holds(empty, fresh())
    assert case.holds(torch.ones(0), fresh())


# ------------------------------------------------------------------------------------------------------------ state

STATES = {
    "no_grad": (torch.no_grad, "torch.is_grad_enabled() == True, was False"),
    "inference_mode": (torch.inference_mode, "torch.is_"),
    "autocast": (lambda: torch.autocast("cpu", dtype=torch.bfloat16), "the excluded dispatch keys"),
    "autocast, disabled": (
        lambda: torch.autocast("cpu", enabled=False),
        "the number of autocast contexts == 0, was 1",
    ),
    "autocast dtype": (lambda: autocast_dtype(torch.float16), "torch.get_autocast_dtype('cpu') =="),
    "default dtype": (
        lambda: default_dtype(torch.float64),
        "torch.get_default_dtype() == torch.float32, was torch.float64",
    ),
    "function mode": (lambda: FunctionMode(), "the number of torch function modes == 0, was 1"),
    "default device": (lambda: torch.device("meta"), "torch.get_default_device() == cpu, was meta"),
    "functions disabled": (torch._C.DisableTorchFunctionSubclass, "the state of torch functions == 0, was 1"),
    "dispatch mode": (lambda: DispatchMode(), "the"),
    "saved tensor hooks": (
        lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
        "the hooks on saved tensors == none, was the user's",
    ),
    "no saved tensor hooks": (
        lambda: torch.autograd.graph.disable_saved_tensors_hooks("no"),
        "saved tensor hooks being allowed == True, was False",
    ),
    "dual level": (
        torch.autograd.forward_ad.dual_level,
        "a level of forward-mode AD being entered == False, was True",
    ),
    "no forward AD": (
        lambda: torch.autograd.forward_ad._set_fwd_grad_enabled(False),
        "forward-mode AD being enabled == True, was False",
    ),
    "single threaded backward": (
        lambda: torch.autograd.set_multithreading_enabled(False),
        "torch.autograd.is_multithreading_enabled() == True, was False",
    ),
    "anomaly": (lambda: torch.autograd.set_detect_anomaly(True), "torch.is_anomaly_enabled() == False, was True"),
    "deterministic": (
        lambda: setting(torch.use_deterministic_algorithms, True, False),
        "torch.are_deterministic_algorithms_enabled() == False, was True",
    ),
    "fill": (
        lambda: setting(
            lambda on: setattr(torch.utils.deterministic, "fill_uninitialized_memory", on), False, True
        ),
        "torch.utils.deterministic.fill_uninitialized_memory == True, was False",
    ),
    "threads": (
        lambda: setting(torch.set_num_threads, torch.get_num_threads() + 1, torch.get_num_threads()),
        "torch.get_num_threads() ==",
    ),
    "mkldnn": (
        lambda: torch.backends.mkldnn.flags(enabled=False),
        "torch.backends.mkldnn.enabled == True, was False",
    ),
    "attention": (
        lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
        "flash attention being enabled == True, was False",
    ),
}


class FunctionMode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def DispatchMode():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    return Mode()


class setting:
    """Calls `change(value)`, and `change(before)` at the end."""

    def __init__(self, change, value, before):
        self.change, self.before = change, before
        self.value = value

    def __enter__(self):
        self.change(self.value)

    def __exit__(self, *exception):
        self.change(self.before)


def default_dtype(dtype):
    return setting(torch.set_default_dtype, dtype, torch.get_default_dtype())


def autocast_dtype(dtype):
    return setting(lambda d: torch.set_autocast_dtype("cpu", d), dtype, torch.get_autocast_dtype("cpu"))


def state_case():
    return Case(lambda g, x: g.torch_state())


@pytest.mark.parametrize("name", STATES)
def test_state_is_seen(name):
    enter, why = STATES[name]
    case = state_case()
    assert case.holds(0)
    with enter():
        if why is None:
            assert case.holds(0)
        else:
            assert case.why(0).startswith(why)
        inside = state_case()
        assert inside.holds(0)
    assert case.holds(0)
    assert inside.holds(0) == (why is None)


def test_state_of_functorch_is_seen():
    case = state_case()
    assert case.holds(0)
    seen = []

    def inside(x):
        seen.append(case.holds(0))
        return x

    torch.func.vmap(inside)(torch.ones(2))
    torch.func.grad(lambda x: inside(x).sum())(torch.ones(2))
    assert seen == [False, False]
    assert case.holds(0)


def test_state_is_the_threads():
    import threading

    case = state_case()
    seen = []

    def other():
        seen.append(case.holds(0))
        torch.set_grad_enabled(False)
        seen.append(case.holds(0))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [True, False]
    assert case.holds(0)


def test_guards_of_a_whole_model():
    """Every parameter of a copy of a model, one cast, is told."""
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()) for _ in range(5)))

    def build(g, x):
        weights = []
        for i in range(5):
            block = g.dict_item(g.attribute(x, "_modules"), str(i))
            layer = g.dict_item(g.attribute(block, "_modules"), "0")
            weight = g.dict_item(g.attribute(layer, "_parameters"), "weight")
            g.tensor(weight, model[i][0].weight)
            g.constant(g.attribute(layer, "training"), True)
            weights.append(weight)
        g.storages(weights, [model[i][0].weight for i in range(5)])

    case = Case(build)
    assert case.holds(model)
    assert case.holds(copy.deepcopy(model))
    model[3][0].half()
    assert case.why(model) == "x[3][0].weight.dtype == torch.float32, was torch.float16"
    model.float()
    model[2].eval()
    assert case.why(model) == "x[2][0].training == True, was False"
    model.train()
    model[4][0].weight = model[1][0].weight
    assert case.why(model) == "x[1][0].weight and x[4][0].weight share no memory, was otherwise"


def test_nothing_heavy_is_imported():
    code = """
import sys, torch
before = set(sys.modules)
from braze._C import _guards
_guards.GuardSet().torch_state()
print([name for name in set(sys.modules) - before if name.startswith(("torch._dynamo", "sympy", "torch.fx"))])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"
