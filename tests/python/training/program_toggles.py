"""Programs in which what is trained, and how, changes between calls: flags, modes, parameters, gradients."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import copy
import io
import pickle
import warnings

import torch
import torch.nn.functional as F
from program_cases import attempt, case, grads_of, leaf, mlp, values_of
from torch import nn


def state_of(model):
    """Parameters, gradients and buffers, with their versions."""
    parameters = [(p.detach().clone(), p._version, p.requires_grad, p.grad) for p in model.parameters()]
    return parameters, [(b.clone(), b._version) for b in model.buffers()]


def step(model, optimizer, f, x):
    optimizer.zero_grad()
    loss = f(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


@case
def one_parameter_at_a_time(compile):
    model = mlp()
    f = compile(model)
    for k in range(8):
        for n, p in enumerate(model.parameters()):
            p.requires_grad_(k % 4 == n)
            p.grad = None
        y = f(torch.randn(3, 4))
        y.sum().backward()
        yield y, grads_of(model), y.grad_fn is None


@case
def frozen_between_forward_and_backward(compile):
    model = mlp()
    f = compile(model)
    for k in range(5):
        model.zero_grad()
        y = f(torch.randn(3, 4))
        if k % 2:
            model[0].weight.requires_grad_(False)
        yield attempt(y.sum().backward), grads_of(model)
        model[0].weight.requires_grad_(True)


@case
def gradient_modes_alternate(compile):
    model = mlp()
    f = compile(model)
    x = torch.randn(3, 4)
    modes = [torch.no_grad, torch.enable_grad, torch.inference_mode, lambda: torch.set_grad_enabled(False)]
    for k in range(8):
        with modes[k % 4]():
            y = f(x)
        yield y.clone(), y.requires_grad, y.is_inference(), y.grad_fn is None


@case
def gradient_mode_within_by_a_flag(compile):
    model, head = mlp(), nn.Linear(3, 2)

    def g(x, train):
        with torch.set_grad_enabled(train):
            h = model(x)
        return head(h).sum()

    f = compile(g)
    for train in (True, False, True, True, False, False):
        model.zero_grad(), head.zero_grad()
        f(torch.randn(3, 4), train).backward()
        yield grads_of(model), grads_of(head)


@case
def grad_mode_is_asked_for(compile):
    w = leaf(4)

    def g(x):
        if torch.is_grad_enabled():
            return (x * w).sum()
        return (x * w).sum() * 2

    f = compile(g)
    for k in range(4):
        with torch.set_grad_enabled(k % 2 == 0):
            y = f(torch.ones(4))
        yield y, y.requires_grad


@case
def inference_tensors_as_inputs(compile):
    model = mlp()
    f = compile(model)
    with torch.inference_mode():
        made = torch.randn(3, 4)
    for k in range(4):
        x = made if k % 2 else torch.randn(3, 4)
        model.zero_grad()
        yield attempt(lambda: f(x).sum().backward()), grads_of(model)


@case
def gradients_are_preset(compile):
    model = mlp()
    f = compile(model)
    for k in range(5):
        for p in model.parameters():
            if k == 1:
                p.grad = torch.ones_like(p)
            if k == 2:
                p.grad = torch.ones_like(p).t().contiguous().t() if p.dim() == 2 else None
            if k == 3:
                p.grad = torch.zeros(()).expand_as(p)
            if k == 4:
                p.grad = None
        kept = [p.grad for p in model.parameters()]
        raised = attempt(f(torch.randn(3, 4)).sum().backward)
        same = [p.grad is one for p, one in zip(model.parameters(), kept, strict=True)]
        yield raised, same, grads_of(model), [p.grad._version for p in model.parameters()]


@case
def gradients_are_shared(compile):
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    f = compile(lambda x: (a(x).tanh() + b(x)).sum())
    for k in range(5):
        if k in (1, 3):
            b.weight.grad = a.weight.grad
        if k == 4:
            a.weight.grad, b.weight.grad = None, None
        f(torch.randn(3, 4)).backward()
        yield grads_of(a), grads_of(b), a.weight.grad is b.weight.grad


@case
def gradients_are_views_of_one_buffer(compile):
    model = mlp()
    flat = torch.zeros(sum(p.numel() for p in model.parameters()))
    start = 0
    for p in model.parameters():
        p.grad = flat[start : start + p.numel()].view_as(p)
        start += p.numel()
    f = compile(model)
    for k in range(4):
        if k == 2:
            flat.zero_()
        f(torch.randn(3, 4)).sum().backward()
        yield flat, flat._version, [p.grad._base is flat for p in model.parameters()]


@case
def zero_grad_both_ways(compile):
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    f = compile(model)
    for k in range(6):
        optimizer.zero_grad(set_to_none=k % 2 == 0)
        before = [p.grad for p in model.parameters()]
        f(torch.randn(3, 4)).square().sum().backward()
        yield [p.grad is one for p, one in zip(model.parameters(), before, strict=True)], grads_of(model)
        optimizer.step()
        yield state_of(model)


@case
def parameters_are_swapped(compile):
    a, b = nn.Linear(4, 3), nn.Linear(4, 3)
    f = compile(lambda x: a(x).tanh() * 2 + b(x))
    for _ in range(4):
        a.zero_grad(), b.zero_grad()
        f(torch.randn(2, 4)).sum().backward()
        yield grads_of(a), grads_of(b)
        a.weight, b.weight = b.weight, a.weight


@case
def a_parameter_becomes_a_buffer(compile):
    model = nn.Linear(4, 3)
    f = compile(model)
    for k in range(4):
        if k == 2:
            weight = model.weight.detach().clone()
            del model.weight
            model.register_buffer("weight", weight)
        model.zero_grad()
        f(torch.randn(2, 4)).sum().backward()
        yield grads_of(model), [name for name, _ in model.named_buffers()]


@case
def a_layer_is_exchanged(compile):
    model = mlp()
    f = compile(model)
    for k in range(5):
        if k == 2:
            model[2] = nn.Linear(6, 2)
        if k == 3:
            model[1] = nn.ReLU()
        if k == 4:
            model.append(nn.Dropout(0.5))
        model.zero_grad()
        y = f(torch.randn(3, 4))
        y.sum().backward()
        yield y, grads_of(model)


@case
def dropout_changes_its_rate(compile):
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    f = compile(model)
    for k, p in enumerate((0.5, 0.1, 0.9, 0.0, 1.0, 0.5)):
        model[1].p = p
        model.train(k != 4)
        model.zero_grad()
        y = f(torch.randn(3, 4))
        y.sum().backward()
        yield y, grads_of(model)


@case
def batch_norm_modes(compile):
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, momentum=None), nn.Linear(3, 2))
    f = compile(model)
    for k in range(8):
        model.train(k % 3 != 2)
        if k == 4:
            model[1].momentum = 0.3
        if k == 5:
            model[1].eps = 0.1
        if k == 6:
            model[1].track_running_stats = False
        model.zero_grad()
        f(torch.randn(5, 4)).square().sum().backward()
        yield state_of(model)


@case
def batch_norm_resets_and_frozen(compile):
    norm = nn.BatchNorm2d(3)
    f = compile(lambda x: norm(x).square().sum())
    for k in range(6):
        if k == 2:
            norm.reset_running_stats()
        if k == 3:
            norm.weight.requires_grad_(False)
        if k == 4:
            norm.eval()
        if k == 5:
            norm.train()
        norm.zero_grad()
        x = leaf(2, 3, 4, 4)
        f(x).backward()
        yield x.grad, state_of(norm)


@case
def batch_norm_of_one_value(compile):
    norm = nn.BatchNorm1d(3)
    f = compile(lambda x: norm(x).sum())
    for n in (2, 1, 3, 1):
        yield attempt(lambda: f(torch.randn(n, 3)).backward()), state_of(norm)


@case
def synchronised_norms(compile):
    norm = nn.SyncBatchNorm(3)
    f = compile(lambda x: norm(x).sum())
    for k in range(4):
        norm.train(k % 2 == 0)
        x = leaf(4, 3)
        yield attempt(lambda: f(x).backward()), x.grad


@case
def instance_and_group_norms(compile):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=False),
        nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        nn.GroupNorm(2, 4),
    )
    f = compile(model)
    for k in range(5):
        model.train(k != 3)
        model.zero_grad()
        f(torch.randn(2, 3, 6, 6)).square().sum().backward()
        yield state_of(model)


@case
def lazy_layers(compile):
    model = nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d(), nn.Tanh(), nn.LazyLinear(2))
    f = compile(model)
    for _ in range(4):
        y = f(torch.randn(3, 4))
        model.zero_grad()
        y.square().sum().backward()
        yield y, type(model[0]).__name__, state_of(model)


@case
def copies_of_a_trained_model(compile):
    model = mlp()
    f = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    for _ in range(2):
        yield step(model, optimizer, f, torch.randn(3, 4))
    twin = copy.deepcopy(f)
    optimizer = torch.optim.Adam(twin.parameters(), 0.1)
    for _ in range(2):
        yield step(twin, optimizer, twin, torch.randn(3, 4)), values_of(twin), values_of(model)
    loaded = pickle.loads(pickle.dumps(model))
    f = compile(loaded)
    yield f(torch.ones(1, 4))
    kept = io.BytesIO()
    torch.save(twin.state_dict(), kept)
    kept.seek(0)
    names = [name.removeprefix("_orig_mod.") for name in torch.load(kept)]
    yield names


@case
def states_are_loaded_between_steps(compile):
    model = mlp()
    f = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    kept = None
    for k in range(8):
        if k == 2:
            kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        if k == 5:
            model.load_state_dict(kept[0])
            optimizer.load_state_dict(kept[1])
        if k == 6:
            model.load_state_dict(kept[0], assign=True)
            optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        yield step(model, optimizer, f, torch.randn(3, 4)), state_of(model)


@case
def types_change_between_steps(compile):
    model = mlp()
    f = compile(model)
    for kind in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
        model.to(kind)
        model.zero_grad()
        y = f(torch.ones(3, 4, dtype=kind))
        y.sum().backward()
        yield y.dtype, [g.dtype for g in grads_of(model).values()], grads_of(model)


@case
def strange_layouts_of_parameters(compile):
    model = nn.Conv2d(3, 4, 2)
    f = compile(model)
    for k in range(5):
        if k == 2:
            model.to(memory_format=torch.channels_last)
        if k == 4:
            model.weight.data = model.weight.data.contiguous()
        model.zero_grad()
        x = leaf(2, 3, 5, 5)
        y = f(x)
        y.sum().backward()
        yield y, x.grad, grads_of(model)


@case
def warnings_of_training(compile):
    model = mlp()
    f = compile(lambda x: F.mse_loss(model(x), torch.zeros(1, 3)))
    for _ in range(4):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            y = f(torch.randn(2, 4))
            y.backward()
            read = (y * 2).grad
        yield [w.category.__name__ for w in seen], [str(w.message)[:40] for w in seen], read


@case
def schedule_before_step(compile):
    model = mlp()
    f = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for k in range(4):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            if k == 0:
                schedule.step()
            yield step(model, optimizer, f, torch.randn(3, 4))
            schedule.step()
        yield schedule.get_last_lr(), [w.category.__name__ for w in seen]


@case
def anomalies(compile):
    w = leaf(3)
    f = compile(lambda x: (w * x).sqrt().sum())
    for k in range(5):
        w.grad = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.autograd.set_detect_anomaly(k > 1, check_nan=k != 3):
                x = torch.tensor([-1.0, 1.0, 0.0]) if k % 2 else torch.ones(3)
                raised = attempt(f(x).backward)
        yield raised and raised[:2], w.grad if not raised else None


@case
def stale_outputs_after_steps(compile):
    model = nn.Linear(4, 4)
    f = compile(model)
    for _ in range(4):
        x = torch.randn(2, 4)
        y = f(f(x))
        with torch.no_grad():
            model.weight -= 0.1
        yield attempt(y.sum().backward), grads_of(model)
        model.zero_grad()


@case
def requires_grad_of_inputs_in_turn(compile):
    f = compile(lambda a, b, c: ((a * b).tanh() @ c).sum())
    for k in range(10):
        wants = [bool(k & 1), bool(k & 2), bool(k & 4)]
        a, b, c = (torch.randn(3, 3).requires_grad_(w) for w in wants)
        y = f(a, b, c)
        yield y, attempt(y.backward), a.grad, b.grad, c.grad


@case
def leaves_and_results_as_inputs(compile):
    f = compile(lambda x: (x * x).exp().sum())
    base = leaf(3)
    for k in range(6):
        base.grad = None
        x = (base, base * 2, base.detach(), base.view(3), base[:2], base.clone().requires_grad_())[k]
        y = f(x)
        yield y, attempt(y.backward), base.grad


@case
def the_same_tensor_twice(compile):
    f = compile(lambda a, b: (a * 2 * b.sin()).sum())
    for k in range(6):
        a, b = leaf(3), leaf(3)
        b = a if k % 2 else b
        b = a.detach() if k == 4 else b
        f(a, b).backward()
        yield a.grad, b.grad


@case
def results_are_kept_over_steps(compile):
    model = mlp()
    f = compile(model)
    kept = []
    for _ in range(4):
        kept.append(f(torch.randn(2, 4)).sum())
    model.zero_grad()
    for k in (2, 0, 3, 1):
        kept[k].backward()
        yield grads_of(model)
        yield attempt(kept[k].backward)
