"""Every optimizer in each of its ways, under schedules, with groups and a state that is loaded."""

import copy
import inspect

import torch.nn.functional as F
from program_cases import batches, case, mlp, values_of
from torch import optim

# ---- optimizers table
TABLE = []
for cls, kw in [
    (optim.SGD, dict(lr=0.1)),
    (optim.SGD, dict(lr=0.1, momentum=0.9, nesterov=True)),
    (optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.1)),
    (optim.Adam, dict(lr=0.01)),
    (optim.Adam, dict(lr=0.01, amsgrad=True, weight_decay=0.1)),
    (optim.AdamW, dict(lr=0.01)),
    (optim.AdamW, dict(lr=0.01, amsgrad=True)),
    (optim.Adamax, dict(lr=0.01)),
    (optim.NAdam, dict(lr=0.01)),
    (optim.NAdam, dict(lr=0.01, decoupled_weight_decay=True, weight_decay=0.1)),
    (optim.RAdam, dict(lr=0.01)),
    (optim.RAdam, dict(lr=0.01, decoupled_weight_decay=True, weight_decay=0.1)),
    (optim.RMSprop, dict(lr=0.01)),
    (optim.RMSprop, dict(lr=0.01, centered=True, momentum=0.5)),
    (optim.Adagrad, dict(lr=0.1)),
    (optim.Adagrad, dict(lr=0.1, lr_decay=0.1, initial_accumulator_value=0.1)),
    (optim.Adadelta, dict(lr=1.0)),
    (optim.Adadelta, dict(lr=1.0, weight_decay=0.1)),
    (optim.Rprop, dict(lr=0.01)),
    (optim.ASGD, dict(lr=0.01)),
    (optim.ASGD, dict(lr=0.01, t0=2, weight_decay=0.1)),
    (optim.Adafactor, dict(lr=0.01)),
    (optim.Adafactor, dict(lr=0.01, weight_decay=0.1)),
]:
    TABLE.append((cls, kw))
EXTRA = [dict(foreach=True), dict(foreach=False), dict(maximize=True), dict(fused=True)]


def one_cycle(opt):
    return optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=12, cycle_momentum=False)


SCHED = [
    lambda o: optim.lr_scheduler.StepLR(o, 2, 0.5),
    lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 5),
    one_cycle,
    lambda o: optim.lr_scheduler.LambdaLR(o, lambda k: 1 / (k + 1)),
    lambda o: optim.lr_scheduler.ExponentialLR(o, 0.9),
    lambda o: optim.lr_scheduler.LinearLR(o, total_iters=3),
    lambda o: optim.lr_scheduler.SequentialLR(
        o, [optim.lr_scheduler.ConstantLR(o, 0.5, 2), optim.lr_scheduler.ExponentialLR(o, 0.9)], [2]
    ),
    lambda o: optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    lambda o: optim.lr_scheduler.MultiStepLR(o, [1, 3]),
    lambda o: optim.lr_scheduler.PolynomialLR(o, 6),
]


def optimizing(cls, kw, extra, make):
    def program(compile):
        model = mlp()
        groups = [
            {"params": list(model[0].parameters())},
            {"params": list(model[2].parameters()), "lr": kw["lr"] / 2},
        ]
        opt = cls(groups, **kw, **extra)
        sched = make(opt)
        step = compile(opt.step)
        f = compile(model)
        for k, (x, y) in enumerate(batches(6)):
            opt.zero_grad(set_to_none=k % 2 == 0)
            loss = F.cross_entropy(f(x), y)
            loss.backward()
            if k == 3:
                model[0].bias.grad = None
            step()
            sched.step()
            if k == 4:
                opt.load_state_dict(copy.deepcopy(opt.state_dict()))
            yield (
                loss.detach(),
                values_of(model),
                [g["lr"] for g in opt.param_groups],
                [p._version for p in model.parameters()],
            )
        yield [{k: v for k, v in s.items()} for s in opt.state.values()]

    return program


def add_all():
    number = 0
    for cls, how in TABLE:
        parameters = inspect.signature(cls).parameters
        for extra in EXTRA:
            if not all(key in parameters for key in extra):
                continue
            program = optimizing(cls, how, extra, SCHED[number % len(SCHED)])
            program.__name__ = f"{cls.__name__}_{number}_{'_'.join(extra)}"
            case(program)
            number += 1


add_all()
