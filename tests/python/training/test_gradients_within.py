"""torch.autograd.grad within a compiled function: part of the graph, with the values and gradients of eager."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import braze
from braze._load import C


def net(inputs=3, outputs=1):
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


def equation():
    """A residual of a differential equation, with second derivatives."""
    u_of = net(2)

    def loss(x):
        u = u_of(x)
        du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        d2u = torch.autograd.grad(du[:, 0].sum(), x, create_graph=True)[0]
        return ((du[:, 1] + u[:, 0] * du[:, 0] - 0.01 * d2u[:, 0]) ** 2).mean()

    return loss, lambda: [torch.randn(5, 2, requires_grad=True)], u_of


def penalty():
    """Of the norm of a critic's gradient, at points that the function makes."""
    critic = net()

    def loss(real, fake):
        share = torch.linspace(0, 1, 5)[:, None]
        between = (share * real + (1 - share) * fake).requires_grad_(True)
        score = critic(between)
        (slope,) = torch.autograd.grad(score, between, torch.ones_like(score), create_graph=True, retain_graph=True)
        return score.mean() + ((slope.norm(2, dim=1) - 1) ** 2).mean()

    return loss, lambda: [torch.randn(5, 3), torch.randn(5, 3)], critic


def penalty_by_position():
    """As programs spell it that know all parameters of torch.autograd.grad."""
    critic = net()

    def loss(real, fake):
        between, aside = (real + fake).requires_grad_(True), real * 2
        score = critic(between)
        ones = torch.ones_like(score)
        named = torch.autograd.grad(
            outputs=score, inputs=between, grad_outputs=ones, create_graph=True, retain_graph=True, only_inputs=True
        )[0]
        one, two = torch.autograd.grad(score, [between, aside], ones, True, True, True, True)
        return ((named.view(named.size(0), -1).norm(2, dim=1) - 1) ** 2).mean() + one.square().sum() + (two is None)

    return loss, lambda: [torch.randn(5, 3, requires_grad=True), torch.randn(5, 3)], critic


def forces():
    """Of an energy, which is trained by both."""
    energy_of = net()

    def loss(positions):
        positions = positions.detach().requires_grad_(True)
        energy = energy_of(positions.sin()).sum()
        force = -torch.autograd.grad(energy, positions, create_graph=True)[0]
        return energy + (force * 3).sigmoid().sum()

    return loss, lambda: [torch.randn(5, 3)], energy_of


def forces_alone():
    energy_of = net()

    def forward(positions):
        positions = positions.detach().requires_grad_(True)
        energy = energy_of(positions.sin()).sum()
        return energy.detach() * 2, -torch.autograd.grad([energy], [positions])[0]

    return forward, lambda: [torch.randn(5, 3)], energy_of


def adaptation():
    """Steps of gradient descent within the loss."""
    start = nn.Linear(3, 3, bias=False)

    def loss(x, y, x2, y2):
        weight = start.weight
        for _ in range(2):
            (slope,) = torch.autograd.grad((torch.tanh(x @ weight) - y).pow(2).mean(), weight, create_graph=True)
            weight = weight - 0.1 * slope
        return (torch.tanh(x2 @ weight) - y2).pow(2).mean()

    return loss, lambda: [torch.randn(4, 3) for _ in range(4)], start


def sampling():
    """Steps against an energy's gradient, none of which is differentiated."""
    energy_of = net()

    def forward(x):
        x = x.clone().requires_grad_(True)
        for _ in range(3):
            (slope,) = torch.autograd.grad(energy_of(x).sum(), x)
            x = (x - 0.1 * slope).detach().requires_grad_(True)
        return energy_of(x.detach()).sum()

    return forward, lambda: [torch.randn(5, 3)], energy_of


def attack():
    """Of examples, on which the network is trained then."""
    scores = net(3, 4)

    def loss(x):
        worse = x.detach() + 0.01
        for _ in range(2):
            worse.requires_grad_()
            with torch.enable_grad():
                failure = scores(worse).logsumexp(1).sum()
            slope = torch.autograd.grad(failure, [worse])[0]
            worse = worse.detach() + 0.1 * torch.sign(slope.detach())
            worse = torch.min(torch.max(worse, x - 0.3), x + 0.3)
        return functional.cross_entropy(scores(worse), torch.tensor([0, 1, 2, 3, 0]))

    return loss, lambda: [torch.randn(5, 3)], scores


def norm_of_gradients():
    layers = net()

    def forward(x):
        slopes = torch.autograd.grad(layers(x).pow(2).mean(), list(layers.parameters()))
        return sum((one * one).sum() for one in slopes).sqrt()

    return forward, lambda: [torch.randn(5, 3)], layers


def penalised_gradients():
    layers = net()

    def loss(x):
        value = layers(x).pow(2).mean()
        slopes = torch.autograd.grad(value, list(layers.parameters()), create_graph=True)
        return value + sum((one * one).sum() for one in slopes)

    return loss, lambda: [torch.randn(5, 3)], layers


def rows_of_jacobian():
    def forward(x):
        y = (x * x).sin()
        return torch.stack([torch.autograd.grad(y[i], x, retain_graph=True)[0] for i in range(3)])

    return forward, lambda: [torch.randn(3, requires_grad=True)], nn.Identity()


def unused():
    def forward(x, w):
        y = (x * 2).sin().sum()
        one = torch.autograd.grad(y, [x, w], allow_unused=True, retain_graph=True)
        two = torch.autograd.grad(y, [x, w], allow_unused=True, materialize_grads=True)
        return one[0] * 2, one[1] is None, two[1] + 1

    return forward, lambda: [torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)], nn.Identity()


def without_gradients():
    energy_of = net()

    def forward(x):
        with torch.enable_grad():
            inner = x.detach().clone().requires_grad_(True)
            (slope,) = torch.autograd.grad(energy_of(inner).sum(), inner)
        return x - 0.1 * slope

    return torch.no_grad()(forward), lambda: [torch.randn(4, 3)], energy_of


def differentiated_again():
    """What the caller differentiates twice comes of leaves that the function makes."""
    layers = net()

    def loss(x):
        leaf = (x.sin() * 2).detach().requires_grad_()
        (slope,) = torch.autograd.grad(layers(leaf).sum(), leaf, create_graph=True)
        return (slope**2).sum() * x.sum() + layers(x).pow(2).mean()

    return loss, lambda: [torch.randn(4, 3, requires_grad=True)], layers


def layers_of(*layers):
    def make():
        module = nn.Sequential(*[layer() for layer in layers])

        def loss(x):
            x = x.detach().requires_grad_()
            y = module(x)
            (slope,) = torch.autograd.grad(y.sin().sum(), x, create_graph=True)
            return y.mean() + slope.pow(2).sum()

        return loss, lambda: [torch.randn(2, 4, 6)], module

    return make


PROGRAMS = {
    program.__name__: program
    for program in (
        equation,
        penalty,
        penalty_by_position,
        forces,
        forces_alone,
        adaptation,
        sampling,
        attack,
        norm_of_gradients,
        penalised_gradients,
        rows_of_jacobian,
        unused,
        without_gradients,
    )
} | {
    "softmax": layers_of(lambda: nn.Softmax(-1)),
    "layer norm": layers_of(lambda: nn.LayerNorm(6), lambda: nn.SiLU()),
    "convolution": layers_of(lambda: nn.Conv1d(4, 3, 3), lambda: nn.GELU()),
    "maxima": layers_of(lambda: nn.Linear(6, 6), lambda: nn.MaxPool1d(2)),
    "averages": layers_of(lambda: nn.Softplus(), lambda: nn.AvgPool1d(2)),
    "batch norm": layers_of(lambda: nn.BatchNorm1d(4), lambda: nn.ELU()),
}


def twice(program, compiled):
    torch.manual_seed(1)
    function, arguments, module = program()
    quick = C.CompiledFunction(function) if compiled else function
    seen = []
    for _ in range(3):
        given = arguments()
        leaves = [*[one for one in given if one.requires_grad and one.is_leaf], *module.parameters()]
        first = torch.autograd.grad(quick(*given), leaves, create_graph=True, allow_unused=True)
        total = sum((one * one).sum() for one in first if one is not None)
        seen.append([first, torch.autograd.grad(total, leaves, allow_unused=True)])
    return seen, quick


@pytest.mark.parametrize("program", [equation, penalty, forces, penalised_gradients, attack, differentiated_again])
def test_second_derivatives(program):
    expected, _ = twice(program, compiled=False)
    seen, quick = twice(program, compiled=True)
    torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-5)
    assert quick.counts() == {"captured": 1, "replayed": 2, "native": 0}


def leaf_beside_its_elements():
    """The same elements are read with another history than the leaf's: no tape can tell that."""
    layers = net()

    def loss(x):
        leaf = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(layers(leaf).sum(), leaf, create_graph=True)
        return (slope**2).sum() + layers(x).pow(2).mean()

    return loss, lambda: [torch.randn(4, 3, requires_grad=True)], layers


def test_second_derivatives_without_a_tape():
    expected, _ = twice(leaf_beside_its_elements, compiled=False)
    seen, _ = twice(leaf_beside_its_elements, compiled=True)
    torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-5)


def trained(program, compiled):
    torch.manual_seed(1)
    function, arguments, module = program()
    quick = C.CompiledFunction(function) if compiled else function
    seen = []
    for _ in range(3):
        module.zero_grad()
        given = arguments()
        leaves = [*given, *module.parameters()]
        results = quick(*given)
        loss = results if isinstance(results, torch.Tensor) else results[0]
        if loss.requires_grad:
            loss.sum().backward()
        seen.append([results, [one.grad for one in leaves], [one.requires_grad for one in given]])
    return seen, quick


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager(name):
    expected, _ = trained(PROGRAMS[name], compiled=False)
    seen, quick = trained(PROGRAMS[name], compiled=True)
    torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-5)
    assert quick.reasons() == {}
    assert quick.counts() == {"captured": 1, "replayed": 2, "native": 0}
    assert quick.report()["first_break"] is None


def attempts(function, *argument_lists):
    """What eager and compiled calls give, or raise, and what they leave behind."""
    for quick in (function, C.CompiledFunction(function)):
        seen, errors = [], []
        for make in argument_lists:
            torch.manual_seed(2)
            given = make()
            try:
                result = quick(*given)
                if isinstance(result, torch.Tensor) and result.requires_grad:
                    result.sum().backward()
            except RuntimeError as error:
                result = None
                errors.append(str(error)[:60])
            seen.append([result, [one.grad for one in given if isinstance(one, torch.Tensor)]])
        yield seen, errors


def leaf(*sizes):
    return torch.randn(*sizes, requires_grad=True)


def graph_is_spent(x):
    y = x.exp().sum()
    (slope,) = torch.autograd.grad(y, x)
    return y + slope.sum()


def spent_within(x):
    y = x.exp().sum()
    (slope,) = torch.autograd.grad(y, x)
    try:
        torch.autograd.grad(y, x)
    except RuntimeError:
        return slope + 1
    return slope


def written_between(x):
    y = x.exp()
    total = (y * y).sum()
    y.mul_(2)
    return torch.autograd.grad(total, x)[0] + 1


def not_used(x):
    return torch.autograd.grad((x.detach() * 2).sum(), x)[0]


def behind_another(x):
    h = x.sin()
    (slope,) = torch.autograd.grad((h * h).sum(), x, create_graph=True)
    return (slope * slope).sum()


def leaf_that_is_returned(x):
    z = (x.detach() * 2).requires_grad_()
    (z * z).sum().backward()
    return z.grad + z.detach()


def same_objects(x):
    y = x * 2
    ones = torch.ones_like(y)
    a, b = torch.autograd.grad((x * x).sum(), [x, x])
    (c,) = torch.autograd.grad(y, y, ones)
    return a, b, a is b, c is ones, a._version, a.requires_grad


def some_of_the_graph(x):
    y = x * 2
    z = y.sin()
    a, b, c = torch.autograd.grad((z * y).sum(), [z, y, x], create_graph=True)
    return (a * b).sum() + c.sum()


@pytest.mark.parametrize(
    "function",
    [
        graph_is_spent,
        spent_within,
        written_between,
        not_used,
        behind_another,
        leaf_that_is_returned,
        same_objects,
        some_of_the_graph,
    ],
)
def test_edges(function):
    (expected, errors), (seen, raised) = attempts(
        function, *[lambda: [leaf(3)]] * 3, lambda: [leaf(5)], lambda: [leaf(4)]
    )
    torch.testing.assert_close(seen, expected)
    assert raised == errors


def test_ways_outside():
    """What the function is given leads to the input by a history that it does not see."""

    def slope_of(x, h):
        return torch.autograd.grad((h * h).sum(), x, retain_graph=True)[0] * 2

    def given():
        x = leaf(3)
        return [x, x.sin()]

    (expected, errors), (seen, raised) = attempts(slope_of, *[given] * 3)
    torch.testing.assert_close(seen, expected)
    assert raised == errors


def test_what_was_computed_before():
    """It may keep its gradient, and then keeps this one as well."""
    layers = net()

    def loss(h):
        y = layers(h.tanh()).sum()
        (slope,) = torch.autograd.grad(y, h, create_graph=True)
        return y + (slope * slope).sum()

    def given(keeps):
        h = leaf(2, 3) * 2
        if keeps:
            h.retain_grad()
        return [h]

    (expected, errors), (seen, raised) = attempts(loss, *[lambda: given(False)] * 3, lambda: given(True))
    torch.testing.assert_close(seen, expected)
    assert raised == errors


def test_hooks_are_called():
    """On a tensor whose gradient is asked for: from the third call on."""
    layers = net()

    def loss(x):
        (slope,) = torch.autograd.grad(layers(x).sum(), x, create_graph=True)
        return slope.pow(2).mean()

    def given(hooked):
        x = leaf(2, 3)
        if hooked:
            x.register_hook(lambda g: g * 2)
        return [x]

    (expected, errors), (seen, raised) = attempts(
        loss, *[lambda: given(False)] * 2, *[lambda: given(True)] * 3, lambda: given(False)
    )
    torch.testing.assert_close(seen, expected)
    assert raised == errors


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, tangent):
        return 2 * ctx.saved_tensors[0] * tangent


def test_functions_of_the_users_own():
    def loss(x):
        (slope,) = torch.autograd.grad(Square.apply(x.sin()).sum(), x, create_graph=True)
        return slope.pow(2).sum()

    (expected, errors), (seen, raised) = attempts(loss, *[lambda: [leaf(3)]] * 3)
    torch.testing.assert_close(seen, expected)
    assert raised == errors


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backends_that_run_eagers_operators(backend):
    layers = net()

    def loss(x):
        z = (x * 2).detach().requires_grad_()
        (slope,) = torch.autograd.grad(layers(z).sum(), z, create_graph=True)
        return slope.pow(2).sum() + layers(x).mean()

    quick = braze.compile(loss, backend=backend)
    for _ in range(3):
        x = leaf(2, 3)
        wanted = [x, *layers.parameters()]
        seen = torch.autograd.grad(quick(x), wanted, allow_unused=True)
        torch.testing.assert_close(seen, torch.autograd.grad(loss(x), wanted, allow_unused=True))


@pytest.mark.parametrize("keeps", [False, True])
def test_hooks_where_sizes_vary(keeps):
    """Where sizes vary a tracer stands for what the function is given: hooks and kept gradients are not its own."""
    layers = net()

    def loss(x):
        (slope,) = torch.autograd.grad(layers(x).sum(), x, create_graph=True)
        return slope.pow(2).mean()

    def given(rows, hooked):
        x = leaf(rows, 3) * 2 if keeps else leaf(rows, 3)
        if hooked and keeps:
            x.retain_grad()
        elif hooked:
            x.register_hook(lambda g: g * 2)
        return [x]

    calls = [(2, False), (3, False), (4, False), (5, True), (6, True), (7, False)]
    results = attempts(loss, *[lambda one=one: given(*one) for one in calls])
    (expected, errors), (seen, raised) = results
    torch.testing.assert_close(seen, expected)
    assert raised == errors
