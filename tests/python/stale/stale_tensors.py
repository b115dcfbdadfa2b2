"""Tensors: properties, views, aliasing, values that Python reads, subclasses, attributes."""

import torch
from staleness import call, case, module, tensor


def other(name, source, first, second):
    """The same function with another tensor."""

    @case(name=name)
    def cases():
        m = module(source)
        yield m.f, first()
        yield second()

    return cases


FACTS = "def f(x): return x + 1, x.dtype, tuple(x.shape), x.stride(), x.requires_grad, x.is_contiguous()"
other("values", "def f(x): return x + 1", tensor, lambda: tensor() * 2)
other("shape", FACTS, lambda: tensor(2, 3), lambda: tensor(3, 2))
other("shape_of_the_same_size", "def f(x): return x.sum(0)", lambda: tensor(2, 3), lambda: tensor(3, 2))
other("rank", FACTS, lambda: tensor(6), lambda: tensor(1, 6))
other("dtype", FACTS, tensor, lambda: tensor().double())
other("int_dtype", "def f(x): return x * 2", lambda: tensor().int(), lambda: tensor().long())
other("bool_dtype", "def f(x): return x + x", lambda: tensor() > 2, lambda: (tensor() > 2).to(torch.uint8))
other("strides", FACTS, lambda: tensor(3, 3), lambda: tensor(3, 3).t())
other("strides_of_expanded", FACTS, lambda: tensor(4, 4), lambda: tensor(4).expand(4, 4))
other("contiguity", "def f(x): return x.view(-1)", lambda: tensor(2, 3), lambda: tensor(3, 2).t())
other(
    "channels_last",
    FACTS,
    lambda: tensor(1, 2, 3, 3),
    lambda: tensor(1, 2, 3, 3).to(memory_format=torch.channels_last),
)
other("offset", "def f(x): return x + 1, x.storage_offset()", tensor, lambda: torch.cat([tensor(), tensor()])[4:])
other("requires_grad", FACTS, tensor, lambda: tensor().requires_grad_())
other(
    "leaf",
    "def f(x): return x.is_leaf, x * 1",
    lambda: tensor().requires_grad_(),
    lambda: tensor().requires_grad_() * 1,
)
other(
    "parameter",
    "def f(x): return type(x).__name__, x * 1",
    lambda: tensor().requires_grad_(),
    lambda: torch.nn.Parameter(tensor()),
)
REPLACED = "def f(x):\n    x.data = x.data.abs()\n    return x + 1, x.shape, x.stride(), x.requires_grad"
other("data_replaced_of_another_shape", REPLACED, lambda: tensor(2, 3), lambda: tensor(3, 2))
other("data_replaced_of_other_strides", REPLACED, lambda: tensor(3, 3), lambda: tensor(3, 3).t())
other("data_replaced_of_what_requires_grad", REPLACED, tensor, lambda: tensor().requires_grad_())
other("data_replaced_of_a_view", REPLACED, lambda: tensor(3), lambda: tensor(2, 3)[1])
other("data_replaced_of_gaps", REPLACED, lambda: tensor(4), lambda: tensor(8)[::2])
other("empty", "def f(x): return x.sum(), x.numel()", tensor, lambda: torch.ones(0))
other(
    "zero_dim",
    "def f(x): return x + torch.ones(2, dtype=torch.float16)",
    lambda: torch.tensor([1.0]),
    lambda: torch.tensor(1.0),
)
other(
    "wrapped_number_promotion",
    "def f(x): return x * torch.ones(2, dtype=torch.int8)",
    lambda: torch.tensor(2),
    lambda: torch.tensor([2]),
)
other("device", "def f(x): return x + 1, x.device.type", tensor, lambda: torch.ones(4, device="meta"))
other(
    "conjugate",
    "def f(x): return x.is_conj(), torch.view_as_real(x.resolve_conj())",
    lambda: torch.ones(2, dtype=torch.complex64),
    lambda: torch.ones(2, dtype=torch.complex64).conj(),
)
other(
    "sparse",
    "def f(x): return x.is_sparse, x.to_dense()",
    lambda: tensor().to_sparse().to_dense(),
    lambda: tensor().to_sparse(),
)
other("inference", "def f(x): return x.is_inference(), x + 1", tensor, lambda: inference())
other("view", "def f(x): return x._is_view(), x + 1", lambda: tensor().clone(), lambda: tensor(2, 4)[0])
other("item_branch", "def f(x): return x + 1 if x.sum() > 5 else x - 1", tensor, lambda: tensor() - 9)
other("item", "def f(x): return [0] * int(x[0])", lambda: tensor(), lambda: tensor() + 2)
other("tolist", "def f(x): return x.tolist()", tensor, lambda: tensor() * 2)
other("bool_of_tensor", "def f(x): return 'yes' if x.any() else 'no'", tensor, lambda: tensor() * 0)
other("index_of_tensor", "def f(x): return list(range(9))[x]", lambda: torch.tensor(1), lambda: torch.tensor(2))
other("length", "def f(x): return [i for i in range(len(x))], x", lambda: tensor(2, 3), lambda: tensor(3, 3))
other("iteration", "def f(x): return [row * 2 for row in x]", lambda: tensor(2, 3), lambda: tensor(4, 3))
other("numpy", "def f(x): return float(x.numpy().sum())", tensor, lambda: tensor() * 3)
other("string", "def f(x): return str(x)", tensor, lambda: tensor() * 3)
other("format", "def f(x): return f'{x.sum():.1f}'", tensor, lambda: tensor() * 3)
other("nonzero", "def f(x): return x.nonzero()", tensor, lambda: tensor() - 2)
other("boolean_mask", "def f(x): return x[x > 2]", tensor, lambda: tensor() * 2)
other("unique", "def f(x): return x.unique()", tensor, lambda: tensor() * 0)
other("equal", "def f(x): return torch.equal(x, torch.tensor([1., 2., 3., 4.]))", tensor, lambda: tensor() * 0)
other("data_pointer", "def f(x): return x.data_ptr() % 16 == 0, x + 1", tensor, lambda: tensor(5)[1:])
other("subclass", "def f(x): return type(x).__name__, x + 1", tensor, lambda: tensor().as_subclass(Sub))
other(
    "subclass_with_torch_function",
    "def f(x): return x + 1",
    lambda: tensor().as_subclass(Sub),
    lambda: tensor().as_subclass(Loud),
)
other(
    "grad_is_none",
    "def f(x): return x + 1 if x.grad is None else x + x.grad",
    lambda: tensor().requires_grad_(),
    lambda: with_grad(),
)
other("index_error", "def f(x): return x[torch.tensor(3)]", tensor, lambda: tensor(2))
other("none_instead", "def f(x): return 0 if x is None else x + 1", tensor, lambda: call(None))
other("number_instead", "def f(x): return x + 1", tensor, lambda: call(3))
other("numpy_instead", "def f(x): return torch.as_tensor(x) + 1", tensor, lambda: call(tensor().double().numpy()))


class Sub(torch.Tensor):
    pass


class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        print("called", getattr(function, "__name__", function))
        return super().__torch_function__(function, types, args, kwargs or {})


def inference():
    with torch.inference_mode():
        return tensor() * 1


def with_grad():
    x = tensor().requires_grad_()
    (x * 3).sum().backward()
    return x


def pair(name, source, first, second):
    """The same function with another pair of tensors: aliasing."""

    @case(name=name)
    def cases():
        m = module(source)
        yield (m.f, *first())
        yield second()

    return cases


def apart():
    return torch.zeros(4), torch.zeros(4)


def together():
    x = torch.zeros(4)
    return x, x


def overlapping():
    x = torch.zeros(6)
    return x[:4], x[2:]


WRITE = "def f(a, b):\n  a.fill_(3)\n  r = b + 1\n  a.zero_()\n  return r"
pair("alias_same", WRITE, apart, together)
pair("alias_overlapping", WRITE, apart, overlapping)
pair("alias_view", WRITE, apart, lambda: ((x := torch.zeros(4)), x.view(2, 2)))
pair("alias_detached", WRITE, apart, lambda: ((x := torch.zeros(4)), x.detach()))
pair("alias_no_more", WRITE, together, apart)
pair("alias_at_another_distance", WRITE, overlapping, lambda: ((x := torch.zeros(6))[:4], x[1:5]))
pair("alias_identity", "def f(a, b): return a is b, a + b", apart, together)
pair("alias_in_result", "def f(a, b): return a, b, a + b", apart, together)
pair(
    "which_is_first",
    "def f(a, b): return a - b",
    lambda: (tensor(), tensor() * 2),
    lambda: (tensor() * 2, tensor()),
)
pair(
    "broadcast",
    "def f(a, b): return a + b",
    lambda: (tensor(4, 4), tensor(4, 4)),
    lambda: (tensor(4, 4), tensor(4)),
)
pair("promotion", "def f(a, b): return a + b", lambda: (tensor(), tensor()), lambda: (tensor(), tensor().double()))
pair(
    "either_requires_grad",
    "def f(a, b): return a * b",
    lambda: (tensor(), tensor()),
    lambda: (tensor(), tensor().requires_grad_()),
)


def in_place(name, source, change, make=tensor):
    """The same tensor, changed in place between the calls."""

    @case(name=name)
    def cases():
        m = module(source)
        x = make()
        yield m.f, x
        change(x)

    return cases


in_place("same_tensor_other_values", "def f(x): return x + 1", lambda x: x.mul_(5))
in_place("same_tensor_resized", "def f(x): return x + 1", lambda x: x.resize_(2))
in_place("same_tensor_transposed", FACTS, lambda x: x.t_(), lambda: tensor(2, 3))
in_place("same_tensor_other_data", FACTS, lambda x: setattr(x, "data", tensor().double()))
in_place("same_tensor_requires_grad", FACTS, lambda x: x.requires_grad_())
in_place("same_tensor_version", "def f(x): return x._version, x + 1", lambda x: x.add_(0))
in_place("same_tensor_attribute", "def f(x): return x * getattr(x, 'tag', 1)", lambda x: setattr(x, "tag", 4))
in_place(
    "same_tensor_grad_set",
    "def f(x): return x + 1 if x.grad is None else x + x.grad",
    lambda x: setattr(x, "grad", torch.full((4,), 5.0)),
)
in_place(
    "same_tensor_hook",
    "def f(x):\n  y = (x * 2).sum()\n  g, = torch.autograd.grad(y, x)\n  return g",
    lambda x: x.register_hook(lambda g: g * 10),
    lambda: tensor().requires_grad_(),
)
in_place("same_tensor_set", FACTS, lambda x: x.set_(tensor(2, 3)))
in_place("same_tensor_class", "def f(x): return type(x).__name__, x + 1", lambda x: setattr(x, "__class__", Sub))


@case
def global_tensor_rebound():
    m = module("w = torch.ones(4)\ndef f(x): return x * w")
    yield m.f, tensor()
    m.w = torch.full((4,), 2.0)


@case
def global_tensor_changed():
    m = module("w = torch.ones(4)\ndef f(x): return x * w")
    yield m.f, tensor()
    m.w.mul_(3)


@case
def global_tensor_becomes_number():
    m = module("w = torch.tensor(2.0)\ndef f(x): return x * w")
    yield m.f, tensor().half()
    m.w = torch.tensor([2.0])
    yield tensor().half()


@case
def global_tensor_aliases_argument():
    m = module("w = torch.zeros(4)\ndef f(x):\n  x.fill_(1)\n  r = w + 1\n  x.zero_()\n  return r")
    yield m.f, torch.zeros(4)
    yield m.w


@case
def closure_tensor():
    m = module(
        "def make(w):\n  def f(x): return x * w\n  def change(n):\n    nonlocal w\n    w = n\n  return f, change"
    )
    f, change = m.make(torch.ones(4))
    yield f, tensor()
    change(torch.full((4,), 9.0))


@case
def default_tensor():
    m = module("def f(x, w=torch.ones(4)): return x * w")
    yield m.f, tensor()
    m.f.__defaults__ = (torch.full((4,), 4.0),)


@case
def scalar_tensor_read():
    m = module("k = torch.tensor(2)\ndef f(x): return x.repeat(int(k))")
    yield m.f, tensor()
    m.k.fill_(3)


@case
def tensor_made_of_global():
    m = module("k = 2.0\ndef f(x): return x * torch.tensor(k)")
    yield m.f, tensor()
    m.k = 3.0


@case
def tensor_of_other_dtype_made():
    m = module("d = torch.float32\ndef f(x): return torch.zeros(2, dtype=d), x")
    yield m.f, tensor()
    m.d = torch.int16


@case
def shape_tuple_global():
    m = module("s = (2, 2)\ndef f(x): return x.view(s)")
    yield m.f, tensor()
    m.s = (4, 1)


@case
def output_buffer():
    m = module("out = torch.zeros(4)\ndef f(x): return torch.add(x, 1, out=out)")
    yield call(m.f, tensor()).watch(m)
    m.out = torch.zeros(4, dtype=torch.float64)


@case
def custom_function_changed():
    m = module(
        """
class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g * 7
def f(x):
    y = Fn.apply(x)
    return y, torch.autograd.grad(y.sum(), x)[0]
"""
    )
    yield m.f, tensor().requires_grad_()
    m.Fn.backward = staticmethod(lambda ctx, g: g * 11)


@case
def gradient_accumulates():
    m = module("def f(x):\n  (x * k).sum().backward()\n  g = x.grad; x.grad = None\n  return g\nk = 2")
    yield m.f, tensor().requires_grad_()
    m.k = 5


@case
def tensor_method_replaced():
    m = module(
        "class T(torch.Tensor):\n  def twice(self): return self * 2\ndef f(x): return x.as_subclass(T).twice()"
    )
    yield m.f, tensor()
    m.T.twice = lambda self: self * 20
