"""torch.nn modules: parameters, buffers, submodules, hooks, modes, containers."""

import copy

import torch
from staleness import call, case, module, tensor
from torch import nn


def fill(made):
    """The same numbers every time, so that two runs of a case agree."""
    with torch.no_grad():
        for i, parameter in enumerate(made.parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape) + i)
    return made


class Net(nn.Module):
    scale = 2.0

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 3)
        self.drop = nn.Dropout(1.0)
        self.register_buffer("offset", torch.ones(3))
        self.layers = nn.ModuleList([nn.Linear(3, 3)])
        self.table = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
        self.which = "a"

    def forward(self, x):
        x = self.drop(torch.relu(self.first(x)))
        x = self.second(x) * self.scale + self.offset
        for layer in self.layers:
            x = layer(x)
        return self.table[self.which](x)


def batch():
    return tensor(2, 4)


def net(name, change, make=Net, evolves=False, train=False):
    @case(name=name, evolves=evolves)
    def cases():
        made = fill(make()).train(train)
        yield call(made, batch())
        change(made)

    return cases


@torch.no_grad()
def add_one(parameter):
    parameter.add_(1)


net("parameter_changed_in_place", lambda m: add_one(m.first.weight))
net("parameter_data_assigned", lambda m: setattr(m.first.weight, "data", torch.ones(4, 4)))
net("parameter_rebound", lambda m: setattr(m.first, "weight", nn.Parameter(torch.ones(4, 4))))
net("parameter_removed", lambda m: setattr(m.first, "bias", None))
net("parameter_deleted", lambda m: delattr(m.first, "bias"))
net("parameter_frozen", lambda m: [p.requires_grad_(False) for p in m.parameters()])
net("parameters_cast", lambda m: m.double())
net("parameters_half", lambda m: m.bfloat16())
net(
    "parameter_data_of_other_strides",
    lambda m: setattr(m.first.weight, "data", torch.eye(4).mul(2).t().add(tensor(4, 4)).t()),
)
net("parameters_tied", lambda m: setattr(m.layers[0], "weight", m.table["a"].weight))
net("state_dict_loaded", lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}))
net("state_dict_assigned", lambda m: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}, assign=True))
net("buffer_changed_in_place", lambda m: m.offset.fill_(7))
net("buffer_rebound", lambda m: setattr(m, "offset", torch.full((3,), 9.0)))
net("buffer_broadcasts", lambda m: setattr(m, "offset", torch.ones(1)) or add_one(m.offset))
net(
    "buffer_becomes_parameter", lambda m: (delattr(m, "offset"), setattr(m, "offset", nn.Parameter(torch.zeros(3))))
)
net("submodule_replaced", lambda m: setattr(m, "second", fill(nn.Linear(4, 3, bias=False))))
net("submodule_in_module_list_replaced", lambda m: m.layers.__setitem__(0, nn.Identity()))
net(
    "module_list_appended",
    lambda m: m.layers.append(fill(nn.Linear(3, 5))) and m.table.update({"a": fill(nn.Linear(5, 2))}),
)
net("module_list_emptied", lambda m: m.layers.__delitem__(0))
net("module_dict_entry_replaced", lambda m: m.table.update({"a": fill(nn.Linear(3, 6))}))
net("module_dict_key_chosen", lambda m: setattr(m, "which", "b"))
net("submodule_deleted", lambda m: delattr(m, "drop"))
net("train_and_eval", lambda m: m.train())
net("submodule_train", lambda m: m.drop.train())
net("dropout_probability", lambda m: setattr(m.drop, "p", 0.0), train=True)
net("attribute_of_class", lambda m: setattr(m, "scale", 5.0))
net("forward_of_instance", lambda m: setattr(m, "forward", lambda x: x + 1))
net("forward_of_submodule", lambda m: setattr(m.first, "forward", lambda x: x + 1))
net("method_of_submodule_class", lambda m: setattr(m.drop, "__class__", nn.Identity), train=True)
net("forward_hook", lambda m: m.first.register_forward_hook(lambda mod, args, out: out * 2))
net(
    "forward_hook_with_kwargs",
    lambda m: m.first.register_forward_hook(lambda mod, a, k, out: out * 2, with_kwargs=True),
)
net("forward_pre_hook", lambda m: m.first.register_forward_pre_hook(lambda mod, args: (args[0] + 1,)))
net("forward_hook_on_top", lambda m: m.register_forward_hook(lambda mod, args, out: out - 1))
net("printing_hook", lambda m: m.first.register_forward_hook(lambda mod, args, out: print("hook", out.shape)))
net("apply_to_all", lambda m: m.apply(lambda s: setattr(s, "training", True)))
net("deep_copied_part", lambda m: setattr(m, "second", add_one(m.second.bias) or copy.deepcopy(m.second)))
net("requires_grad_of_module", lambda m: m.requires_grad_(False))


@case
def forward_of_class_replaced():
    class Own(Net):
        pass

    made = fill(Own()).eval()
    yield call(made, batch())
    Own.forward = lambda self, x: x * 3


@case
def class_attribute_changed():
    class Own(Net):
        scale = 3.0

    made = fill(Own()).eval()
    yield call(made, batch())
    Own.scale = 4.0


@case
def hook_removed():
    made = fill(Net()).eval()
    handle = made.first.register_forward_hook(lambda mod, args, out: out * 2)
    yield call(made, batch())
    handle.remove()


@case
def hook_replaced_in_place():
    made = fill(Net()).eval()
    state = {"k": 2}
    made.first.register_forward_hook(lambda mod, args, out: out * state["k"])
    yield call(made, batch())
    state["k"] = 3


@case
def hooks_reordered():
    made = fill(Net()).eval()
    made.first.register_forward_hook(lambda mod, args, out: out * 2)
    made.first.register_forward_hook(lambda mod, args, out: out + 2)
    yield call(made, batch())
    made.first._forward_hooks.move_to_end(next(iter(made.first._forward_hooks)))


@case
def global_forward_hook():
    made = fill(Net()).eval()
    yield call(made, batch())
    handle = nn.modules.module.register_module_forward_hook(lambda mod, args, out: out + 1)
    try:
        yield call(batch())
    finally:
        handle.remove()


@case
def batch_norm_momentum():
    made = fill(nn.BatchNorm1d(4)).train()
    made.track_running_stats = True
    yield call(made.eval(), batch())
    made.running_mean.fill_(3)


@case(evolves=True)
def batch_norm_statistics():
    made = fill(nn.BatchNorm1d(4)).train()
    yield call(made, batch()).watch(made.running_mean, made.num_batches_tracked)


@case
def batch_norm_eps():
    made = fill(nn.BatchNorm1d(4)).eval()
    yield call(made, batch())
    made.eps = 1.0


@case
def layer_norm_shape():
    made = fill(nn.LayerNorm(4)).eval()
    yield call(made, batch())
    made.normalized_shape = (2, 4)
    made.weight = made.bias = None


@case
def sequential_indexed():
    made = fill(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    yield call(made, batch())
    made[1] = nn.Sigmoid()


@case
def sequential_reordered():
    made = fill(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    yield call(made, batch())
    made._modules["0"], made._modules["1"] = made._modules["1"], made._modules["0"]


@case
def parameter_list():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.all = nn.ParameterList([nn.Parameter(torch.ones(4))])

        def forward(self, x):
            for parameter in self.all:
                x = x * parameter
            return x

    made = fill(Own())
    yield call(made, batch())
    made.all.append(nn.Parameter(torch.full((4,), 2.0)))


@case
def module_in_plain_list():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [nn.ReLU()]

        def forward(self, x):
            return self.hidden[0](x - 3)

    made = Own()
    yield call(made, batch())
    made.hidden[0] = nn.Sigmoid()


@case
def module_as_global():
    m = module("def f(x): return layer(x)", layer=fill(nn.Linear(4, 2)))
    yield m.f, batch()
    m.layer = fill(nn.Linear(4, 3))


@case
def module_as_argument():
    m = module("def f(layer, x): return layer(x)")
    first, second = fill(nn.Linear(4, 2)), fill(nn.Linear(4, 2))
    yield m.f, first, batch()
    with torch.no_grad():
        second.bias.add_(3)
    yield second, batch()


@case
def named_parameters_walked():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return {name: x * p for name, p in self.named_parameters()}

    made = Own()
    yield call(made, batch())
    made.b = nn.Parameter(torch.zeros(4))


@case
def parametrization_added():
    class Double(nn.Module):
        def forward(self, w):
            return w * 2

    made = fill(nn.Linear(4, 2))
    yield call(made, batch())
    nn.utils.parametrize.register_parametrization(made, "weight", Double())


@case
def activation_chosen_by_string():
    class Own(nn.Module):
        act = "relu"

        def forward(self, x):
            return getattr(torch.nn.functional, self.act)(x - 3)

    made = Own()
    yield call(made, batch())
    made.act = "elu"


@case
def method_bound_to_other_instance():
    first, second = fill(Net()).eval(), fill(Net()).eval()
    add_one(second.second.bias)
    m = module("def f(x): return g(x)", g=first.forward)
    yield m.f, batch()
    m.g = second.forward


@case
def gradient_is_read():
    made = fill(nn.Linear(4, 2))
    m = module("def f(x): return x if layer.weight.grad is None else x + layer.weight.grad.sum()", layer=made)
    yield m.f, batch()
    made(batch()).sum().backward()
