"""Tensors that hold others, and whose class carries out operators: made, given, bound, returned."""

import copy
from concurrent.futures import ThreadPoolExecutor

import compiling
import pytest
import torch
import wrapper_classes as classes
from torch import nn
from torch.nn import functional
from torch.testing._internal.two_tensor import TwoTensor
from wrapper_classes import Chosen, Noted, Pair, Quantized, Scaled

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


def fresh(number=0, *shape):
    count = torch.Size(shape or (3, 4)).numel()
    return ((torch.arange(float(count)) * (number + 1)) % 7 - 3).reshape(shape or (3, 4)) / 4


def quantized(number=0):
    whole = (torch.arange(20) * (number + 3) % 11 - 5).to(torch.int8).reshape(5, 4)
    return Quantized(whole, torch.full((5, 1), 0.25 * (number + 1)))


def pair(number=0):
    return Pair(fresh(number), fresh(number + 1))


def seen(value):
    if isinstance(value, torch.Tensor):
        own = {name: seen(one) for name, one in vars(value).items()}
        is_plain = type(value) in (torch.Tensor, nn.Parameter)
        elements = value.detach().float().round(decimals=4).tolist() if is_plain else value.stride()
        version = None if value.is_inference() else value._version
        return type(value), elements, tuple(value.shape), value.dtype, value.requires_grad, version, own
    if isinstance(value, (list, tuple)):
        return [seen(one) for one in value]
    return {key: seen(one) for key, one in value.items()} if isinstance(value, dict) else value


def in_one_graph(function, arguments):
    compiling.in_one_graph(function, arguments, seen)


@pytest.fixture(autouse=True, scope="module")
def loaded():
    with torch.no_grad():
        for one in (pair(), quantized(), Scaled(fresh(), 2.0), Noted(fresh())):
            compiled = C.CompiledFunction(lambda x: x * 2)
            for _ in range(2):
                compiled(one)
    Noted.seen.clear()


MADE = {
    "pair": lambda x: ((Pair(x, x + 1) * 2 + 1).relu().a, Pair(x, x).b),
    "of_two": lambda x: (Pair(x, x + 1) @ Pair(x, x * 2).t()).b,
    "list": lambda x: torch.cat([Pair(x, x + 1), Pair(x * 2, x)]).a,
    "several": lambda x: [(one.a, one.b) for one in Pair(x, x + 1).chunk(2, 1)],
    "pair_of_results": lambda x: [one.b for one in Pair(x, -x).max(1)],
    "softmax": lambda x: functional.softmax(Pair(x, x + 1), dim=-1).b,
    "norm": lambda x: functional.layer_norm(Pair(x, x * 3), (4,)).b,
    "scaled": lambda x: (Scaled(x, 2.0) * 3) + x,
    "folded": lambda x: ((Scaled(x, 2.0) * 3).by, Scaled(x, 2.0) @ x.t()),
    "within_another": lambda x: (Pair(Pair(x, x + 1), Pair(x + 2, x)) + x).b.a,
    "metadata": lambda x: (Pair(x, x).shape, Pair(x, x).dtype, Pair(x, x).ndim, Pair(x, x).size(1), x + 1),
    "isinstance": lambda x: x * 2 if isinstance(Pair(x, x) + 1, Pair) else x,
    "in_a_list": lambda x: [one.a * 2 for one in [Pair(x, x), Pair(x + 1, x)]],
    "made_of_data": lambda x: Pair(x, torch.tensor([[1.0, 2, 3, 4]] * 3)).b + x,
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("grad", [False, True])
def test_made(name, grad):
    with torch.set_grad_enabled(grad):
        in_one_graph(MADE[name], lambda number: (fresh(number),))


GIVEN = {
    "pair": (lambda p: (p * 2 + 1).a, lambda number: (pair(number),)),
    "beside_a_plain_one": (lambda p, x: (p * x).b - x, lambda number: (pair(number), fresh(number))),
    "attribute": (lambda p: p.a + p.b, lambda number: (pair(number),)),
    "weight": (lambda x, w: functional.linear(x, w), lambda number: (fresh(number), quantized(number))),
    "weight_and_bias": (
        lambda x, w, b: functional.linear(x, w, b),
        lambda number: (fresh(number), quantized(number), fresh(number, 5)),
    ),
    "product": (lambda x, w: x @ w.t(), lambda number: (fresh(number), quantized(number))),
    "embedding": (
        lambda i, w: functional.embedding(i, w),
        lambda number: (torch.tensor([0, 3]), quantized(number)),
    ),
    "number": (lambda s, x: s * 2 + x, lambda number: (Scaled(fresh(number), 0.5), fresh(number))),
    "in_a_dict": (lambda d: d["w"] @ d["x"].t(), lambda number: ({"w": quantized(number), "x": fresh(number)},)),
    "two": (lambda p, q: (p + q).a, lambda number: (pair(number), pair(number + 2))),
    "the_same_twice": (lambda p: (p + p).a, lambda number: (pair(number),)),
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("grad", [False, True])
def test_given(name, grad):
    function, given = GIVEN[name]
    with torch.set_grad_enabled(grad):
        in_one_graph(function, given)


RETURNED = {
    "made": (lambda x: Pair(x + 1, x * 2), lambda number: (fresh(number),)),
    "of_an_operator": (lambda p: p * 2, lambda number: (pair(number),)),
    "of_given_parts": (lambda x, y: Pair(x, y), lambda number: (fresh(number), fresh(number + 1))),
    "as_given": (lambda p: (p, p.a + 1), lambda number: (pair(number),)),
    "several": (lambda p: {"one": p + 1, "other": [p * 2, p.a * 3]}, lambda number: (pair(number),)),
    "twice": (lambda p: (lambda one: (one, one))(p * 2), lambda number: (pair(number),)),
    "with_a_number": (lambda s: s * 3, lambda number: (Scaled(fresh(number), 0.5),)),
    "with_more": (
        lambda x: [setattr(one, "tag", "t") or one for one in [Pair(x, x * 2)]][0],
        lambda n: (fresh(n),),
    ),
}


@pytest.mark.parametrize("name", RETURNED)
def test_returned(name):
    function, given = RETURNED[name]
    in_one_graph(function, given)
    compiled = braze.compile(function)
    results = [compiled(*given(0)) for _ in range(3)]
    for result in results:
        assert seen(result) == seen(function(*given(0)))


def two(number=0, *shape):
    return TwoTensor(fresh(number, *shape), fresh(number + 1, *shape))


OF_TWO = {
    "made": (lambda x: (TwoTensor(x, x + 1) * 2).relu().a, lambda number: (fresh(number),)),
    "of_a_part": (lambda x: TwoTensor(x[:2], x[:2] * 2) + 1, lambda number: (fresh(number),)),
    "given": (lambda t: t * 2 + 1, lambda number: (two(number),)),
    "product": (lambda t: (t @ t.t()).a, lambda number: (two(number),)),
    "norm": (lambda t: functional.layer_norm(t, (4,)).b, lambda number: (two(number),)),
    "joined": (lambda t: torch.cat([t, t]).b, lambda number: (two(number),)),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_two_tensors(name):
    """The class that PyTorch's own tests use."""
    function, given = OF_TWO[name]
    compiled = C.CompiledFunction(function)
    for number in range(5):
        assert seen(compiled(*given(number))) == seen(function(*given(number)))
    if name != "of_a_part":  # A part of an argument lies where the argument does.
        assert compiled.counts()["native"] <= 1, compiled.reasons()


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_offsets(dynamic):
    def f(x):
        return x.storage_offset(), (x + 1)[1:].storage_offset(), x[1:].storage_offset(), x * 2

    def g(x):
        return x.storage_offset(), (x + 1)[1:].storage_offset(), x * 2

    for function in (f, g):
        compiled = braze.compile(function, dynamic=dynamic)
        for first in (0, 0, 1, 2, 0, 3):
            x = fresh(first, 6, 4)[first : first + 2]
            assert seen(compiled(x)) == seen(function(x))


def test_the_offset_of_other_data():
    def f(x, y):
        x.data = y
        return x.storage_offset(), x + 1

    compiled = braze.compile(f)
    for first in (0, 1, 1, 2):
        assert seen(compiled(fresh(), fresh(0, 6, 4)[first : first + 3])) == seen(
            f(fresh(), fresh(0, 6, 4)[first : first + 3])
        )


def test_weights_under_batches_of_any_size():
    net = quantized_net()
    compiled = braze.compile(net)
    with torch.no_grad():
        for rows in (3, 4, 5, 6, 7, 8):
            torch.testing.assert_close(compiled(fresh(0, rows, 4)), net(fresh(0, rows, 4)))
    assert compiled.counts()["native"] == 0, compiled.reasons()


def test_numbers_that_vary_are_numbers_to_a_class():
    def f(x, by):
        return (Noted(x) * by).view(-1, x.shape[0]).inner

    compiled = braze.compile(f)
    for number in range(6):
        noted = []
        for function in (compiled, f):
            Noted.seen.clear()
            noted.append((seen(function(fresh(number, number + 1, 4), 1.5 + number)), list(Noted.seen)))
        assert noted[0] == noted[1]


def test_a_result_is_another_one_in_each_call():
    compiled = braze.compile(lambda p: p * 2)
    one, other = compiled(pair()), compiled(pair(1))
    assert one is not other and one.a is not other.a
    assert seen(one) == seen(pair() * 2)
    assert seen(compiled(one)) == seen(pair() * 4)


def quantized_net():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).requires_grad_(False)
    net[0].weight = nn.Parameter(quantized(), requires_grad=False)
    return net


@pytest.mark.parametrize("grad", [False, True])
def test_weights_of_layers(grad):
    net = quantized_net()
    with torch.set_grad_enabled(grad):
        in_one_graph(net, lambda number: (fresh(number),))


def test_weights_that_are_replaced():
    net = quantized_net()
    compiled = braze.compile(net)
    for number in (0, 0, 1, 1, 2):
        if number:
            net[0].weight = nn.Parameter(quantized(number), requires_grad=False)
        torch.testing.assert_close(compiled(fresh()), net(fresh()))
    net[0].weight.scale = torch.full((5, 1), 3.0)
    torch.testing.assert_close(compiled(fresh()), net(fresh()))
    net[0].weight.whole.mul_(2)
    torch.testing.assert_close(compiled(fresh()), net(fresh()))
    net[0].weight = nn.Parameter(torch.ones(5, 4))
    torch.testing.assert_close(compiled(fresh()), net(fresh()))


def test_two_modules_of_one_class():
    for number in range(3):
        net = quantized_net()
        net[0].weight = nn.Parameter(quantized(number), requires_grad=False)
        compiled = braze.compile(net)
        for _ in range(2):
            torch.testing.assert_close(compiled(fresh()), net(fresh()))


CHANGES = {
    "number": lambda s: setattr(s, "by", s.by + 1),
    "part": lambda s: setattr(s, "inner", s.inner + 1),
    "dtype_of_a_part": lambda s: setattr(s, "inner", s.inner.double()),
    "size_of_a_part": lambda s: setattr(s, "inner", s.inner[:1]),
    "layout_of_a_part": lambda s: setattr(s, "inner", s.inner.t().contiguous().t()),
    "class_of_a_part": lambda s: setattr(s, "inner", Scaled(s.inner, 2.0)),
    "elements": lambda s: s.inner.mul_(2),
    "more": lambda s: setattr(s, "other", 1),
    "fewer": lambda s: delattr(s, "by") or setattr(s, "by", 4.0),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("dynamic", [None, True])
def test_what_it_holds_is_guarded(change, dynamic):
    def f(s, x):
        return s + x, s.by

    compiled = braze.compile(f, dynamic=dynamic)
    scaled = Scaled(fresh(), 2.0)
    for number in range(6):
        if number % 2:
            CHANGES[change](scaled)
        assert seen(compiled(scaled, fresh(number))) == seen(f(scaled, fresh(number)))


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_other_sizes(dynamic):
    def f(p, x):
        return p * x + 1, (p @ x.t()).a.sum()

    compiled = braze.compile(f, dynamic=dynamic)
    for rows in (3, 3, 4, 5, 3, 4, 6, 2):
        given = Pair(fresh(1, rows, 4), fresh(2, rows, 4)), fresh(0, rows, 4)
        assert seen(compiled(*given)) == seen(f(*given))


def test_other_classes():
    def f(x, y):
        return x * 2 + y

    compiled = braze.compile(f)
    for make in (fresh, pair, lambda: Scaled(fresh(), 3.0), fresh, pair, lambda: Noted(fresh()), pair):
        assert seen(compiled(make(), fresh())) == seen(f(make(), fresh()))


def test_two_that_become_one():
    def f(p, q):
        p.tag = 1
        q.tag = 2
        return (p + q).a, p.tag

    compiled = braze.compile(f)
    for same in (False, False, True, False, True):
        one = pair()
        assert seen(compiled(one, one if same else pair(1))) == seen(f(one, one if same else pair(1)))


def test_parts_that_share_memory():
    def f(p):
        p.a.add_(1)
        return p.b * 2, p.a

    compiled = braze.compile(f)
    for number in range(5):
        ours, theirs = fresh(), fresh()
        pairs = [Pair(x, x[:] if number % 2 else x.clone()) for x in (ours, theirs)]
        assert seen(compiled(pairs[0])) == seen(f(pairs[1]))
        assert seen(ours) == seen(theirs)


def test_operators_that_a_class_notes():
    def f(x):
        return (Noted(x) * 2 + 1).sum(0, True).inner

    compiled = C.CompiledFunction(f)
    for number in range(4):
        Noted.seen.clear()
        one = compiled(fresh(number))
        ours = list(Noted.seen)
        Noted.seen.clear()
        assert seen(one) == seen(f(fresh(number)))
        assert ours == Noted.seen


@pytest.mark.parametrize("function", ["linear", "mul", "addcmul"])
def test_a_class_that_knows_a_tensor(function):
    """Composite operators are given tracers, and the class's code compares objects."""

    def f(x, y):
        one = Chosen(y)
        if function == "linear":
            return functional.linear(x, one)
        return one * x if function == "mul" else torch.addcmul(x, one, x)

    compiled = braze.compile(f)
    x, y = fresh(), fresh(1)
    for known in (None, None, x, x, None, fresh()):
        classes.Chosen.known = known
        assert seen(compiled(x, y)) == seen(f(x, y))
    classes.Chosen.known = None


def test_a_handler_that_is_replaced(monkeypatch):
    def f(p):
        return (p * 2).a

    compiled = braze.compile(f)
    for change in (False, False, True, True):
        if change:
            monkeypatch.setattr(
                Pair,
                "__torch_dispatch__",
                classmethod(lambda cls, func, types, args, kwargs=None: Pair(args[0].b, args[0].a)),
            )
        assert seen(compiled(pair())) == seen(f(pair()))


def test_a_handler_that_comes_on_the_object():
    def f(p):
        return p * 2

    compiled = braze.compile(f)
    for number in range(4):
        one = pair()
        if number > 1:
            one.__torch_dispatch__ = lambda func, types, args=(), kwargs=None: args[0].b
        assert seen(compiled(one)) == seen(f(one))


def test_a_rule_that_is_registered():
    class Ruled(Pair):
        pass

    def f(p):
        return torch.special.entr(p)

    def rule(mode, func, types, args, kwargs):
        return args[0].a

    compiled = braze.compile(f)
    for number in range(5):
        if number == 2:
            handle = torch._library.simple_registry.singleton.find(
                "aten::special_entr"
            ).torch_dispatch_rules.register(Ruled, rule)
        if number == 4:
            handle.destroy()
        given = Ruled(fresh().abs(), fresh(1).abs())
        assert seen(compiled(given)) == seen(f(given))


NATIVE = {
    "handled_within": lambda p: (Pair(Scaled(p.a, 2.0), Scaled(p.b, 3.0)) + p.a).b,
    "written": lambda p: p.add_(1),
    "written_part_of_the_function": lambda p: (p * 2).mul_(2),
    "view": lambda p: p[0],
    "transposed": lambda p: p.t(),
    "branch": lambda p: p * 2 if p.a.sum() > 0 else p,
    "number": lambda p: p.sum().a.item(),
    "moved": lambda p: p.transpose_(0, 1).a + 1,
    "data": lambda p: p.data.a + 1,
    "base": lambda p: (p.view(-1)._base is p, p.a + 1),
    "version": lambda p: (p._version, p.a + 1),
    "out": lambda p: torch.add(p, p, out=Pair(torch.zeros(3, 4), torch.zeros(3, 4))),
    "copied": lambda p: copy.copy(p) + 1,
    "deeply": lambda p: copy.deepcopy(p) + 1,
    "vmap": lambda p: torch.vmap(lambda row: row * 2)(p.a),
    "text": lambda p: (repr(p), p + 1),
    "stored": lambda p: p.__setitem__(0, 1.0) or p,
    "list": lambda p: p.a.tolist(),
}


@pytest.mark.parametrize("name", NATIVE)
def test_as_in_eager(name):
    # In a thread of its own: eager's transpose_() leaves a key in the thread's state.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(run_beside_eager, NATIVE[name]).result()


def run_beside_eager(function):
    compiled = braze.compile(function)
    for number in range(4):
        ours, theirs = pair(number), pair(number)
        try:
            expected = function(theirs)
        except Exception as error:
            with pytest.raises(type(error)):
                compiled(ours)
            continue
        assert seen(compiled(ours)) == seen(expected)
        assert seen(ours) == seen(theirs)
        assert ours._version == theirs._version


@pytest.mark.parametrize("name", ["pair", "weight", "weight_and_bias", "number", "two"])
def test_gradients(name):
    function, given = GIVEN[name]
    compiled = braze.compile(function)
    for number in range(3):
        results = []
        for f in (compiled, function):
            arguments = given(number)
            for one in arguments:
                if type(one) is torch.Tensor:
                    one.requires_grad_()
                elif isinstance(one, Pair):
                    one.a.requires_grad_()
            result = f(*arguments)
            if result.requires_grad:
                result.sum().backward()
            results.append([seen(result), [seen(one.grad) for one in arguments if type(one) is torch.Tensor]])
        assert results[0] == results[1]


def test_under_inference_mode():
    net = quantized_net()
    compiled = braze.compile(net)
    with torch.inference_mode():
        for number in range(3):
            one, other = compiled(fresh(number)), net(fresh(number))
            assert seen(one.clone()) == seen(other.clone()) and one.is_inference() == other.is_inference()
        made = braze.compile(lambda x: Pair(x, x) * 2)
        for number in range(3):
            assert made(fresh(number)).is_inference() == (Pair(fresh(), fresh()) * 2).is_inference()


def test_errors_leave_the_dispatcher_as_it_was():
    def f(p, x):
        return p @ x

    compiled = braze.compile(f)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            compiled(pair(), fresh())
    assert seen(compiled(pair(), fresh().t())) == seen(f(pair(), fresh().t()))
    x = fresh().requires_grad_()
    (x * 2).sum().backward()
    assert x.grad is not None
