"""Results that other results of the same call are computed from, and who looks at what comes to them by those:
forms of such functions, and ways to look. Each way runs on each form, with eager's outcome."""

import torch
import torch.nn.functional as F
from program_cases import attempt, leaf
from torch import nn

FORMS, WAYS = [], []


def form(function):
    """Makes a function of one tensor, whose results end with the loss, and its leaves beside that tensor."""
    FORMS.append(function)
    return function


def way(function):
    """Looks at the results, whose last is the loss. Yields what it finds."""
    WAYS.append(function)
    return function


# ---- forms


@form
def one_inner():
    w = leaf(4, 2)

    def f(x):
        h = (x * 2).tanh()
        return h, (h @ w).square().sum()

    return f, [w]


@form
def loss_first():
    """The loss is what comes first among the results."""
    w = leaf(4, 2)

    def f(x):
        h = x.exp()
        return (h @ w).square().mean(), h

    def reordered(x):
        loss, h = f.compiled(x)
        return h, loss

    f.around = reordered
    return f, [w]


@form
def chain():
    one, two = leaf(4, 4), leaf(4, 4)

    def f(x):
        a = (x @ one).tanh()
        b = (a @ two).sigmoid()
        return a, b, (b * b).sum()

    return f, [one, two]


@form
def around_it():
    """The loss is also computed from what the inner result is, beside it."""
    w = leaf(4)

    def f(x):
        y = x * w
        h = y.sin()
        return h, (h * y + x).sum()

    return f, [w]


@form
def diamond():
    w = leaf(4)

    def f(x):
        h = x.sin()
        a, b = h * w, (h + w).cos()
        return h, a, b, (a * b).sum()

    return f, [w]


@form
def passed_on():
    """What comes is the loss's own gradient."""
    w = leaf(4)

    def f(x):
        h = x * w
        return h, h + 1

    return f, [w]


@form
def sum_of_it():
    def f(x):
        h = x * 3
        return h, h.sum()

    return f, []


@form
def several_of_one_operator():
    """The loss comes by one of two results of an operator."""
    w = leaf(4)

    def f(x):
        a, b = (x * w).split(2, 1)
        return a.clone(), b.clone(), (b.square() * 3).sum()

    return f, [w]


@form
def of_one_operator():
    w = leaf(4)

    def f(x):
        values, places = (x * w).max(1)
        return values, places, (values * values).sum()

    return f, [w]


@form
def transposed_inside():
    w = leaf(4, 4)

    def f(x):
        h = (x @ w).relu()
        return h, (h.t() @ h).square().sum()

    return f, [w]


@form
def broadcast():
    w = leaf(4)

    def f(x):
        h = x.mean(0, keepdim=True) * w
        return h, (h * x).square().sum()

    return f, [w]


@form
def module():
    model = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 3))

    def f(x):
        h = model[:3](x)
        logits = model[3](h)
        return h, logits, F.cross_entropy(logits, torch.arange(x.shape[0]) % 3)

    return f, list(model.parameters())


@form
def not_differentiable_between():
    """Beside the way there is one that has no gradient."""
    w = leaf(4)

    def f(x):
        h = x * w
        mask = h > 0
        return h, mask, (h * mask + h.detach()).square().sum()

    return f, [w]


@form
def written_then_read():
    w = leaf(4)

    def f(x):
        h = x * w
        h.mul_(2)
        return h, (h.cos() * w).sum()

    return f, [w]


@form
def view_of_result():
    w = leaf(4, 4)

    def f(x):
        h = x @ w
        view = h.t()
        return h, view, (view.cos() * 2).sum()

    return f, [w]


@form
def view_alone():
    w = leaf(4, 6)

    def f(x):
        view = (x @ w)[:, 1:4]
        return view, view.square().sum()

    return f, [w]


@form
def view_passed_on():
    w = leaf(4)

    def f(x):
        y = x * w
        view = y.view(-1)
        return view, view + y.reshape(-1)

    return f, [w]


@form
def view_of_input():
    w = leaf(3)

    def f(x):
        view = x[:, :3]
        return view, (view * w).exp().sum() + x.sum()

    return f, [w]


@form
def two_losses():
    w = leaf(4)

    def f(x):
        h = x * w
        return h, h.square().mean(), (h.exp() * w).sum()

    return f, [w]


# ---- ways to look


def inner_of(results):
    return [one for one in results[:-1] if one.requires_grad]


@way
def retained(results, leaves):
    for one in inner_of(results):
        one.retain_grad()
    results[-1].sum().backward()
    yield [one.grad for one in inner_of(results)]


@way
def hooked(results, leaves):
    seen = []
    for k, one in enumerate(inner_of(results)):
        one.register_hook(lambda g, k=k: seen.append((k, g.clone())))
    results[-1].sum().backward()
    yield seen


@way
def replaced(results, leaves):
    for one in inner_of(results):
        one.register_hook(lambda g: g * 10)
    results[-1].sum().backward()


@way
def replaced_and_retained(results, leaves):
    for one in inner_of(results):
        one.retain_grad()
        one.register_hook(lambda g: g.clamp(-0.1, 0.1))
    results[-1].sum().backward()
    yield [one.grad for one in inner_of(results)]


@way
def asked_for(results, leaves):
    for one in inner_of(results):
        yield attempt(lambda one=one: torch.autograd.grad(results[-1].sum(), one, retain_graph=True))


@way
def asked_for_once(results, leaves):
    yield attempt(lambda: torch.autograd.grad(results[-1].sum(), inner_of(results)[0]))
    yield attempt(lambda: torch.autograd.grad(inner_of(results)[0].sum(), leaves[0]))


@way
def asked_for_together(results, leaves):
    yield attempt(lambda: torch.autograd.grad(results[-1].sum(), [*inner_of(results), *leaves], allow_unused=True))


@way
def asked_for_with_hooks(results, leaves):
    seen = []
    for one in inner_of(results):
        one.register_hook(lambda g: seen.append(g.clone()) or g * 2)
    yield attempt(
        lambda: torch.autograd.grad(results[-1].sum(), [*inner_of(results), leaves[0]], allow_unused=True)
    )
    yield seen


@way
def backward_to_it(results, leaves):
    results[-1].sum().backward(inputs=[inner_of(results)[0]])
    yield inner_of(results)[0].grad


@way
def backward_to_leaves(results, leaves):
    seen = []
    for one in inner_of(results):
        one.register_hook(lambda g: seen.append(g.clone()))
    results[-1].sum().backward(inputs=leaves[-1:])
    yield seen


@way
def before_the_node(results, leaves):
    seen = []
    for one in inner_of(results):
        one.grad_fn.register_prehook(lambda gs: seen.append(gs[0].clone()) or (gs[0] * 3,))
    results[-1].sum().backward()
    yield seen


@way
def behind_the_node(results, leaves):
    seen = []
    for one in inner_of(results):
        one.grad_fn.register_hook(lambda inputs, outputs: seen.append(outputs[0].clone()))
    results[-1].sum().backward()
    yield seen


@way
def with_its_own(results, leaves):
    """Of both, in one backward."""
    seen = []
    for one in inner_of(results):
        one.register_hook(lambda g: seen.append(g.clone()))
    sum(one.cos().sum() for one in (*inner_of(results), results[-1])).backward()
    yield seen


@way
def one_after_the_other(results, leaves):
    seen = []
    for one in inner_of(results):
        one.register_hook(lambda g: seen.append(g.clone()))
    results[-1].sum().backward(retain_graph=True)
    inner_of(results)[0].sum().backward(retain_graph=True)
    results[-1].sum().backward()
    yield seen
    yield attempt(lambda: inner_of(results)[0].sum().backward())


@way
def not_retained(results, leaves):
    inner_of(results)[0].retain_grad()
    results[-1].sum().backward()
    yield attempt(lambda: results[-1].sum().backward())
    yield inner_of(results)[0].grad


@way
def hooked_between(results, leaves):
    """The first backward with nobody looking."""
    seen = []
    results[-1].sum().backward(retain_graph=True)
    handle = inner_of(results)[-1].register_hook(lambda g: seen.append(g.clone()) or g * 2)
    results[-1].sum().backward(retain_graph=True)
    handle.remove()
    results[-1].sum().backward()
    yield seen


@way
def hook_that_raises(results, leaves):
    def fail(gradient):
        raise ValueError("not this one")

    inner_of(results)[0].register_hook(fail)
    yield attempt(lambda: results[-1].sum().backward(retain_graph=True))
    inner_of(results)[0]._backward_hooks.clear()
    for one in leaves:
        one.grad = None
    results[-1].sum().backward()


@way
def several_together(results, leaves):
    seen = []
    torch.autograd.graph.register_multi_grad_hook(
        inner_of(results), lambda gs: seen.append([g if g is None else g.clone() for g in gs])
    )
    results[-1].sum().backward()
    yield seen


@way
def of_all(results, leaves):
    inner_of(results)[0].retain_grad()
    torch.autograd.backward(
        [*inner_of(results), results[-1].sum()], [torch.ones_like(r) for r in inner_of(results)] + [None]
    )
    yield inner_of(results)[0].grad


@way
def batched(results, leaves):
    loss = results[-1]
    along = torch.stack([torch.ones_like(loss), 2 * torch.ones_like(loss)])
    yield attempt(
        lambda: torch.autograd.grad(
            loss, [*inner_of(results)[:1], leaves[0]], along, is_grads_batched=True, allow_unused=True
        )
    )


@way
def first_derivatives_with_a_history(results, leaves):
    found = torch.autograd.grad(
        results[-1].sum(), [inner_of(results)[0], leaves[0]], create_graph=True, allow_unused=True
    )
    yield [None if one is None else one.detach() for one in found]


@way
def goes_on_behind(results, leaves):
    """The results are used outside."""
    kept = inner_of(results)[0]
    kept.retain_grad()
    (results[-1].sum() * kept.detach().sum() + (kept * kept).sum()).backward()
    yield kept.grad


@way
def nobody_looks(results, leaves):
    results[-1].sum().backward()


def program(form, way):
    def run(compile):
        f, parameters = form()
        compiled = compile(f)
        f.compiled = compiled
        call = getattr(f, "around", compiled)
        for rows in (3, 3, 5, 3):
            x = leaf(rows, 4)
            leaves = [x, *parameters]
            for one in leaves:
                one.grad = None
            yield list(way(call(x), leaves) or [])
            yield [one.grad for one in leaves]

    run.__name__ = f"{form.__name__}-{way.__name__}"
    run.lies_as_eagers = form not in (sum_of_it, view_of_result, view_passed_on)
    return run


PROGRAMS = [program(one, look) for one in FORMS for look in WAYS]
