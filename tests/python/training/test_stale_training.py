"""Something about training changes between calls: every call gives what eager gives."""

import copy

import pytest
import torch
import torch.nn.functional as F
from against_eager import close
from torch import nn

import braze

CHANGES = {}


def change(function):
    """`function(model, optimizer, k)` is called before step k."""
    CHANGES[function.__name__] = function
    return function


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.drop = nn.Dropout(0.2)
        self.register_buffer("mask", torch.tensor([1.0, 0.0, 1.0, 1.0, 0.5, 1.0]))
        self.detach = False
        self.no_grad = False

    def forward(self, x):
        h = self.drop(torch.tanh(self.norm(self.a(x)))) * self.mask * self.scale
        if self.detach:
            h = h.detach()
        if self.no_grad:
            with torch.no_grad():
                h = h * 2
        return self.b(h)


def each(function):
    """The change at step 3 alone."""

    def at_step(model, optimizer, k):
        if k == 3:
            function(model, optimizer)

    at_step.__name__ = function.__name__
    return change(at_step)


@change
def nothing(m, o, k):
    pass


@change
def train_and_eval(m, o, k):
    m.train(k % 2 == 0)


@change
def eval_of_the_norm(m, o, k):
    m.norm.train(k < 3)


@change
def frozen_layer_toggles(m, o, k):
    m.a.requires_grad_(k % 3 != 1)


@change
def frozen_norm_toggles(m, o, k):
    m.norm.requires_grad_(k % 2 == 0)


@change
def all_frozen_but_one(m, o, k):
    for number, p in enumerate(m.parameters()):
        p.requires_grad_(number == k % 7)


@each
def freezes(m, o):
    m.b.requires_grad_(False)


@each
def parameter_data_is_set(m, o):
    m.a.weight.data = torch.ones(6, 4)


@each
def parameter_is_filled(m, o):
    with torch.no_grad():
        m.a.weight.fill_(0.25)


@each
def parameter_is_replaced(m, o):
    m.b.weight = nn.Parameter(torch.full((3, 6), 0.5))
    o.param_groups[0]["params"] = list(m.parameters())


@each
def bias_is_taken_away(m, o):
    m.b.bias = None


@each
def state_is_loaded(m, o):
    m.load_state_dict({name: torch.ones_like(value) for name, value in m.state_dict().items()})


@each
def state_is_assigned(m, o):
    m.load_state_dict({name: torch.ones_like(value) for name, value in m.state_dict().items()}, assign=True)
    m.requires_grad_(True)
    o.param_groups[0]["params"] = list(m.parameters())


@each
def weights_are_tied(m, o):
    m.b.weight = nn.Parameter(m.a.weight.detach()[:3].repeat(1, 2)[:, :6])
    m.b.bias = nn.Parameter(m.b.weight.detach()[:, 0].clone())
    o.param_groups[0]["params"] = list(m.parameters())


@each
def a_weight_is_shared(m, o):
    m.norm.weight = m.norm.bias


@each
def hook_on_a_parameter(m, o):
    m.a.weight.register_hook(lambda g: g * 3)


def doubled(p):
    p.grad.mul_(2)


@each
def hook_after_accumulation(m, o):
    m.a.weight.register_post_accumulate_grad_hook(doubled)


@each
def forward_hook(m, o):
    m.a.register_forward_hook(lambda module, args, out: out + 1)


@each
def forward_pre_hook(m, o):
    m.b.register_forward_pre_hook(lambda module, args: (args[0] * 2,))


@each
def backward_hook(m, o):
    m.b.register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,))


@each
def backward_pre_hook(m, o):
    m.b.register_full_backward_pre_hook(lambda module, go: (go[0] * 2,))


@change
def gradients_set_to_none(m, o, k):
    for p in m.parameters():
        p.grad = None


@change
def gradients_zeroed(m, o, k):
    o.zero_grad(set_to_none=False)


@change
def gradients_accumulate(m, o, k):
    for p in m.parameters():
        if p.grad is not None and k % 2:
            p.grad.mul_(0.5)


@change
def a_gradient_is_shared(m, o, k):
    if k == 2:
        m.a.bias.grad = m.norm.bias.grad


@each
def a_gradient_of_the_users(m, o):
    m.scale.grad = torch.tensor(4.0)


@each
def learning_rate(m, o):
    o.param_groups[0]["lr"] = 0.5


@each
def momentum(m, o):
    o.param_groups[0]["momentum"] = 0.1


@each
def optimizer_state_is_cleared(m, o):
    o.state.clear()


@each
def optimizer_state_is_loaded(m, o):
    o.load_state_dict(copy.deepcopy(o.state_dict()))


@each
def weight_decay(m, o):
    o.param_groups[0]["weight_decay"] = 0.3


@change
def detaches(m, o, k):
    m.detach = k in (2, 4)


@change
def no_grad_inside(m, o, k):
    m.no_grad = k in (2, 4)


@change
def dropout_rate(m, o, k):
    m.drop.p = 0.1 * (k % 3)


@each
def momentum_of_the_norm(m, o):
    m.norm.momentum = 0.5


@each
def statistics_are_reset(m, o):
    m.norm.reset_running_stats()


@each
def statistics_are_no_longer_tracked(m, o):
    m.norm.track_running_stats = False
    m.norm.running_mean = m.norm.running_var = None


@each
def epsilon(m, o):
    m.norm.eps = 0.5


@each
def the_mask_changes(m, o):
    m.mask[0] = 7


@each
def the_mask_is_replaced(m, o):
    m.mask = torch.ones(6)


@each
def the_mask_requires_grad(m, o):
    m.mask.requires_grad_()


@each
def the_mask_becomes_a_parameter(m, o):
    del m.mask
    m.mask = nn.Parameter(torch.ones(6))


@each
def a_layer_is_replaced(m, o):
    m.b = nn.Sequential(nn.Linear(6, 3), nn.ReLU())
    torch.manual_seed(11)
    m.b[0].reset_parameters()
    o.param_groups[0]["params"] = list(m.parameters())


@each
def to_double_and_back(m, o):
    m.double()
    m.float()


@each
def spectral_parametrization(m, o):
    torch.nn.utils.parametrize.register_parametrization(m.b, "weight", Doubled())


class Doubled(nn.Module):
    def forward(self, w):
        return w * 2


# How the compiled model is called, and what is done with the loss.
STYLES = {
    "sum": lambda f, x, y: F.cross_entropy(f(x), y),
    "input_with_grad": lambda f, x, y: f(x.requires_grad_()).pow(2).mean(),
    "two_calls": lambda f, x, y: (f(x) - f(x * 2)).pow(2).mean(),
}


def losses(make_change, style, compile):
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    f = compile(model)
    found = []
    for k in range(6):
        torch.manual_seed(k)
        x, y = torch.randn(5, 4), torch.randint(0, 3, (5,))
        make_change(model, optimizer, k)
        loss = STYLES[style](f, x, y)
        if loss.requires_grad:
            loss.backward()
            optimizer.step()
        found.append(
            (loss.detach(), x.grad, [p.grad if p.grad is None else p.grad.clone() for p in model.parameters()])
        )
        found.append((model.norm.num_batches_tracked, *(p.detach().clone() for p in model.parameters())))
    return found


def same(ours, theirs, what):
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs), what
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            same(a, b, f"{what}[{k}]")
    else:
        close(ours, theirs, what, 1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", CHANGES)
def test_as_eager(name, style):
    theirs = losses(CHANGES[name], style, lambda model: model)
    same(losses(CHANGES[name], style, braze.compile), theirs, "step")


def test_there_are_enough():
    assert len(CHANGES) * len(STYLES) >= 100
