"""Programs about steps of optimizers, within and around compiled functions, their schedules, and averages."""

import copy

import torch
import torch.nn.functional as F
from program_cases import batches, case, mlp, values_of
from torch import nn, optim
from torch.optim import lr_scheduler as schedules
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

# ---- whole steps


def whole_step(make, scheduled=None, clip=None, to_none=True):
    def program(compile):
        model = mlp()
        optimizer = make(model.parameters())
        scheduler = scheduled(optimizer) if scheduled else None

        def step(x, t):
            optimizer.zero_grad(set_to_none=to_none)
            loss = F.cross_entropy(model(x), t)
            loss.backward()
            if clip:
                clip(model.parameters())
            optimizer.step()
            if scheduler:
                scheduler.step()
            return loss.detach()

        step = compile(step)
        for x, t in batches(7):
            yield step(x, t), values_of(model), optimizer.param_groups[0]["lr"]

    return program


def by_norm(parameters):
    nn.utils.clip_grad_norm_(parameters, 0.1)


def by_value(parameters):
    nn.utils.clip_grad_value_(parameters, 0.05)


STEPS = {
    "sgd": dict(make=lambda p: optim.SGD(p, 0.1)),
    "sgd_momentum_clip": dict(make=lambda p: optim.SGD(p, 0.1, momentum=0.9), clip=by_norm),
    "adam_step_lr": dict(make=lambda p: optim.Adam(p, 0.1), scheduled=lambda o: schedules.StepLR(o, 2)),
    "adamw_cosine_clip": dict(
        make=lambda p: optim.AdamW(p, 0.1), scheduled=lambda o: schedules.CosineAnnealingLR(o, 5), clip=by_norm
    ),
    "adamw_one_cycle": dict(
        make=lambda p: optim.AdamW(p, 0.1), scheduled=lambda o: schedules.OneCycleLR(o, 0.2, total_steps=20)
    ),
    "adam_lambda": dict(
        make=lambda p: optim.Adam(p, 0.1), scheduled=lambda o: schedules.LambdaLR(o, lambda k: 0.9**k)
    ),
    "adam_warmup": dict(
        make=lambda p: optim.Adam(p, 0.1),
        scheduled=lambda o: schedules.SequentialLR(
            o, [schedules.LinearLR(o, 0.1, total_iters=3), schedules.ExponentialLR(o, 0.9)], [3]
        ),
    ),
    "adam_restarts": dict(
        make=lambda p: optim.Adam(p, 0.1), scheduled=lambda o: schedules.CosineAnnealingWarmRestarts(o, 3)
    ),
    "sgd_cyclic": dict(
        make=lambda p: optim.SGD(p, 0.1, momentum=0.5), scheduled=lambda o: schedules.CyclicLR(o, 0.01, 0.1, 2)
    ),
    "sgd_multistep_value": dict(
        make=lambda p: optim.SGD(p, 0.1), scheduled=lambda o: schedules.MultiStepLR(o, [2, 4]), clip=by_value
    ),
    "adam_gradients_kept": dict(make=lambda p: optim.Adam(p, 0.1), to_none=False),
    "adamw_fused": dict(make=lambda p: optim.AdamW(p, 0.1, fused=True), clip=by_norm),
    "adam_maximized": dict(make=lambda p: optim.Adam(p, 0.1, maximize=True, amsgrad=True)),
    "adam_tensor_rate": dict(make=lambda p: optim.Adam(p, torch.tensor(0.1))),
    "rmsprop_centered": dict(make=lambda p: optim.RMSprop(p, 0.1, centered=True, momentum=0.5)),
    "nadam_decoupled": dict(make=lambda p: optim.NAdam(p, 0.1, weight_decay=0.1, decoupled_weight_decay=True)),
    "adagrad": dict(make=lambda p: optim.Adagrad(p, 0.1, lr_decay=0.1)),
    "rprop": dict(make=lambda p: optim.Rprop(p, 0.1)),
    "adafactor": dict(make=lambda p: optim.Adafactor(p, 0.1)),
    "groups": dict(
        make=lambda p: (lambda q: optim.SGD([dict(params=q[:2]), dict(params=q[2:], lr=0.01, momentum=0.9)], 0.1))(
            list(p)
        )
    ),
}
for name, how in STEPS.items():
    program = whole_step(**how)
    program.__name__ = f"step_{name}"
    case(program)


@case
def step_of_lbfgs(compile):
    model = mlp()
    optimizer = optim.LBFGS(model.parameters(), max_iter=3)
    x, t = torch.randn(5, 4), torch.randint(3, (5,))

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        return loss

    closure = compile(closure)
    for _ in range(3):
        yield optimizer.step(closure).detach(), values_of(model)


@case
def step_with_a_closure(compile):
    model = mlp()
    optimizer = optim.Adam(model.parameters(), 0.1)

    def step(x, t):
        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), t)
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    step = compile(step)
    for x, t in batches(5):
        yield step(x, t), values_of(model)


@case
def step_with_hooks(compile):
    model, seen = mlp(), []
    optimizer = optim.SGD(model.parameters(), 0.1)
    step, loss = compile(optimizer.step), compile(lambda x: model(x).square().sum())
    for k, (x, _) in enumerate(batches(6)):
        if k == 2:
            before = optimizer.register_step_pre_hook(lambda o, a, k: seen.append("before"))
        if k == 3:
            optimizer.register_step_post_hook(lambda o, a, k: seen.append("after"))
        if k == 4:
            before.remove()
        optimizer.zero_grad()
        loss(x).backward()
        step()
        yield values_of(model), list(seen)


@case
def parameters_without_gradients(compile):
    model = mlp()
    optimizer = optim.Adam(model.parameters(), 0.1)
    step = compile(optimizer.step)
    for k, (x, _) in enumerate(batches(7)):
        optimizer.zero_grad()
        h = model(x) if k % 3 else model[0](x)
        h.square().sum().backward()
        step()
        yield values_of(model), len(optimizer.state)


@case
def a_group_is_added(compile):
    model, head = mlp(), nn.Linear(3, 2)
    optimizer = optim.Adam(model.parameters(), 0.1)
    step = compile(optimizer.step)
    for k, (x, _) in enumerate(batches(7)):
        if k == 3:
            optimizer.add_param_group(dict(params=list(head.parameters()), lr=0.01))
        optimizer.zero_grad()
        head(model(x)).square().sum().backward()
        step()
        yield values_of(model), values_of(head)


@case
def an_optimizer_is_replaced(compile):
    model = mlp()

    def step(optimizer, x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = compile(step)
    for make in (lambda p: optim.SGD(p, 0.1), lambda p: optim.Adam(p, 0.1), lambda p: optim.SGD(p, 0.01)):
        optimizer = make(model.parameters())
        for x, _ in batches(4):
            yield step(optimizer, x), values_of(model)


@case
def optimizers_are_loaded(compile):
    model = mlp()
    optimizer = optim.AdamW(model.parameters(), 0.1)
    step = compile(optimizer.step)
    kept = None
    for k, (x, _) in enumerate(batches(8)):
        if k == 3:
            kept = copy.deepcopy(optimizer.state_dict())
        if k == 6:
            optimizer.load_state_dict(kept)
        optimizer.zero_grad()
        model(x).square().sum().backward()
        step()
        yield values_of(model)


@case
def rates_change_by_hand(compile):
    model = mlp()
    optimizer = optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=0.01)
    step = compile(optimizer.step)
    for k, (x, _) in enumerate(batches(8)):
        group = optimizer.param_groups[0]
        group["lr"] = 0.1 / (k + 1)
        if k == 5:
            group["momentum"] = 0.5
        if k == 6:
            group["weight_decay"] = 0
        if k == 7:
            group["nesterov"] = True
        optimizer.zero_grad()
        model(x).square().sum().backward()
        step()
        yield values_of(model)


@case
def plateau(compile):
    model = mlp()
    optimizer = optim.SGD(model.parameters(), 0.1)
    scheduler = schedules.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)

    def step(x, t):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
        scheduler.step(loss.detach())
        return loss.detach()

    step = compile(step)
    for x, t in batches(7):
        yield step(x, t), optimizer.param_groups[0]["lr"], values_of(model)


def seen_steps(step, model):
    for x, _ in batches(5):
        yield step(x), values_of(model), [p._version for p in model.parameters()]


@case
def updates_by_hand(compile):
    model = mlp()

    def step(x):
        loss = model(x).square().sum()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), gradients, strict=True):
                p -= 0.01 * g
        return loss.detach()

    yield from seen_steps(compile(step), model)


@case
def updates_of_data_by_hand(compile):
    model = mlp()

    def step(x):
        model.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        for p in model.parameters():
            p.data.add_(p.grad.data, alpha=-0.01)
        return loss.detach()

    yield from seen_steps(compile(step), model)


@case
def data_is_assigned_by_hand(compile):
    model = mlp()

    def step(x):
        model.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        for p in model.parameters():
            p.data = p.data - 0.01 * p.grad
        return loss.detach()

    yield from seen_steps(compile(step), model)


# ---- averages


@case
def averaged_model(compile):
    model = mlp()
    average = AveragedModel(model)
    update = compile(average.update_parameters)
    for k in range(5):
        with torch.no_grad():
            model[0].weight.add_(1.0 + k)
        update(model)
        yield values_of(average), average.n_averaged


@case
def exponential_average(compile):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    update = compile(lambda: average.update_parameters(model))
    for _ in range(5):
        model(torch.randn(3, 4))
        with torch.no_grad():
            model[0].weight.add_(1.0)
        update()
        yield values_of(average), [b.clone() for b in average.buffers()]


@case
def exponential_average_by_hand(compile):
    model = mlp()
    target = copy.deepcopy(model).requires_grad_(False)

    def update(rate):
        with torch.no_grad():
            for p, q in zip(model.parameters(), target.parameters(), strict=True):
                q.mul_(rate).add_(p, alpha=1 - rate)

    update = compile(update)
    for k in range(5):
        with torch.no_grad():
            model[0].weight.add_(1.0)
        update(0.9 - k / 100)
        yield values_of(target)


@case
def stochastic_average(compile):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    optimizer, average = optim.SGD(model.parameters(), 0.1), AveragedModel(model)
    scheduler, f = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2), compile(model)
    for x, t in batches(5):
        optimizer.zero_grad()
        F.cross_entropy(f(x), t).backward()
        optimizer.step()
        average.update_parameters(model)
        scheduler.step()
        yield values_of(average)
    update_bn([x for x, _ in batches(3)], average)
    yield [b.clone() for b in average.buffers()]
