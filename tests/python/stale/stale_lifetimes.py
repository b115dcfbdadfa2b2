"""What a compiled function must not keep alive: objects, tensors and modules that nobody else holds any more."""

import copy
import gc
import weakref

import torch
from staleness import case, module, tensor

SLOTTED = """
died = []
class S:
    __slots__ = ("v",)
    def __init__(self, v=2): self.v = v
    def __del__(self): died.append(self.v)
class W:
    def __init__(self, v=2): self.v = v
    def __del__(self): died.append(self.v)
"""


def dies(name, source, drop, *arguments):
    """The function itself is asked what has died: `died` is one of its module's globals."""

    @case(name=f"{name}_dies")
    def cases():
        m = module(SLOTTED + source)

        def f(x, *rest):
            return m.f(x, *rest), len(m.died)

        yield f, tensor(), *[getattr(m, name)() for name in arguments]
        drop(m)
        gc.collect()
        yield tensor(), *[getattr(m, name)() for name in arguments]


for kind in ("S", "W"):
    made = f"s = {kind}()\n"
    again = lambda m, kind=kind: setattr(m, "s", getattr(m, kind)(3))  # noqa: E731
    dies(f"global_{kind}", made + "def f(x): return x * s.v", again)
    dies(f"global_method_{kind}", made + f"{kind}.m = lambda self, x: x * self.v\ndef f(x): return s.m(x)", again)
    dies(
        f"in_list_{kind}",
        f"l = [{kind}()]\ndef f(x): return x * l[0].v",
        lambda m: m.l.clear() or m.l.append(m.W(5)),
    )
    dies(
        f"in_dict_{kind}",
        f"d = dict(a={kind}())\ndef f(x): return x * d['a'].v",
        lambda m, k=kind: m.d.update(a=getattr(m, k)(5)),
    )
    dies(
        f"in_attribute_{kind}",
        f"class C: pass\nc = C()\nc.s = {kind}()\ndef f(x): return x * c.s.v",
        lambda m, k=kind: setattr(m.c, "s", getattr(m, k)(5)),
    )
    dies(
        f"in_tuple_{kind}",
        f"t = ({kind}(), 1)\ndef f(x): return x * t[0].v",
        lambda m, k=kind: setattr(m, "t", (getattr(m, k)(5), 1)),
    )
    dies(f"told_apart_{kind}", made + "o = object()\ndef f(x): return x * (s.v if s is not o else 3)", again)


def linear():
    return torch.nn.Linear(4, 4).requires_grad_(False)


def constant(net, value):
    for parameter in net.parameters():
        parameter.data.fill_(value)
    return net


@case
def replaced_parameter_is_freed():
    net = constant(linear(), 1.0)
    reference = weakref.ref(net.weight)
    m = module("def f(x): return net(x)", net=net)
    yield m.f, tensor()
    net.weight = torch.nn.Parameter(torch.full((4, 4), 2.0), requires_grad=False)
    gc.collect()
    alive = reference() is not None
    yield tensor() + (100 if alive else 0)


@case
def replaced_global_tensor_is_freed():
    m = module("t = torch.ones(4)\ndef f(x): return x * t")
    reference = weakref.ref(m.t)
    yield m.f, tensor()
    m.t = torch.full((4,), 2.0)
    gc.collect()
    yield tensor() + (100 if reference() is not None else 0)


@case
def storage_of_replaced_tensor_is_freed():
    m = module("t = torch.ones(4)\ndef f(x): return x * t")
    reference = weakref.ref(m.t.untyped_storage())
    yield m.f, tensor()
    m.t = torch.full((4,), 2.0)
    gc.collect()
    yield tensor() + (100 if reference() is not None else 0)


@case
def replaced_buffer_is_freed():
    net = torch.nn.BatchNorm1d(4).eval().requires_grad_(False)
    m = module("def f(x): return net(x)", net=net)
    reference = weakref.ref(net.running_mean)
    yield m.f, tensor(2, 4)
    net.running_mean = torch.full((4,), 2.0)
    gc.collect()
    yield tensor(2, 4) + (100 if reference() is not None else 0)


@case
def closed_over_tensor_is_freed():
    def outer():
        t = torch.ones(4)

        def f(x):
            return x * t

        def change():
            nonlocal t
            t = torch.full((4,), 3.0)

        return f, change, weakref.ref(t)

    f, change, reference = outer()
    yield f, tensor()
    change()
    gc.collect()
    yield tensor() + (100 if reference() is not None else 0)


@case
def tensor_in_list_is_freed():
    m = module("l = [torch.ones(4)]\ndef f(x): return x * l[0]")
    reference = weakref.ref(m.l[0])
    yield m.f, tensor()
    m.l[0] = torch.full((4,), 2.0)
    gc.collect()
    yield tensor() + (100 if reference() is not None else 0)


@case
def assigned_state_dict_frees():
    net = constant(linear(), 1.0)
    m = module("def f(x): return net(x)", net=net)
    references = [weakref.ref(p) for p in net.parameters()]
    yield m.f, tensor()
    net.load_state_dict(constant(linear(), 2.0).state_dict(), assign=True)
    gc.collect()
    yield tensor() + (100 if any(r() is not None for r in references) else 0)


@case
def modules_as_arguments_are_freed():
    m = module("def f(x, net): return net(x)")
    references = []

    def given(value):
        net = constant(linear(), value)
        references.extend([weakref.ref(net), weakref.ref(net.weight), weakref.ref(net.bias)])
        return net

    def f(x, value):
        result = compiled(x, given(value))
        gc.collect()
        return result, sum(r() is not None for r in references)

    compiled = m.f
    yield f, tensor(), 1.0
    for value in (2.0, 3.0, 4.0):
        yield tensor(), value


@case
def twelve_modules_as_arguments():
    m = module("def f(x, net): return net(x)")
    nets = [constant(linear(), float(k)) for k in range(12)]
    references = [weakref.ref(p) for net in nets for p in net.parameters()]
    yield m.f, tensor(), nets[0]
    while nets:
        net = nets.pop()
        yield tensor(), net
        del net
    gc.collect()
    net = constant(linear(), 20.0)
    yield tensor() + sum(r() is not None for r in references[2:]), net


@case
def swapped_tensors():
    net = torch.nn.Sequential(constant(linear(), 1.0), constant(linear(), 2.0))
    m = module("def f(x): return net(x) + net[0](x)", net=net)
    yield m.f, tensor()
    torch.utils.swap_tensors(net[0].weight, net[1].weight)


@case
def swapped_with_a_new_tensor():
    net = constant(linear(), 1.0)
    m = module("def f(x): return net(x)", net=net)
    yield m.f, tensor()
    torch.utils.swap_tensors(net.weight, torch.nn.Parameter(torch.full((4, 4), 3.0), requires_grad=False))


@case
def swapped_global():
    m = module("t = torch.ones(4)\nu = torch.full((4,), 2.0)\ndef f(x): return x * t + u")
    yield m.f, tensor()
    torch.utils.swap_tensors(m.t, m.u)


@case
def moved_by_swapping():
    net = constant(linear(), 1.5)
    m = module("def f(x): return net(x.to(net.weight.dtype))", net=net)
    yield m.f, tensor()
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        net.to(torch.float64)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


@case
def copied_module_given():
    net = constant(linear(), 1.0)
    m = module("def f(x, net): return net(x)")
    yield m.f, tensor(), net
    yield tensor(), constant(copy.deepcopy(net), 5.0)


@case
def address_used_again():
    m = module("t = torch.ones(4)\ndef f(x): return x * t")
    yield m.f, tensor()
    for k in range(20):
        m.t = None
        m.t = torch.full((4,), float(k + 2))
    yield tensor()


@case
def member_of_set_dies():
    m = module(SLOTTED + "s, a = set(), W()\ns.add(a)\ndef f(x): return x * (2 if a in s else 3), len(died)")
    yield m.f, tensor()
    m.s.clear()
    m.a = m.W(5)


@case
def weak_reference_dies():
    m = module(
        SLOTTED + "import weakref\na = W()\nr = weakref.ref(a)\ndef f(x): return x * (2 if r() is None else 3)"
    )
    yield m.f, tensor()
    m.a = None
