"""Kernels and operators registered with torch.library, and modes that stand between a function and operators."""

import contextlib

import torch
from staleness import case, module, tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


@contextlib.contextmanager
def kernel(name, function, key="CPU"):
    """A kernel of ATen's operator is another one."""
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl(name, function, key)
        yield
    finally:
        library._destroy()


def override(name, operator, function, source, *arguments, key="CPU", before=False):
    @case(name=name)
    def cases():
        m = module(source)
        given = arguments or (tensor(),)
        if before:  # captured with it, called without
            with kernel(operator, function, key):
                yield m.f, *given
            yield given
        else:
            yield m.f, *given
            with kernel(operator, function, key):
                yield given

    return cases


hundred = lambda x, *args, **kwargs: x * 100  # noqa: E731
override("unary", "sin", hundred, "def f(x): return torch.sin(x)")
override("unary_by_method", "cos", hundred, "def f(x): return x.cos() + 1")
override("taken_back", "tan", hundred, "def f(x): return torch.tan(x) + 1", before=True)
override("binary", "atan2", hundred, "def f(x): return torch.atan2(x, x) + 1")
override("overload", "fmod.Scalar", hundred, "def f(x): return torch.fmod(x, 2) + 1")
override("reduction", "logsumexp", lambda x, dim, keepdim=False: x, "def f(x): return torch.logsumexp(x, 0) + 1")
override("in_functional", "silu", hundred, "def f(x): return torch.nn.functional.silu(x)")
override("in_module", "mish", hundred, "net = torch.nn.Mish()\ndef f(x): return net(x)")
override("composite", "hypot", hundred, "def f(x): return torch.hypot(x, x) + 1")
override(
    "of_composite_itself",
    "square",
    hundred,
    "def f(x): return torch.square(x) + 1",
    key="CompositeImplicitAutograd",
)
override("autograd", "erfc", hundred, "def f(x): return torch.erfc(x) + 1", key="AutogradCPU")
override("among_others", "erfinv", hundred, "def f(x): return torch.exp(torch.erfinv(x / 10) + x).sum()")
override(
    "inside_of_composite",
    "addmv",
    lambda self, *args, **kwargs: self * 100,
    "def f(x): return torch.addmv(x, torch.ones(4, 4), x)",
)


# --------------------------------------------------------------------------------------------- operators of others


@contextlib.contextmanager
def library():
    with torch.library._scoped_library("stale_kernels", "FRAGMENT") as made:
        yield made


CALL = "def f(x): return torch.ops.stale_kernels.op(x) + 1"


@case
def kernel_of_operator_replaced():
    with library() as first:
        first.define("op(Tensor x) -> Tensor")
        first.impl("op", lambda x: x * 2, "CPU")
        m = module(CALL)
        yield m.f, tensor()
        with library() as second:
            second.impl("op", lambda x: x * 3, "CPU", allow_override=True)
            yield tensor()


@case
def operator_defined_anew():
    m = module(CALL)
    with library() as made:
        made.define("op(Tensor x) -> Tensor")
        made.impl("op", lambda x: x * 2, "CPU")
        yield m.f, tensor()
    with library() as made:
        made.define("op(Tensor x) -> Tensor")
        made.impl("op", lambda x: x * 5, "CPU")
        yield tensor()


@case
def operator_defined_with_another_schema():
    m = module("def f(x): return torch.ops.stale_kernels.op(x, *more) + 1", more=())
    with library() as made:
        made.define("op(Tensor x) -> Tensor")
        made.impl("op", lambda x: x * 2, "CompositeExplicitAutograd")
        yield m.f, tensor()
    with library() as made:
        made.define("op(Tensor x, SymInt k) -> Tensor")
        made.impl("op", lambda x, k: x * k, "CompositeExplicitAutograd")
        m.more = (7,)
        yield tensor()


@case
def operator_taken_back():
    m = module(CALL)
    with library() as made:
        made.define("op(Tensor x) -> Tensor")
        made.impl("op", lambda x: x * 2, "CPU")
        yield m.f, tensor()
    yield tensor()


@case
def custom_operator_given_a_kernel():
    @torch.library.custom_op("stale_kernels::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    m = module("def f(x): return doubled(x) + 1", doubled=doubled)
    yield m.f, tensor()
    doubled.register_kernel("cpu")(lambda x: x * 5)
    yield tensor()


# ------------------------------------------------------------------------------------------------------- modes


class Zeros(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return torch.zeros(4) if function is torch.sin else result


class Doubled(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result + result if function is torch.ops.aten.sin.default else result


def under(name, scope, source="def f(x): return torch.sin(x) + 1"):
    @case(name=f"under_{name}")
    def cases():
        m = module(source)
        yield m.f, tensor()
        with scope():
            yield tensor()

    @case(name=f"no_longer_under_{name}")
    def later():
        m = module(source)
        with scope():
            yield m.f, tensor()
        yield tensor()


@contextlib.contextmanager
def setting(read, write, value):
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


under("function_mode", Zeros)
under("dispatch_mode", Doubled)
under("device", lambda: torch.device("meta"), "def f(x): return torch.ones(4)")
under(
    "default_device",
    lambda: setting(lambda: None, torch.set_default_device, "meta"),
    "def f(x): return torch.zeros(4), x * 2",
)
under(
    "default_dtype",
    lambda: setting(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "def f(x): return torch.ones(4) + x.int()",
)
under("inference_mode", torch.inference_mode, "def f(x): return x * 2")
under("autocast", lambda: torch.autocast("cpu", torch.bfloat16), "def f(x): return x.view(2, 2) @ x.view(2, 2)")
