"""Programs about hooks, what is frozen, parts of gradients, and what autograd is asked for."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import copy

import torch
import torch.nn.functional as F
from program_cases import attempt, case, grads_of, leaf, mlp
from torch.autograd import grad
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

# ---- hooks that come and go


@case
def hook_of_an_intermediate_within(compile):
    seen = []

    def g(x, w):
        h = x * w
        h.register_hook(lambda gradient: seen.append(gradient.sum()))
        return h.exp().sum()

    f = compile(g)
    for _ in range(3):
        w = leaf(4)
        f(torch.randn(3, 4), w).backward()
        yield w.grad, [s.clone() for s in seen]


@case
def hook_of_an_intermediate_that_scales(compile):
    def g(x, w):
        h = x * w
        h.register_hook(lambda gradient: gradient * 2)
        return h.exp().sum()

    f = compile(g)
    for _ in range(3):
        w = leaf(4)
        f(torch.randn(3, 4), w).backward()
        yield w.grad


@case
def hook_on_a_leaf_comes_and_goes(compile):
    f, w = compile(lambda x, w: (x * w).exp().sum()), leaf(4)
    handle = None
    for k in range(8):
        if k % 3 == 1:
            handle = w.register_hook(lambda gradient: gradient * 10)
        if k % 3 == 0 and handle:
            handle.remove()
        w.grad = None
        f(torch.randn(3, 4), w).backward()
        yield w.grad


@case
def hook_on_a_result(compile):
    f = compile(lambda x: (x * 2, x.exp()))
    for k in range(4):
        x = leaf(3)
        a, b = f(x)
        a.register_hook(lambda gradient: gradient * 3)
        if k % 2:
            b.register_hook(lambda gradient: gradient + 1)
        (a * b).sum().backward()
        yield x.grad


@case
def retained_gradient_within(compile):
    kept = []

    def g(x):
        h = x * 3
        h.retain_grad()
        kept.append(h)
        return h.exp().sum()

    f = compile(g)
    for _ in range(3):
        x = leaf(3)
        f(x).backward()
        yield x.grad, kept[-1].grad


@case
def retained_gradient_of_a_result(compile):
    f = compile(lambda x: (x * 3, x.sin()))
    for _ in range(3):
        x = leaf(3)
        a, b = f(x)
        a.retain_grad()
        (a * b).sum().backward()
        yield x.grad, a.grad


@case
def hook_after_accumulation_clears(compile):
    model = mlp()
    f, norms = compile(lambda x: model(x).square().sum()), []
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: norms.append(p.grad.norm()) or setattr(p, "grad", None))
    for n in (3, 3, 4):
        norms.clear()
        f(torch.randn(n, 4)).backward()
        yield [p.grad for p in model.parameters()], torch.stack(norms).sort().values  # In whatever order.


@case
def module_hooks_come_and_go(compile):
    model = mlp()
    f = compile(model)
    for k in range(7):
        handles = []
        if k in (2, 5):
            handles.append(model[0].register_forward_hook(lambda m, i, o: o * 2))
        if k in (3, 5):
            handles.append(model[1].register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,)))
        if k == 4:
            handles.append(model[2].register_full_backward_pre_hook(lambda m, go: (go[0] * 5,)))
        model.zero_grad()
        f(torch.randn(3, 4)).square().sum().backward()
        yield grads_of(model)
        for handle in handles:
            handle.remove()


@case
def gradients_are_clipped_by_hooks(compile):
    model = mlp()
    for p in model.parameters():
        p.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
    f = compile(lambda x: model(x).square().sum())
    for n in (3, 3, 4):
        model.zero_grad()
        f(torch.randn(n, 4)).backward()
        yield grads_of(model)


@case
def node_hooks_of_results(compile):
    f, seen = compile(lambda x: x.exp()), []
    for _ in range(3):
        x = leaf(3)
        y = f(x)
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(outputs)))
        y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 2,))
        y.sum().backward()
        yield x.grad, len(seen)


@case
def saved_tensors_are_packed(compile):
    f = compile(lambda x, w: (x @ w).tanh().sum())
    for _ in range(4):
        w, x = leaf(4, 2), torch.randn(3, 4)
        with saved_tensors_hooks(lambda t: t.double(), lambda t: t.float()):
            loss = f(x, w)
        loss.backward()
        yield w.grad


@case
def saved_tensors_are_forbidden(compile):
    f = compile(lambda x, w: (x @ w).tanh().sum())
    for k in range(4):
        w, x = leaf(4, 2), torch.randn(3, 4)
        if k % 2:
            with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
                loss = f(x, w)
        else:
            with save_on_cpu():
                loss = f(x, w)
        loss.backward()
        yield w.grad


# ---- what is frozen


@case
def layers_are_frozen_in_turn(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().sum())
    for k in range(8):
        for at in (0, 2):
            model[at].requires_grad_(k % 3 != at // 2)
        model.zero_grad()
        f(torch.randn(3, 4)).backward()
        yield grads_of(model)


@case
def everything_is_frozen(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().sum())
    for k in range(5):
        model.requires_grad_(k % 2 == 0)
        model.zero_grad()
        loss = f(torch.randn(3, 4))
        yield loss, loss.requires_grad, attempt(loss.backward), grads_of(model)


@case
def the_input_requires_grad_at_times(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().sum())
    for k in range(6):
        x = torch.randn(3, 4, requires_grad=k % 2 == 1)
        model.zero_grad()
        f(x).backward()
        yield grads_of(model), x.grad


@case
def frozen_within(compile):
    model = mlp()

    def g(x, freeze):
        model[0].weight.requires_grad_(not freeze)
        return model(x).square().sum()

    f = compile(g)
    for k in range(6):
        model.zero_grad()
        f(torch.randn(3, 4), k % 2 == 1).backward()
        yield grads_of(model), model[0].weight.requires_grad


@case
def a_result_stops_requiring_grad(compile):
    f = compile(lambda x: (x * 2).requires_grad_())
    for k in range(4):
        x = torch.randn(3, requires_grad=k % 2 == 1)
        y = f(x)
        yield y, y.is_leaf, y.requires_grad


@case
def requires_grad_of_an_intermediate(compile):
    def g(x):
        h = (x * 2).requires_grad_()
        return (h**3).sum(), h

    f = compile(g)
    for _ in range(4):
        x = torch.randn(3)
        loss, h = f(x)
        loss.backward()
        yield loss, h, h.grad, h.is_leaf


@case
def detached_and_made_a_leaf(compile):
    def g(x):
        h = (x * 2).detach().requires_grad_()
        return (h**3).sum(), h

    f = compile(g)
    for _ in range(3):
        loss, h = f(leaf(3))
        loss.backward()
        yield loss, h.grad


# ---- parts of gradients


@case
def gradients_of_some_parameters(compile):
    model = mlp()
    f, p = compile(lambda x: model(x).square().sum()), list(model.parameters())
    for k in range(5):
        wanted = [p[:1], p[2:], p, [p[3]], [p[0], p[2]]][k]
        yield grad(f(torch.randn(3, 4)), wanted), [q.grad for q in p]


@case
def gradients_of_inputs_alone(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().sum())
    for k in range(4):
        x = leaf(3, 4)
        yield grad(f(x), x, retain_graph=k % 2 == 1), grads_of(model)


@case
def gradients_that_are_unused(compile):
    f = compile(lambda x, y: (x * 2).sum())
    for _ in range(3):
        x, y = leaf(3), leaf(3)
        yield attempt(lambda: grad(f(x, y), [x, y])), grad(f(x, y), [x, y], allow_unused=True)
        yield grad(f(x, y), [x, y], allow_unused=True, materialize_grads=True)


@case
def gradients_with_weights(compile):
    f = compile(lambda x: torch.stack([x, x**2, x**3]))
    for _ in range(4):
        x = leaf(3)
        y = f(x)
        yield grad(y, x, torch.randn(3, 3), retain_graph=True)
        yield attempt(lambda: grad(y, x)), attempt(lambda: grad(y, x, torch.randn(2, 3)))
        y.backward(torch.ones(3, 3)[:, :1].expand(3, 3))
        yield x.grad


@case
def inputs_of_backward(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().sum())
    for k in range(4):
        model.zero_grad()
        x = leaf(3, 4)
        f(x).backward(inputs=[model[0].weight] if k % 2 else [x, model[2].bias])
        yield grads_of(model), x.grad


@case
def gradients_of_intermediates(compile):
    f, g = compile(lambda x: x.sin()), compile(lambda h: (h * h).sum())
    for _ in range(3):
        x = leaf(3)
        h = f(x)
        yield grad(g(h), [h, x])


@case
def graphs_are_kept(compile):
    model = mlp()
    f = compile(lambda x: model(x).tanh())
    for _ in range(3):
        y = f(torch.randn(3, 4))
        model.zero_grad()
        y.sum().backward(retain_graph=True)
        yield grads_of(model)
        y.square().sum().backward(retain_graph=True)
        yield grads_of(model)
        y.exp().sum().backward()
        yield grads_of(model), attempt(lambda: y.sum().backward())


@case
def one_of_many_losses(compile):
    model = mlp()

    def g(x):
        y = model(x)
        return {"square": y.square().mean(), "abs": y.abs().mean(), "rest": [y.max(), y.logsumexp(1).sum()]}

    f = compile(g)
    for k in range(5):
        model.zero_grad()
        found = f(torch.randn(3, 4))
        losses = [found["square"], found["abs"], *found["rest"]]
        (losses[k] if k < 4 else sum(losses)).backward()
        yield grads_of(model), found


@case
def a_loss_beside_logits(compile):
    model = mlp()

    def g(x, t):
        logits = model(x)
        return F.cross_entropy(logits, t), logits

    f = compile(g)
    for k in range(5):
        model.zero_grad()
        loss, logits = f(torch.randn(3, 4), torch.randint(3, (3,)))
        (loss if k < 3 else logits.sum() if k == 3 else loss + logits.mean()).backward()
        yield loss, logits, grads_of(model)


@case
def nothing_is_differentiated(compile):
    model = mlp()
    f = compile(lambda x: model(x).sum())
    for _ in range(3):
        loss = f(torch.randn(3, 4))
        del loss
    yield grads_of(model)


# ---- .grad


@case
def gradients_are_read_within(compile):
    w = leaf(4)

    def g(x):
        before = None if w.grad is None else w.grad.sum()
        return (w * x).sum(), before

    f = compile(g)
    for k in range(6):
        if k == 4:
            w.grad = None
        loss, before = f(torch.randn(4))
        loss.backward()
        yield w.grad, before


@case
def gradients_are_cleared_within(compile):
    model = mlp()

    def g(x, to_none):
        model.zero_grad(set_to_none=to_none)
        return model(x).square().sum()

    f = compile(g)
    for k in range(6):
        f(torch.randn(3, 4), k % 2 == 0).backward()
        yield grads_of(model)


@case
def gradients_are_scaled_within(compile):
    model = mlp()
    loss = compile(lambda x: model(x).square().sum())

    def scale(factor):
        for p in model.parameters():
            if p.grad is not None:
                p.grad.mul_(factor)

    scale = compile(scale)
    for k in range(5):
        if k == 3:
            model.zero_grad()
        loss(torch.randn(3, 4)).backward()
        scale(0.5 + k)
        yield grads_of(model), [p.grad._version for p in model.parameters()]


@case
def a_gradient_is_shared_by_two(compile):
    a, b = leaf(4), leaf(4)
    a.grad = b.grad = torch.zeros(4)
    f = compile(lambda x: (a * x).sum() + (b * x * x).sum())
    for _ in range(3):
        f(torch.randn(4)).backward()
        yield a.grad, b.grad, a.grad is b.grad


@case
def gradients_are_assigned_within(compile):
    w = leaf(4)

    def g(x):
        w.grad = x * 2
        return w.grad.sum()

    f = compile(g)
    for _ in range(4):
        yield f(torch.randn(4)), w.grad


@case
def gradients_are_those_of_a_view(compile):
    flat = torch.zeros(8)
    a, b = leaf(4), leaf(4)
    a.grad, b.grad = flat[:4], flat[4:]
    f = compile(lambda x: (a * x).sum() + (b * x * x).sum())
    for _ in range(3):
        f(torch.randn(4)).backward()
        yield flat.clone()
        flat.zero_()


@case
def gradients_accumulate_out_of_order(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().sum())
    for _ in range(3):
        model.zero_grad()
        losses = [f(torch.randn(n, 4)) for n in (2, 3, 4)]
        for loss in losses[::-1]:
            loss.backward()
        yield grads_of(model)


@case
def a_sum_of_losses_of_calls(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().sum())
    for k in range(3):
        model.zero_grad()
        sum([f(torch.randn(n, 4)) * w for n, w in ((2, 1), (3, 0.5), (2, k))]).backward()
        yield grads_of(model)


@case
def copies_of_models(compile):
    model = mlp()
    f = compile(lambda model, x: model(x).square().sum())
    for k in range(5):
        if k % 2:
            model = copy.deepcopy(model)
        model.zero_grad()
        f(model, torch.randn(3, 4)).backward()
        yield grads_of(model)
