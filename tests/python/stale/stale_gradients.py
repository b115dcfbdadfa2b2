"""Gradients are wanted, or not wanted any more: what autograd would note is never left to a replay."""

import torch
from staleness import case, module, tensor

#: A helper, which is a frame of its own, changes what it is given or a view of it.
WRITES = {
    "mul": "h.mul_(2)",
    "add_other": "h.add_(x)",
    "iadd": "h.__iadd__(x * 3)",
    "relu": "h.relu_()",
    "relu_inplace": "F.relu(h, inplace=True)",
    "leaky": "F.leaky_relu_(h, 0.3)",
    "sigmoid": "h.sigmoid_()",
    "clamp": "h.clamp_(min=1.5)",
    "item": "h.__setitem__(0, x[1] * h[2])",
    "slice": "h[1:].mul_(x[1:])",
    "row_view": "h.view(2, 2)[0].mul_(3)",
    "transposed": "h.view(2, 2).t().add_(x.view(2, 2))",
    "zero": "h[2:].zero_()",
    "fill": "h[0].fill_(7)",
    "copy": "h.copy_(x * x)",
    "masked": "h.masked_fill_(x > 2, 5.0)",
    "index_add": "h.index_add_(0, torch.tensor([0, 1]), x[:2])",
    "out_chain": "h.mul_(2).add_(1).mul_(x)",
    "foreach": "torch._foreach_mul_([h], 3.0)",
}

for _name, _write in WRITES.items():

    def make(write=_write):
        m = module(
            "import torch.nn.functional as F\n"
            f"def write(h, x):\n    {write}\n    return h\n"
            "def f(w, x):\n    h = w * x\n    h = write(h, x)\n"
            "    return torch.autograd.grad(h.sum(), [w], allow_unused=True)[0], h.detach()\n"
        )
        w = torch.ones(4, requires_grad=True)
        yield m.f, w, tensor()
        yield w, tensor() + 1

    case(make, name=f"helper_writes_{_name}")

    def make_outside(write=_write):
        """The writing function is what is compiled; the gradient is taken by its caller."""
        m = module(
            f"import torch.nn.functional as F\nG = 1.0\ndef write(h, x):\n    {write}\n    return h * G\n",
        )
        w = torch.ones(4, requires_grad=True)

        class Caller:
            def __init__(self, write):
                self.write = write

        yield m.write, w * tensor(), tensor()
        m.G = 2.0
        yield w * tensor(), tensor()

    # What a write leaves of the old contents goes on changing from call to call.
    settles = {"relu", "relu_inplace", "leaky", "clamp", "item", "zero", "fill", "copy", "masked"}
    case(make_outside, name=f"caller_of_{_name}", evolves=_name not in settles)


#: The whole step, with what ends its graph.
STEPS = {
    "leaf_in_no_grad": "with torch.no_grad():\n        w.mul_(x)\n    return (w * x).sum()",
    "detached_write": "h = w * x\n    "
    "h.detach().mul_(2)\n    return torch.autograd.grad(h.sum(), [w])[0] + h.detach()",
    "detach_only": "return (w * x).detach() * x",
    "no_grad_part": "with torch.no_grad():\n        s = w * x\n    return s * x",
    "no_grad_of_grad": "h = w * x\n    with torch.no_grad():\n        s = h * 2\n    return s, h.requires_grad, h",
    "enable_in_no_grad": "with torch.no_grad():\n        with torch.enable_grad():\n            h = w * x\n"
    "        g = h * 2\n    return h, g",
    "set_grad_enabled": "with torch.set_grad_enabled(False):\n        h = w * x\n    return h + 1",
    "inference": "with torch.inference_mode():\n        h = w * x\n    return h",
    "requires_grad_inside": "h = (x * 2).requires_grad_()\n    "
    "return torch.autograd.grad((h.exp() * w.detach()).sum(), [h])[0]",
    "attribute_inside": "h = x * 2\n    h.requires_grad = True\n    return h * 1.0",
    "backward_inside": "w.grad = None\n    (w * x).sum().backward()\n    return w.grad * x",
    "backward_twice": "w.grad = None\n    "
    "(w * x).sum().backward()\n    (w * x * x).sum().backward()\n    return w.grad + 0",
    "tensor_hook": "h = w * x\n    "
    "h.register_hook(lambda g: g * 3)\n    return torch.autograd.grad(h.sum(), [w])[0]",
    "retain_grad": "h = w * x\n    h.retain_grad()\n    (h * h).sum().backward()\n    return h.grad",
    "mask_of_grads": "h = w * x\n    m = h > 2\n    return torch.autograd.grad((h * m).sum(), [w])[0], m",
    "buffer_takes_history": "b = torch.zeros(4)\n    b.copy_(w * x)\n    return b",
    "argument_takes_history": "y = x.clone()\n    y += w\n    return y, y.requires_grad",
    "view_takes_history": "y = torch.zeros(2, 4)\n    y[0] = w * x\n    return y, y.requires_grad",
    "detach_of_view": "v = w.view(2, 2)\n    return v.detach() * 2 + x.view(2, 2), v.requires_grad",
    "checks_grad": "h = w * x\n    return (h * 2 if h.requires_grad else h * 3).detach()",
    "grad_mode_asked": "return (x * 2 if torch.is_grad_enabled() else x * 3) + w.detach()",
}

for _name, _step in STEPS.items():

    def make_step(step=_step):
        m = module(f"def f(w, x):\n    {step}\n")
        w = torch.ones(4, requires_grad=True)
        yield m.f, w, tensor()
        yield w, tensor() + 1

    case(make_step, name=_name, evolves=_name == "leaf_in_no_grad")


@case
def parameters_frozen_later():
    net = torch.nn.Linear(4, 4)
    m = module("def f(net, x): return net(x).requires_grad")
    yield m.f, net, tensor(2, 4)
    net.requires_grad_(False)


@case
def parameters_wanted_later():
    net = torch.nn.Linear(4, 4).requires_grad_(False)
    m = module("def f(net, x): return net(x)")
    yield m.f, net, tensor(2, 4)
    net.requires_grad_(True)


@case
def input_wants_gradients_later():
    m = module("def write(h):\n    h.mul_(2)\n    return h\ndef f(x): return write(x * 1)")
    yield m.f, tensor()
    yield tensor().requires_grad_()


@case
def written_buffer_gets_history_later():
    m = module("B = torch.zeros(4)\ndef f(w):\n    B.copy_(w)\n    return B * 2, B.requires_grad")
    yield m.f, tensor()
    m.B = torch.zeros(4)
    yield tensor().requires_grad_()


@case
def custom_function_marks_dirty():
    m = module(
        "SCALE = 2.0\n"
        "class Double(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, h):\n        ctx.mark_dirty(h)\n        return h.mul_(SCALE)\n"
        "    @staticmethod\n    def backward(ctx, g): return g * SCALE\n"
        "def f(w, x): return torch.autograd.grad(Double.apply(w * x).sum(), [w])[0]\n"
    )
    w = torch.ones(4, requires_grad=True)
    yield m.f, w, tensor()
    m.SCALE = 3.0


@case(evolves=True)
def running_statistics_in_training():
    net = torch.nn.BatchNorm1d(4)
    m = module("def f(net, x): return net(x).detach(), net.running_mean + 0")
    yield m.f, net, tensor(3, 4)
    yield net, tensor(3, 4) * 2


@case
def dropout_in_place_with_gradients():
    m = module(
        "import torch.nn.functional as F\nP = 0.0\n"
        "def drop(h): return F.dropout(h, P, True, inplace=True)\n"
        "def f(w, x): return torch.autograd.grad(drop(w * x).sum(), [w])[0]\n"
    )
    w = torch.ones(4, requires_grad=True)
    yield m.f, w, tensor()
    m.P = 1.0
