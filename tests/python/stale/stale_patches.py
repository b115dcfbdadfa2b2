"""What others put in place of torch's methods, operators, properties and functions, in classes and on objects."""

import contextlib

import torch
from staleness import case, module, tensor

MISSING = object()


@contextlib.contextmanager
def replaced(owner, name, value):
    before = vars(owner).get(name, MISSING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        delattr(owner, name) if before is MISSING else setattr(owner, name, before)


def patch(name, owner, attribute, value, source, *arguments):
    """`owner.attribute` becomes `value` for the third call."""

    @case(name=name)
    def cases():
        m = module(source)
        given = arguments or (tensor(),)
        yield m.f, *given
        with replaced(owner, attribute, value):
            yield given

    return cases


LAYERS = """
net = torch.nn.Linear(4, 4).requires_grad_(False)
norm = torch.nn.LayerNorm(4).requires_grad_(False)
"""
T, F = torch.Tensor, torch.nn.functional
minus = lambda self, other: torch.sub(self, other)  # noqa: E731
hundred = lambda self, *args, **kwargs: torch.mul(self, 100)  # noqa: E731

# ------------------------------------------------------------------------------------- operators of torch.Tensor

for name, expression in {
    "__add__": "x + 1",
    "__sub__": "x - 1",
    "__mul__": "x * 2",
    "__truediv__": "x / 2",
    "__floordiv__": "x // 2",
    "__mod__": "x % 2",
    "__pow__": "x ** 2",
    "__matmul__": "x @ x",
    "__eq__": "x == 2",
    "__ne__": "x != 2",
    "__lt__": "x < 2",
    "__le__": "x <= 2",
    "__gt__": "x > 2",
    "__ge__": "x >= 2",
    "__radd__": "1 + x",
    "__rsub__": "1 - x",
    "__rmul__": "3 * x",
    "__rtruediv__": "1 / x",
    "__rpow__": "2 ** x",
    "__neg__": "-x",
    "__pos__": "+x * 2",
    "__abs__": "abs(x - 2)",
}.items():
    patch(f"operator{name}", T, name, hundred, f"def f(x): return {expression}")

patch("operator_of_computed", T, "__add__", minus, "def f(x): return torch.sin(x) + 1")
patch("operator_in_callee", T, "__add__", minus, "def g(x): return x + 1\ndef f(x): return g(x) * 2")
patch("operator_in_sum", T, "__radd__", hundred, "def f(x): return sum([x, x])")
patch("operator_by_operator_module", T, "__add__", minus, "import operator\ndef f(x): return operator.add(x, 1)")
patch(
    "operator_in_reduce",
    T,
    "__add__",
    minus,
    "import functools, operator\ndef f(x): return functools.reduce(operator.add, [x, x, x])",
)
patch("operator_in_map", T, "__neg__", hundred, "import operator\ndef f(x): return list(map(operator.neg, [x]))[0]")
patch(
    "in_place",
    T,
    "__iadd__",
    lambda self, other: torch.mul(self, 9),
    "def f(x):\n    y = x * 1\n    y += 1\n    return y",
)
patch(
    "in_place_added",
    T,
    "__imatmul__",
    lambda self, other: torch.mul(self, 9),
    "def f(x):\n    y = x\n    y @= x\n    return y",
)
patch("length", T, "__len__", lambda self: 7, "def f(x): return x * len(x)")
patch(
    "iteration",
    T,
    "__iter__",
    lambda self: iter([torch.zeros(1)]),
    "def f(x): return torch.stack([v * 2 for v in x.unbind()]) if len(list(x)) == 4 else x",
)
patch("invert", T, "__invert__", hundred, "def f(x): return ~x", tensor().int())
patch("shift", T, "__lshift__", hundred, "def f(x): return x << 1", tensor().int())
patch("logical_and", T, "__and__", hundred, "def f(x): return x & 3", tensor().int())
patch("bool_of_element", T, "__bool__", lambda self: False, "def f(x): return x * (2 if any([x[0] > 0]) else 3)")
patch(
    "set_item",
    T,
    "__setitem__",
    lambda self, key, value: None,
    "def f(x):\n    y = x * 1\n    y[0] = 9\n    return y",
)
patch("contains", T, "__contains__", lambda self, value: False, "def f(x): return x * (2 if 3.0 in x else 5)")


@case
def operator_of_parameter():
    m = module("p = torch.nn.Parameter(torch.ones(4), requires_grad=False)\ndef f(x): return p + x")
    yield m.f, tensor()
    with replaced(torch.nn.Parameter, "__add__", minus):
        yield tensor()


# ------------------------------------------------------------------------- methods and properties of torch.Tensor

for name, expression in {
    "relu": "x.relu() + 1",
    "sum": "x.sum() + 1",
    "view": "x.view(2, 2) * 1",
    "to": "x.to(torch.float64) + 1",
    "float": "x.float() * 2",
    "contiguous": "x.contiguous() * 2",
    "reshape": "x.reshape(4) * 2",
    "clone": "x.clone() * 2",
    "mul_": "x.clone().mul_(3)",
    "masked_fill": "x.masked_fill(x > 2, 0.0)",
    "norm": "x.norm() + x",
    "split": "x.split(2)[0] * 3",
    "unflatten": "x.unflatten(0, (2, 2)) * 1",
    "type_as": "x.type_as(x) * 2",
}.items():
    patch(f"method_{name}", T, name, hundred, f"def f(x): return {expression}")

patch("method_of_computed", T, "relu", hundred, "def f(x): return (x - 2).relu()")
patch("method_found_before", T, "relu", hundred, "def f(x):\n    g = x.relu\n    return g() * 2")
patch("method_by_getattr", T, "exp", hundred, "def f(x): return getattr(x, 'exp')() * 2")
patch("method_of_the_class", T, "relu", hundred, "def f(x): return torch.Tensor.relu(x) + 1")
patch("size", T, "size", lambda self, dim=None: 9, "def f(x): return x * x.size(0)")
patch("dim", T, "dim", lambda self: 9, "def f(x): return x * x.dim()")
patch("property_shape", T, "shape", property(lambda self: (9,)), "def f(x): return x * x.shape[0]")
patch("property_ndim", T, "ndim", property(lambda self: 9), "def f(x): return x * x.ndim")
patch("property_T", T, "T", property(hundred), "def f(x): return x.T + 1", tensor(2, 2))
patch(
    "property_device",
    T,
    "device",
    property(lambda self: torch.device("meta")),
    "def f(x): return torch.ones(4, device=x.device)",
)
patch(
    "added_method",
    T,
    "triple",
    lambda self: self * 3,
    "def f(x): return x.triple() if hasattr(x, 'triple') else x * 2",
)
patch(
    "added_to_parameter",
    torch.nn.Parameter,
    "relu",
    hundred,
    "def f(x): return x.relu() * 2",
    torch.nn.Parameter(tensor(), requires_grad=False),
)


# ------------------------------------------------------------------------------------ attributes of single objects


def shadow(name, source, attribute="relu", value=lambda: torch.zeros(4)):
    """The third call is given a tensor that has an attribute of its own."""

    @case(name=f"shadow_{name}")
    def cases():
        m = module(source)
        yield m.f, tensor()
        x = tensor()
        setattr(x, attribute, value)
        yield x

    return cases


shadow("of_argument", "def f(x): return x.relu() + 1")
shadow("after_view", "def f(x): return x.view(4).relu() + x.relu()")
shadow("python_method", "def f(x): return x.norm() + x", "norm", lambda: torch.zeros(()))
shadow("by_getattr", "def f(x): return getattr(x, 'relu')() * 2")
shadow("in_list", "def f(x):\n    return [y.relu() for y in [x]][0] + 1")
shadow("in_callee", "def g(y): return y.relu()\ndef f(x): return g(x) + 1")
shadow("size", "def f(x): return x * x.size(0)", "size", lambda dim: 7)
shadow("added", "def f(x): return x * getattr(x, 'scale', 2)", "scale", 5)
shadow("added_by_hasattr", "def f(x): return x * (3 if hasattr(x, 'mark') else 2)", "mark", 1)


@case
def shadow_of_global():
    m = module("t = torch.ones(4)\ndef f(x): return x + t.exp()")
    yield m.f, tensor()
    m.t.exp = lambda: torch.zeros(4)


@case
def shadow_of_parameter():
    net = torch.nn.Linear(4, 4).requires_grad_(False)
    m = module("def f(x): return x @ net.weight.t()", net=net)
    yield m.f, tensor()
    net.weight.t = lambda: torch.zeros(4, 4)


@case
def shadow_of_buffer_removed():
    m = module("t = torch.ones(4)\nt.sin = lambda: torch.zeros(4)\ndef f(x): return x + t.sin()")
    yield m.f, tensor()
    del m.t.sin


@case
def shadow_of_attribute_of_object():
    m = module("class C: pass\nc = C()\nc.t = torch.ones(4)\ndef f(x): return x * c.t.sum()")
    yield m.f, tensor()
    m.c.t.sum = lambda: torch.zeros(())


@case
def attribute_of_tensor_changes():
    m = module("t = torch.ones(4)\nt.scale = 2\ndef f(x): return x * t.scale")
    yield m.f, tensor()
    m.t.scale = 3


# --------------------------------------------------------------------------------------------- functions of torch

for name, (owner, expression) in {
    "relu": (F, "torch.nn.functional.relu(x) + 1"),
    "leaky_relu": (F, "torch.nn.functional.leaky_relu(x) + 1"),
    "softmax": (F, "torch.nn.functional.softmax(x, 0) * 2"),
    "silu": (F, "torch.nn.SiLU()(x) * 2"),
    "linear": (F, "net(x) * 2"),
    "layer_norm": (F, "norm(x) * 2"),
}.items():
    patch(
        f"functional_{name}",
        owner,
        name,
        hundred,
        f"{LAYERS}\ndef f(x): return {expression}",
    )

for name, expression in {
    "sin": "torch.sin(x) + 1",
    "cat": "torch.cat([x, x]) + 1",
    "relu": "torch.nn.functional.relu(x) + 1",
    "where": "torch.where(x > 2, x, -x) + 1",
    "ones": "torch.ones(4) + x",
}.items():
    value = lambda *args, **kwargs: torch.full((4,), 3.0)  # noqa: E731
    patch(f"torch_{name}", torch, name, value, f"def f(x): return {expression}")

patch(
    "torch_C_nn_linear",
    torch._C._nn,
    "linear",
    hundred,
    "def f(x): return torch._C._nn.linear(x, torch.ones(4, 4)) + 1",
)
patch("torch_C_nn_softplus", torch._C._nn, "softplus", hundred, "def f(x): return torch._C._nn.softplus(x) + 1")
patch("torch_linalg", torch.linalg, "vector_norm", hundred, "def f(x): return torch.linalg.vector_norm(x) + x")
patch("torch_special", torch.special, "expm1", hundred, "def f(x): return torch.special.expm1(x) + 1")
patch("torch_fft", torch.fft, "fft", hundred, "def f(x): return torch.fft.fft(x).abs()")
patch(
    "module_call",
    torch.nn.Linear,
    "__call__",
    hundred,
    "net = torch.nn.Linear(4, 4).requires_grad_(False)\ndef f(x): return net(x) + 1",
)
patch(
    "module_forward",
    torch.nn.Linear,
    "forward",
    hundred,
    "net = torch.nn.Linear(4, 4).requires_grad_(False)\ndef f(x): return net(x) + 1",
)
