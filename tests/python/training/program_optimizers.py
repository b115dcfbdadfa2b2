"""Programs about torch.optim: every optimizer with its flags, schedules, averages, and steps that are compiled."""

import copy

import torch
from program_cases import attempt, case, leaf, mlp, values_of
from torch import nn
from torch.optim import lr_scheduler, swa_utils

OPTIMIZERS = {
    "sgd_nesterov": lambda p, **how: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1, **how),
    "sgd_dampened": lambda p, **how: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.5, maximize=True, **how),
    "adam": lambda p, **how: torch.optim.Adam(p, 0.1, amsgrad=True, weight_decay=0.1, **how),
    "adam_decoupled": lambda p, **how: torch.optim.Adam(
        p, 0.1, decoupled_weight_decay=True, weight_decay=0.1, **how
    ),
    "adamw": lambda p, **how: torch.optim.AdamW(p, 0.1, maximize=True, betas=(0.5, 0.9), **how),
    "nadam": lambda p, **how: torch.optim.NAdam(p, 0.1, decoupled_weight_decay=True, weight_decay=0.1, **how),
    "radam": lambda p, **how: torch.optim.RAdam(p, 0.1, weight_decay=0.1, **how),
    "adamax": lambda p, **how: torch.optim.Adamax(p, 0.1, maximize=True, **how),
    "adagrad": lambda p, **how: torch.optim.Adagrad(p, 0.1, lr_decay=0.1, **how),
    "adadelta": lambda p, **how: torch.optim.Adadelta(p, 1.0, weight_decay=0.1, **how),
    "asgd": lambda p, **how: torch.optim.ASGD(p, 0.1, t0=2, **how),
    "rmsprop": lambda p, **how: torch.optim.RMSprop(p, 0.1, momentum=0.9, centered=True, eps=0.1, **how),
    "rprop": lambda p, **how: torch.optim.Rprop(p, 0.1, **how),
    "adafactor": lambda p, **how: torch.optim.Adafactor(p, 0.1, **how),
}
FLAGS = {
    "foreach": {"foreach": True},
    "single": {"foreach": False},
    "fused": {"fused": True},
}
FUSED = ("sgd_nesterov", "sgd_dampened", "adam", "adam_decoupled", "adamw", "adagrad")


def whole_step_of(model, optimizer):
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def optimized(make, how, whole):
    def program(compile):
        model = mlp()
        optimizer = make(model.parameters(), **how)

        f = compile(whole_step_of(model, optimizer) if whole else optimizer.step)
        for k in range(5):
            if k == 3:
                optimizer.param_groups[0]["lr"] = 0.01
            if whole:
                loss = f(torch.randn(3, 4))
            else:
                optimizer.zero_grad(k % 2 == 0)
                loss = model(torch.randn(3, 4)).square().sum()
                loss.backward()
                f()
            states = [{name: s[name] for name in sorted(s)} for s in optimizer.state.values()]
            # A step of ASGD is written in fewer operators, or more, by its form.
            versions = [p._version for p in model.parameters() if not isinstance(optimizer, torch.optim.ASGD)]
            yield loss, values_of(model), versions, states

    return program


for name, make in OPTIMIZERS.items():
    for flag, how in FLAGS.items():
        if flag == "fused" and name not in FUSED:
            continue
        for whole in (False, True):
            program = optimized(make, how, whole)
            program.__name__ = f"{'whole_step' if whole else 'step'}_of_{name}_{flag}"
            case(program)


SCHEDULES = {
    "one_cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=10),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=2),
    "cosine_restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda k: 0.5**k),
    "chained": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.5, 2), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    "sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=2), lr_scheduler.PolynomialLR(o, 4)], [2]
    ),
    "swa": lambda o: swa_utils.SWALR(o, 0.05, anneal_epochs=2),
}


def scheduled(schedule, make):
    def program(compile):
        model = mlp()
        optimizer = make(model.parameters())
        rates = schedule(optimizer)

        f = compile(whole_step_of(model, optimizer))
        for _ in range(6):
            yield f(torch.randn(3, 4)), values_of(model)
            rates.step()
            group = optimizer.param_groups[0]
            yield rates.get_last_lr(), group.get("momentum"), group.get("betas")

    return program


for name, schedule in SCHEDULES.items():
    for of, make in (
        ("sgd", lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
        ("adamw", lambda p: torch.optim.AdamW(p, 0.1)),
    ):
        program = scheduled(schedule, make)
        program.__name__ = f"schedule_{name}_of_{of}"
        case(program)


@case
def stochastic_averages_with_norms(compile):
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    average = swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    f, of_average = compile(model), compile(average)
    data = [torch.randn(4, 4) for _ in range(4)]
    for k, x in enumerate(data):
        optimizer.zero_grad()
        f(x).square().sum().backward()
        optimizer.step()
        if k > 0:
            average.update_parameters(model)
        yield values_of(average), average.n_averaged
    swa_utils.update_bn(data, average)
    yield average.module[1].running_mean, average.module[1].running_var, of_average(data[0])


@case
def exponential_averages_with_buffers(compile):
    model = nn.Sequential(nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3))
    average = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def whole_step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        return loss.detach()

    f = compile(whole_step)
    for _ in range(5):
        yield f(torch.randn(4, 4)), values_of(average), [b.clone() for b in average.buffers()]


@case
def sparse_steps(compile):
    table = nn.Embedding(10, 3, sparse=True)
    head = nn.Linear(3, 1)
    sparse = torch.optim.SparseAdam(list(table.parameters()), 0.1)
    dense = torch.optim.SGD(head.parameters(), 0.1)
    f = compile(lambda ids: head(table(ids)).square().sum())
    for n in (3, 4, 3, 5):
        sparse.zero_grad(), dense.zero_grad()
        loss = f(torch.randint(10, (n,)))
        loss.backward()
        yield loss, table.weight.grad.is_sparse, table.weight.grad.to_dense(), head.weight.grad
        sparse.step(), dense.step()
        yield values_of(table)


@case
def a_sparse_step_compiled(compile):
    table = nn.Embedding(10, 3, sparse=True)
    sparse = torch.optim.SparseAdam(list(table.parameters()), 0.1)
    step = compile(sparse.step)
    for n in (3, 4, 3, 5):
        sparse.zero_grad()
        table(torch.randint(10, (n,))).square().sum().backward()
        step()
        yield values_of(table)


def clipped(clip):
    def program(compile):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def whole_step(x):
            optimizer.zero_grad()
            loss = model(x).square().sum() * 100
            loss.backward()
            norm = clip(list(model.parameters()))
            optimizer.step()
            return loss.detach(), norm

        f = compile(whole_step)
        for k in range(5):
            yield f(torch.randn(3, 4) * (k + 1)), values_of(model)
            if k == 2:
                model[0].bias.requires_grad_(False)
                model[0].bias.grad = None

    return program


for name, clip in {
    "norm_foreach": lambda p: nn.utils.clip_grad_norm_(p, 1.0, foreach=True),
    "norm_single": lambda p: nn.utils.clip_grad_norm_(p, 1.0, foreach=False),
    "norm_of_infinity": lambda p: nn.utils.clip_grad_norm_(p, 0.5, norm_type=float("inf")),
    "norm_of_one": lambda p: nn.utils.clip_grad_norm_(p, 0.5, norm_type=1.0),
    "norm_or_error": lambda p: nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True),
    "value_foreach": lambda p: nn.utils.clip_grad_value_(p, 0.1, foreach=True),
    "value_single": lambda p: nn.utils.clip_grad_value_(p, 0.1, foreach=False),
    "by_total_norm": lambda p: nn.utils.clip_grads_with_norm_(
        p, 1.0, nn.utils.get_total_norm([q.grad for q in p if q.grad is not None])
    ),
}.items():
    program = clipped(clip)
    program.__name__ = f"clipped_by_{name}"
    case(program)


@case
def nonfinite_norms_are_errors(compile):
    model = mlp()

    def g(x):
        model.zero_grad()
        model(x).sum().backward()
        return nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)

    f = compile(g)
    for scale in (1.0, float("inf"), 1.0, float("nan"), 2.0):
        yield attempt(f, torch.ones(2, 4) * scale)


@case
def groups_of_an_optimizer_change(compile):
    first, second = nn.Linear(4, 4), nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(
        [{"params": first.parameters(), "lr": 0.01}, {"params": second.parameters(), "weight_decay": 0.0}], 0.1
    )
    step = compile(optimizer.step)
    for k in range(7):
        optimizer.zero_grad()
        second(first(torch.randn(2, 4)).tanh()).sum().backward()
        if k == 2:
            optimizer.param_groups[0]["weight_decay"] = 0.5
        if k == 3:
            optimizer.param_groups[1]["betas"] = (0.5, 0.9)
        if k == 4:
            optimizer.param_groups[1]["eps"] = 0.1
        if k == 5:
            optimizer.state.clear()
        if k == 6:
            optimizer.param_groups.pop()
        step()
        yield values_of(first), values_of(second)


@case
def states_of_an_optimizer_are_changed(compile):
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    step = compile(optimizer.step)
    for k in range(7):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        if k == 2:
            for state in optimizer.state.values():
                state["exp_avg"].zero_()
        if k == 3:
            for state in optimizer.state.values():
                state["step"] = torch.tensor(0.0)
        if k == 4:
            kept = copy.deepcopy(optimizer.state_dict())
        if k == 6:
            optimizer.load_state_dict(kept)
        step()
        yield values_of(model)


@case
def a_rate_that_is_a_tensor(compile):
    model = mlp()
    rate = torch.tensor(0.1)
    optimizer = torch.optim.AdamW(model.parameters(), rate, foreach=False, fused=False)
    step = compile(optimizer.step)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        step()
        rate.mul_(0.5)
        yield values_of(model)


@case
def gradients_through_a_step(compile):
    w = leaf(3)
    rate = torch.tensor(0.1, requires_grad=True)

    def g(x):
        inner = w.clone()
        for _ in range(3):
            (g,) = torch.autograd.grad((inner * x).sin().sum(), inner, create_graph=True)
            inner = inner - rate * g
        return inner.square().sum()

    f = compile(g)
    for _ in range(4):
        w.grad = rate.grad = None
        f(torch.randn(3)).backward()
        yield w.grad, rate.grad


@case
def closures_of_steps(compile):
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    f = compile(model)
    x = torch.randn(3, 4)

    def closure():
        optimizer.zero_grad()
        loss = f(x).square().sum()
        loss.backward()
        return loss

    for _ in range(4):
        yield optimizer.step(closure), values_of(model)


@case
def complex_and_half_parameters(compile):
    for kind in (torch.complex64, torch.bfloat16, torch.float64):
        w = torch.randn(4, dtype=kind, requires_grad=True)
        optimizer = torch.optim.Adam([w], 0.1)
        step = compile(optimizer.step)
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).abs().sum().backward()
            step()
            yield w


@case
def scaler_skips_steps(compile):
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    f = compile(model)
    for k in range(7):
        optimizer.zero_grad()
        x = torch.full((2, 4), float("inf")) if k in (1, 4) else torch.randn(2, 4)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = f(x).float().square().sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        yield scaler.get_scale(), norm.isfinite()
        yield [v.isfinite().all() for v in values_of(model)]
