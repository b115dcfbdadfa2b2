"""Programs that run graphs again, in parts and by their edges, and write to views, with the errors of eager."""
# ruff: noqa: B023  Functions are called before their loop goes on.

import torch
import torch.nn.functional as F
from program_cases import attempt, case, grads_of, leaf, mlp
from torch import nn
from torch.autograd import grad
from torch.autograd.graph import get_gradient_edge, register_multi_grad_hook
from torch.nn.modules.module import register_module_full_backward_hook

# ---- a second run


def a_second_run(*functions):
    """Whether eager's node has saved something, if only a number."""

    def program(compile):
        for function in functions:
            f = compile(function)
            for _ in range(2):
                x = leaf(3, 3)
                y = f(x)
                tangent = torch.ones_like(y)
                y.backward(tangent)
                yield attempt(y.backward, tangent), x.grad

    return program


SECOND_RUNS = {
    "numbers": (
        lambda x: x * 2.5,
        lambda x: x / 2,
        lambda x: x + 1,
        lambda x: torch.add(x, x, alpha=3),
        lambda x: -x,
    ),
    "sums": (
        lambda x: x.sum(),
        lambda x: x.mean(0),
        lambda x: x.norm(),
        lambda x: x.cumsum(0),
        lambda x: x.max(0)[0],
    ),
    "views": (
        lambda x: x.t(),
        lambda x: x[0],
        lambda x: x.expand(2, 3, 3),
        lambda x: x.diagonal(),
        lambda x: x.tril(),
    ),
    "several": (lambda x: torch.cat([x, x]), lambda x: torch.stack([x, x * 2]), lambda x: x.unbind(0)[0]),
    "elements": (
        lambda x: x.exp(),
        lambda x: x.pow(2),
        lambda x: x.clamp(0, 1),
        lambda x: torch.where(x > 0, x, 0.0),
    ),
    "layers": (lambda x: F.relu(x), lambda x: F.dropout(x, 0.5), lambda x: F.pad(x, (1, 1)), lambda x: x.double()),
}
for name, functions in SECOND_RUNS.items():
    program = a_second_run(*functions)
    program.__name__ = f"a_second_run_of_{name}"
    case(program)


@case
def a_second_run_of_some_results(compile):
    """Of three results, one whose node saves a number, one that saves nothing, and their common beginning."""
    f = compile(lambda x, w: (x * 2.5, w + 1, (x + w) * 3))
    for k in range(6):
        x, w = leaf(3), leaf(3)
        results = f(x, w)
        first, second = results[k % 3], results[(k + k // 3) % 3]
        first.sum().backward()
        yield attempt(second.sum().backward), x.grad, w.grad


@case
def runs_for_some_inputs(compile):
    model = mlp()
    f = compile(lambda x: model(x).square().mean())
    parameters = list(model.parameters())
    for k in range(8):
        loss = f(torch.randn(3, 4))
        loss.backward(inputs=[parameters[k % 4]], retain_graph=True)
        loss.backward(inputs=parameters[:2])
        yield grads_of(model), attempt(lambda: loss.backward(inputs=[parameters[3]]))


@case
def gradients_by_edges(compile):
    f = compile(lambda x: (x.exp(), x.sin()))
    for _ in range(3):
        x = leaf(3)
        a, b = f(x)
        yield grad(b.sum() * a.sum(), [get_gradient_edge(a), get_gradient_edge(x)])


# ---- hooks


@case
def backward_hooks_of_modules(compile):
    model, seen, handle = mlp(), [], None
    f = compile(model)
    for k in range(8):
        if k in (4, 6):
            handle.remove()
        if k == 2:
            handle = model[1].register_full_backward_hook(lambda m, i, o: (seen.append(i[0].sum()), (i[0] * 2,))[1])
        if k == 4:
            handle = model[0].register_full_backward_pre_hook(lambda m, o: (o[0] * 3,))
        if k == 6:
            handle = model.register_full_backward_hook(lambda m, i, o: seen.append(o[0].mean()))
        model.zero_grad()
        x = leaf(3, 4)
        f(x).square().sum().backward()
        yield grads_of(model), x.grad, [one.clone() for one in seen]


@case
def backward_hooks_of_all_modules(compile):
    model, seen = mlp(), []
    f = compile(model)
    for k in range(5):
        hook = lambda m, i, o: seen.append(type(m).__name__)  # noqa: E731
        handle = register_module_full_backward_hook(hook) if k % 2 else None
        model.zero_grad()
        f(leaf(3, 4)).square().sum().backward()
        if handle:
            handle.remove()
        yield grads_of(model), list(seen)


@case
def hooks_of_several_gradients(compile):
    model, seen, handle = mlp(), [], None
    f = compile(model)
    parameters = list(model.parameters())
    for k in range(5):
        if k == 1:
            handle = register_multi_grad_hook(parameters, lambda gs: seen.append([g.sum() for g in gs]))
        if k == 3:
            handle.remove()
            handle = register_multi_grad_hook(parameters, lambda g: seen.append(1), mode="any")
        model.zero_grad()
        f(torch.randn(3, 4)).square().sum().backward()
        yield grads_of(model), len(seen)


@case
def hooks_of_several_results(compile):
    f = compile(lambda x: (x.sin(), x.exp(), x * 2))
    for k in range(4):
        x, seen = leaf(3), []
        a, b, c = f(x)
        register_multi_grad_hook((a, b, c), lambda gs: seen.append([g is None for g in gs]))
        (a * b if k % 2 else a * b * c).sum().backward()
        yield x.grad, seen


# ---- where gradients go


@case
def gradients_lie_in_other_tensors(compile):
    model, buffer = mlp(), torch.zeros(6)
    f = compile(lambda x: model(x).square().mean())
    for k in range(4):
        model[0].bias.grad = buffer
        model[2].bias.grad = alias = model[2].bias.detach().clone()
        model[2].weight.grad = torch.zeros(6, 3).t() if k == 1 else None
        f(torch.randn(3, 4)).backward()
        yield grads_of(model), buffer.clone(), alias.clone()
        yield model[0].bias.grad is buffer, alias is model[2].bias.grad


@case
def parameters_change_their_data(compile):
    model = mlp()
    f = compile(model)
    for k in range(6):
        if k == 2:
            model[0].weight = nn.Parameter(torch.randn(6, 4))
        if k == 3:
            model[0].weight.data = torch.randn(6, 4)
        if k == 4:
            nn.utils.vector_to_parameters(torch.randn(51), model.parameters())
        if k == 5:
            model.to(torch.float64)
        model.zero_grad()
        f(torch.randn(3, 4, dtype=model[0].weight.dtype)).sum().backward()
        yield grads_of(model)


# ---- views


def kind(result):
    """Of an error without its text, where eager names the operator that has made the view."""
    return result[:2] if isinstance(result, tuple) else result


@case
def views_of_one_operator_are_written(compile):
    makes = (
        lambda x: x.split(2),
        lambda x: (x * 2).unbind(0),
        lambda x: (x * 2).chunk(2),
        lambda x: x.detach().split(2),
    )
    compiled = [compile(make) for make in makes]
    for _ in range(3):
        x, w = leaf(4), leaf(1)
        given = [compiled[0](x * 1), *(f(x) for f in compiled[1:])]
        for views in given:
            yield kind(attempt(lambda: views[0].add_(1))), kind(attempt(lambda: views[1].mul_(w[0])))
        yield attempt(lambda: (given[1][1] + given[2][1].sum()).sum().backward()), x.grad


@case
def views_without_a_history_are_written(compile):
    def g(x):
        h = x * 2
        with torch.no_grad():
            return h, h.view(-1), x[0]

    f = compile(g)
    for _ in range(3):
        x = leaf(2, 2)
        h, view, row = f(x)
        yield (
            view.requires_grad,
            view.grad_fn is None,
            attempt(lambda: view.mul_(2)),
            attempt(lambda: row.mul_(2)),
            h,
        )
        yield attempt(lambda: h.sum().backward()), x.grad


@case
def views_of_inputs_are_written(compile):
    f = compile(lambda x: (x.view(2, 2), x[1:], x.detach()[:2], x.data))
    for k in range(4):
        x = leaf(4)
        h = x * 1
        a, b, c, d = f(h)
        yield a.requires_grad, a.grad_fn is not None, a._base is h, c.requires_grad, d.requires_grad
        if k == 1:
            b.mul_(3)
        if k == 2:
            a[0].zero_()
        if k == 3:
            h.add_(a.view(4))
        (a.sum() + (b * b).sum()).backward()
        yield x.grad, h
        views = f(x)
        yield attempt(lambda: views[0].add_(1))
