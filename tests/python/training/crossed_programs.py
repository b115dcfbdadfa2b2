"""Trainings of six steps in which, drawn by a seed, something changes at each: what requires grad, hooks, kept
graphs, some of the gradients, writes between forward and backward, data that is assigned. The model crosses norms,
activations, views as results, checkpoints, buffers, autocast, and optimizers of all forms.

A program yields all that autograd and the optimizer have left, versions and strides among it; behind an error in
the midst of a backward no versions of gradients.
"""

import random
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

NORMS = [
    nn.LayerNorm,
    nn.BatchNorm1d,
    nn.InstanceNorm1d,
    nn.RMSNorm,
    nn.PReLU,
    lambda n: nn.GroupNorm(2, n),
    lambda n: nn.Identity(),
]
ACTIVATIONS = [
    torch.tanh,
    torch.exp,
    F.relu,
    F.gelu,
    lambda h: F.softmax(h, 1),
    lambda h: F.dropout(h, 0.3),
    lambda h: F.leaky_relu(h, 0.1, inplace=True),
    lambda h: h.cumsum(1),
    lambda h: h.sort(1)[0],
    lambda h: h * h.sigmoid(),
    lambda h: torch.cdist(h, h) @ h,
    lambda h: h.abs().clamp(0.1, 2).log(),
    lambda h: torch.where(h > 0, h, h.exp() - 1),
    lambda h: F.normalize(h, dim=1),
    lambda h: h / h.norm(),
    lambda h: h.logsumexp(1, keepdim=True) + h,
]
SECOND_RESULTS = {
    "transposed": lambda x, h, y: y.t(),
    "row": lambda x, h, y: y[0],
    "one_of_chunks": lambda x, h, y: y.chunk(3, 1)[1],
    "expanded": lambda x, h, y: y.sum(0).expand(4, 3),
    "view_of_input": lambda x, h, y: x.view(-1),
    "detached": lambda x, h, y: y.detach(),
    "hidden": lambda x, h, y: h,
    "number": lambda x, h, y: h.sum(),
}
OPTIMIZERS = [
    (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (torch.optim.Adam, {"lr": 0.01}),
    (torch.optim.AdamW, {"lr": 0.01, "amsgrad": True}),
    (torch.optim.RMSprop, {"lr": 0.01, "centered": True}),
    (torch.optim.Adagrad, {"lr": 0.05}),
    (torch.optim.Adamax, {"lr": 0.01}),
    (torch.optim.NAdam, {"lr": 0.01}),
    (torch.optim.Adadelta, {}),
]
FORMS = [{}, *({one: True} for one in ("foreach", "fused", "capturable", "differentiable", "maximize"))]


class Net(nn.Module):
    def __init__(self, norm, activation, second, state, way):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(4, 6), nn.Linear(6, 6, bias=False), nn.Linear(6, 3)
        self.rows = nn.Parameter(torch.randn(5, 6))
        self.norm = norm(6)
        self.activation, self.second, self.state, self.way = activation, second, state, way
        self.register_buffer("average", torch.zeros(6))

    def body(self, h):
        return self.activation(self.norm(self.middle(h)))

    def forward(self, x, index):
        h = self.first(x) + self.rows[index]
        if self.state == "written":
            with torch.no_grad():
                self.average.mul_(0.9).add_(h.mean(0), alpha=0.1)
            h = h - self.average
        elif self.state == "replaced":
            self.average = 0.9 * self.average + 0.1 * h.detach().mean(0)
            h = h - self.average
        h = checkpoint(self.body, h, use_reentrant=False) if self.way == "checkpoint" else self.body(h)
        if self.way == "in_place":
            h = h + 1
            h.mul_(2)
            h[0].add_(1)
        y = self.last(h)
        return y, self.second(x, h, y)


@dataclass
class Step:
    """What an event may touch."""

    model: Net
    parameter: nn.Parameter
    x: torch.Tensor
    index: torch.Tensor
    handles: list
    log: list
    results: tuple = ()
    loss: torch.Tensor | None = None
    wanted: list = field(default_factory=list)


def halve(tensor):
    with torch.no_grad():
        tensor.mul_(0.5)


def other_layer(s):
    s.model.first = nn.Linear(4, 6).to(s.model.last.weight.dtype)


def other_weight(s):
    s.model.middle.weight = nn.Parameter(torch.randn(6, 6, dtype=s.model.last.weight.dtype))


def hook(make):
    def add(s):
        if s.parameter.requires_grad:
            s.handles.append(make(s.parameter, s.log))

    return add


def remove_hooks(s):
    for handle in s.handles:
        handle.remove()
    s.handles.clear()


BEFORE_FORWARD = {
    "freeze": lambda s: s.parameter.requires_grad_(False),
    "unfreeze": lambda s: [p.requires_grad_(True) for p in s.model.parameters()],
    "doubling_hook": hook(lambda p, log: p.register_hook(lambda g: log.append(g.detach().clone()) or g * 2)),
    "halving_hook": hook(lambda p, log: p.register_hook(lambda g: g.mul(0.5))),
    "hook_when_accumulated": hook(
        lambda p, log: p.register_post_accumulate_grad_hook(lambda q: log.append(q.grad.detach().clone()))
    ),
    "hook_of_a_module": lambda s: s.handles.append(s.model.middle.register_forward_hook(lambda m, i, o: o * 1.5)),
    "remove_hooks": remove_hooks,
    "evaluate": lambda s: s.model.eval(),
    "train": lambda s: s.model.train(),
    "other_layer": other_layer,
    "other_weight": other_weight,
    "x_requires_grad": lambda s: s.x.requires_grad_(),
}
AFTER_FORWARD = {
    "retain_grad": lambda s: s.results[0].requires_grad and s.results[0].retain_grad(),
    "write_parameter": lambda s: halve(s.parameter),
    "write_result": lambda s: halve(s.results[0]),
    "write_second": lambda s: halve(s.results[1]),
    "write_x": lambda s: halve(s.x),
    "write_result_with_history": lambda s: s.results[0].mul_(2) and None,
    "write_index": lambda s: s.index.zero_() and None,
    "write_buffer": lambda s: s.model.average.add_(1) and None,
    "assign_data": lambda s: setattr(s.parameter, "data", s.parameter.data * 0.5),
    "assign_data_of_x": lambda s: setattr(s.x, "data", s.x.data * 2),
    "reset_version": lambda s: torch._C._autograd._unsafe_set_version_counter((s.results[0],), (0,)),
}


def twice(s):
    s.loss.backward(retain_graph=True)
    s.loss.backward()


def twice_without_keeping(s):
    s.loss.backward()
    s.loss.backward()


def penalty(s):
    found = torch.autograd.grad(s.loss, s.wanted, create_graph=True, allow_unused=True)
    sum(g.square().sum() for g in found if g is not None).backward()


def batched(s):
    y = s.results[0]
    tangents = torch.eye(y.numel(), dtype=y.dtype).view(-1, *y.shape)[:2]
    return torch.autograd.grad(y, s.wanted[:2], tangents, is_grads_batched=True, allow_unused=True)


BACKWARDS = {
    "kept": twice,
    "twice": twice_without_keeping,
    "penalty": penalty,
    "batched": batched,
    "of_x": lambda s: torch.autograd.grad(s.loss, [s.x, *s.wanted[:2]], allow_unused=True),
    "into_some": lambda s: s.loss.backward(inputs=[s.x, *s.wanted[1:3]]),
    "into_one": lambda s: s.loss.backward(inputs=s.wanted[:1]),
}
OTHERS = ["nothing", "no_grad", "other_size", "double", "accumulate", "second_alone", "both", "nan", "clip", "zero"]
EVENTS = [*BEFORE_FORWARD, *AFTER_FORWARD, *BACKWARDS, *OTHERS]


def attempt(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:
        return "raised", type(error).__name__, str(error)


def known_of(gradient):
    if gradient is None:
        return None
    now = gradient.detach().clone()
    return now, gradient.stride(), gradient.storage_offset(), gradient._version, gradient.requires_grad


def known_of_result(tensor):
    now = tensor.detach().clone()
    history = tensor.requires_grad, tensor.is_leaf, tensor._is_view()
    return now, tensor.stride(), tensor.storage_offset(), tensor._version, history


def state_of(model, has_failed):
    found = {}
    for name, p in model.named_parameters():
        gradient = known_of(p.grad)
        if gradient and has_failed:
            gradient = gradient[:3]
        found[name] = p.detach().clone(), p._version, p.requires_grad, p.is_leaf, gradient
    for name, buffer in model.named_buffers():
        found[name] = buffer.detach().clone(), buffer.requires_grad
    return found


def program(seed, compile):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    second = SECOND_RESULTS[draw.choice(sorted(SECOND_RESULTS))]
    state, way = (
        draw.choice(["none", "written", "replaced"]),
        draw.choice(["checkpoint", "in_place", "plain", "plain"]),
    )
    model = Net(draw.choice(NORMS), draw.choice(ACTIVATIONS), second, state, way)
    (make, how), form = draw.choice(OPTIMIZERS), draw.choice(FORMS)
    try:
        optimizer = make(model.parameters(), **how, **form)
    except (TypeError, RuntimeError, ValueError):  # It has no such form.
        optimizer = make(model.parameters(), **how)
    casts = draw.random() < 0.2
    function = compile(model)
    # What is capturable asks for a GPU, except while a compiler looks on.
    compiles_step = draw.random() < 0.3 and not form.get("capturable")
    step = compile(optimizer.step) if compiles_step else optimizer.step
    handles, log, n, has_failed = [], [], 5, False
    for k in range(6):
        torch.manual_seed(seed * 10 + k)
        event = draw.choice(EVENTS)
        names = dict(model.named_parameters())
        parameter = names[draw.choice(sorted(names))]
        if event == "other_size":
            n = draw.choice([1, 2, 3, 7])
        if event == "double":
            model.double()
        dtype = model.last.weight.dtype
        s = Step(model, parameter, torch.randn(n, 4, dtype=dtype), torch.randint(5, (n,)), handles, log)
        if draw.random() < 0.4:
            s.x.requires_grad_()
        told = [event + " under autocast" * casts]
        if event in BEFORE_FORWARD:
            BEFORE_FORWARD[event](s)
        with (
            torch.set_grad_enabled(event != "no_grad"),
            torch.autocast("cpu", torch.bfloat16, enabled=casts and dtype == torch.float32),
        ):
            results = attempt(function, s.x, s.index)
        if isinstance(results[0], str) or event == "no_grad":
            yield (
                told,
                [known_of_result(one) for one in results] if event == "no_grad" else results,
                state_of(model, has_failed),
            )
            continue
        s.results = results
        told += [known_of_result(one) for one in results]
        if event in AFTER_FORWARD:
            failed = attempt(AFTER_FORWARD[event], s)
            told.append(failed if isinstance(failed, tuple) else None)
        if event == "zero":
            optimizer.zero_grad(set_to_none=False)
        s.loss = results[0].float().square().mean()
        if event == "both":
            s.loss = s.loss + results[1].float().sum()
        if event == "second_alone":
            s.loss = results[1].float().sum()
        if event == "nan":
            s.loss = s.loss * float("nan")
        s.wanted = [p for p in model.parameters() if p.requires_grad]
        found = attempt(BACKWARDS.get(event, lambda s: s.loss.backward()), s)
        has_failed |= bool(found) and found[0] == "raised"
        told.append([known_of(one) for one in found] if found and found[0] != "raised" else found)
        told += [known_of(s.x.grad), known_of(s.results[0].grad) if event == "retain_grad" else None]
        if event == "clip":
            told.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1))
        before = state_of(model, has_failed)
        if event != "accumulate":
            failed = attempt(step)
            told.append(failed if isinstance(failed, tuple) else None)
            optimizer.zero_grad(set_to_none=draw.random() < 0.7)
        yield told, s.loss.detach().clone(), before, state_of(model, has_failed), list(log)
