"""Backends: the recorded operators run by ATen, other people's compilers, and names."""

import operator
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import braze
from braze import _backends
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

X = torch.randn(4, 6)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


class Graphs:
    """A backend that keeps what it was given."""

    def __init__(self):
        self.modules = []
        self.examples = []
        self.calls = 0

    def __call__(self, gm, example_inputs):
        self.modules.append(gm)
        self.examples.append(example_inputs)

        def run(*inputs):
            self.calls += 1
            return gm.forward(*inputs)

        return run

    def targets(self):
        return [str(node.target) for node in self.modules[-1].graph.nodes if node.op == "call_function"]


def arithmetic(x):
    return torch.softmax(x * 2 + 1, -1) - x.mean(0, keepdim=True)


def views(x):
    y = x.t()[1:, :2]
    return y, y.reshape(-1), x.unsqueeze(0)


def several_results(x):
    values, indices = x.max(dim=1)
    first, *rest = x.chunk(3, dim=1)
    return values, indices, first + rest[1]


def writes_its_own(x):
    y = x.clone()
    y[0] = 7
    y.mul_(2)
    z = y[1:]
    z += 1
    return y, z


def writes_its_input(x):
    x.add_(1)
    return x * 2


def writes_a_view_of_its_input(x):
    x[:, 0] += 3
    return x.sum()


def constants(x):
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    weights[0] = 10
    return x * weights + torch.arange(6) + torch.zeros(6, dtype=torch.int64)


def kinds_of_arguments(x):
    y = F.pad(x, (1, 2), value=0.5).to(torch.float64)
    y = torch.cat([y, y], dim=0)[:, [0, 2]]
    return torch.where(y > 0, y, -1.0), torch.full((2,), True), y.to(memory_format=torch.contiguous_format)


def the_same_twice(x):
    y = x + 1
    return y, y.detach(), y


def only_its_argument(x):
    return x


def no_tensor(x):
    return 3


FUNCTIONS = [
    arithmetic,
    views,
    several_results,
    writes_its_own,
    writes_its_input,
    writes_a_view_of_its_input,
    constants,
    kinds_of_arguments,
    the_same_twice,
    only_its_argument,
    no_tensor,
]


def leaves(result):
    return list(result) if isinstance(result, tuple) else [result]


def check(compiled, function, replays=2):
    for _ in range(1 + replays):
        x = torch.randn(4, 6)
        ours, theirs = x.clone(), x.clone()
        got, expected = leaves(compiled(ours)), leaves(function(theirs))
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert type(one) is type(other)
            if not isinstance(one, torch.Tensor):
                assert one == other
                continue
            torch.testing.assert_close(one, other)
            assert one.stride() == other.stride()
            assert (one is ours) == (other is theirs)
            assert one._is_view() == other._is_view() or one.untyped_storage().data_ptr() != ours.data_ptr()
        for i in range(len(got)):
            for j in range(i):
                if not isinstance(got[i], torch.Tensor) or not isinstance(got[j], torch.Tensor):
                    continue
                assert (got[i] is got[j]) == (expected[i] is expected[j])
                shares = got[i].untyped_storage().data_ptr() == got[j].untyped_storage().data_ptr()
                assert shares == (
                    expected[i].untyped_storage().data_ptr() == expected[j].untyped_storage().data_ptr()
                )
        torch.testing.assert_close(ours, theirs)
        assert ours._version == theirs._version or function not in (arithmetic, views)
    assert compiled.counts() == {"captured": 1, "replayed": replays, "native": 0}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_eager(function, backend):
    check(braze.compile(function, backend=backend), function)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_torch_fx(function):
    graphs = Graphs()
    compiled = braze.compile(function, backend=graphs)
    check(compiled, function)
    if graphs.modules:
        graphs.modules[-1].graph.lint()
        assert graphs.calls >= 2


def test_no_code_is_generated_for_eager():
    compiled = braze.compile(arithmetic, backend="eager")
    compiled(X)
    steps = compiled.steps()[0]
    assert {step.kind for step in steps} == {"call"}
    assert [step.name for step in steps] == [
        "aten::mul",
        "aten::add",
        "aten::_softmax",
        "aten::mean",
        "aten::sub",
    ]


def test_versions_are_counted_as_in_eager():
    compiled = braze.compile(writes_its_input, backend="eager")
    compiled(X.clone())
    ours, theirs = X.clone(), X.clone()
    before = ours._version
    compiled(ours)
    writes_its_input(theirs)
    assert ours._version - before == theirs._version


def test_random_numbers_are_eagers():
    def draws(x):
        return F.dropout(x, 0.5) + torch.rand(6) + torch.randn_like(x)

    compiled = braze.compile(draws, backend="eager")
    for seed in range(3):
        torch.manual_seed(seed)
        expected = draws(X)
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        torch.testing.assert_close(compiled(X), expected)
        assert torch.equal(torch.get_rng_state(), state)


def test_a_failing_replay_changes_nothing_twice():
    """The second operator raises; the first has written by then. Eager writes once, and so must a replay."""

    def writes_then_fails(x, index):
        x.add_(torch.rand(6))
        return x[index]

    compiled = braze.compile(writes_then_fails, backend="eager")
    good, bad = torch.tensor([0, 1]), torch.tensor([0, 99])
    compiled(X.clone(), good)
    compiled(X.clone(), good)
    assert compiled.counts()["replayed"] == 1
    results = []
    for function in (compiled, writes_then_fails):
        torch.manual_seed(0)
        x = X.clone()
        with pytest.raises(IndexError, match="out of range|out of bounds"):
            function(x, bad)
        results.append((x, torch.get_rng_state()))
    torch.testing.assert_close(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_a_module_for_a_custom_backend():
    net = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.ReLU()).eval()
    graphs = Graphs()
    compiled = braze.compile(net, backend=graphs)
    for _ in range(3):
        x = torch.randn(4, 6)
        torch.testing.assert_close(compiled(x), net(x))
    gm = graphs.modules[0]
    assert isinstance(gm, torch.fx.GraphModule)
    assert {id(p) for p in gm.parameters()} == {id(p) for p in net.parameters()}
    assert [node.op for node in gm.graph.nodes].count("placeholder") == len(graphs.examples[0]) == 1
    assert "aten.addmm.default" in graphs.targets()
    with torch.no_grad():
        net[0].weight.zero_()
        torch.testing.assert_close(compiled(x), net(x))


def test_the_graph_in_detail():
    graphs = Graphs()

    def f(x, /, y):
        values, indices = x.max(dim=1, keepdim=True)
        return values.sum(dim=1, dtype=torch.float64) + y, indices

    braze.compile(f, backend=graphs)(X, torch.ones(4))
    nodes = list(graphs.modules[0].graph.nodes)
    assert [node.name for node in nodes if node.op == "placeholder"] == ["x", "y"]
    assert [tuple(example.shape) for example in graphs.examples[0]] == [(4, 6), (4,)]
    called = {str(node.target): node for node in nodes if node.op == "call_function"}
    assert called["aten.sum.dim_IntList"].kwargs == {"dtype": torch.float64}
    assert sum(node.target is operator.getitem for node in nodes) == 2
    assert "test_backends.py" in called["aten.sum.dim_IntList"].stack_trace
    assert len(nodes[-1].args[0]) == 2


def test_a_backend_that_changes_the_graph():
    def doubles(gm, example_inputs):
        for node in gm.graph.nodes:
            if node.target is torch.ops.aten.relu.default:
                node.target = torch.ops.aten.neg.default
        gm.recompile()
        return gm

    compiled = braze.compile(lambda x: torch.relu(x), backend=doubles)
    torch.testing.assert_close(compiled(X), -X)


def test_mistakes_of_a_backend():
    with pytest.raises(TypeError, match="gm.forward"):
        braze.compile(arithmetic, backend=lambda gm, inputs: 3)(X)
    with pytest.raises(TypeError, match="list or tuple of 1 tensors"):
        braze.compile(arithmetic, backend=lambda gm, inputs: lambda x: "no tensor")(X)

    def fails(gm, example_inputs):
        raise ZeroDivisionError("in the backend")

    with pytest.raises(ZeroDivisionError, match="in the backend"):
        braze.compile(arithmetic, backend=fails)(X)


def test_names():
    assert "braze" in braze.list_backends()
    assert "eager" not in braze.list_backends()
    assert {"aot_eager", "braze", "eager"} <= set(braze.list_backends(None))
    assert "braze" in braze.list_backends(exclude_tags=())


@pytest.fixture
def registered():
    names = []
    yield names
    for name in names:
        _backends._registered.pop(name, None)
        _backends._tags.pop(name, None)


def test_register(registered):
    registered += ["mine", "other", "plain"]
    graphs = Graphs()
    assert braze.register_backend(graphs, name="mine") is graphs

    @braze.register_backend(name="other", tags=["experimental"])
    def some_backend(gm, example_inputs):
        return gm.forward

    @braze.register_backend
    def plain(gm, example_inputs):
        return gm.forward

    assert {"mine", "plain"} <= set(braze.list_backends())
    assert "other" not in braze.list_backends()
    assert "other" in braze.list_backends(exclude_tags=["debug"])
    check(braze.compile(arithmetic, backend="mine"), arithmetic)
    check(braze.compile(arithmetic, backend="other"), arithmetic)
    with pytest.raises(ValueError, match="exists already"):
        braze.register_backend(graphs, name="mine")
    with pytest.raises(ValueError, match="exists already"):
        braze.register_backend(graphs, name="braze")
    with pytest.raises(TypeError, match="callable"):
        braze.register_backend(3)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("absent", "register_backend"),
        ("inductor", "leave out backend"),
        ("onnxrt", "onnxruntime, which is not installed"),
        ("tensorrt", "torch_tensorrt, which is not installed"),
    ],
)
def test_backends_that_are_not_there(name, text):
    with pytest.raises(braze.Error, match=text):
        braze.compile(arithmetic, backend=name)


def package(folder, entry):
    """An installed package that offers a backend."""
    facts = folder / "offers-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: offers\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[torch_dynamo_backends]\n{entry}\n")


def run_with(folder, code):
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_backends_of_installed_packages(tmp_path):
    package(tmp_path, "offered = offers:backend")
    (tmp_path / "offers.py").write_text("def backend(gm, inputs):\n    print('offered')\n    return gm.forward\n")
    code = """
import torch, braze
print("offered" in braze.list_backends())
with torch.no_grad():
    print(float(braze.compile(lambda x: x + 1, backend="offered")(torch.ones(()))))
"""
    assert run_with(tmp_path, code) == ["True", "offered", "2.0"]


def test_torch_compile_finds_braze(tmp_path):
    """As the wheel declares it."""
    package(tmp_path, "braze = braze.dynamo_backend:braze_backend")
    code = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
compiled = torch.compile(net, backend="braze")
x = torch.randn(2, 4)
for grad in (False, True):
    with torch.set_grad_enabled(grad):
        for _ in range(2):
            torch.testing.assert_close(compiled(x), net(x))
        print(compiled(x).requires_grad)
from braze.dynamo_backend import _Graph
def item(x):
    return x + x.sum().item()
torch._dynamo.config.capture_scalar_outputs = True
with torch.no_grad():
    f = torch.compile(item, backend="braze")
    for x in (torch.ones(3), torch.zeros(3), torch.ones(5)):
        torch.testing.assert_close(f(x), item(x))
"""
    assert run_with(tmp_path, code) == ["False", "True"]


@pytest.mark.parametrize("backend", ["braze", "eager"])
def test_operators_whose_shapes_python_tells(backend):
    """Their Meta kernels are functions of torch's in Python, which are no part of the captured program."""
    compiled = braze.compile(lambda x: (x.sort(dim=1).values, x + torch.rand(6)), backend=backend)
    for _ in range(3):
        torch.manual_seed(0)
        got = compiled(X)
        torch.manual_seed(0)
        torch.testing.assert_close(got, (X.sort(dim=1).values, X + torch.rand(6)))
    assert compiled.counts() == {"captured": 1, "replayed": 2, "native": 0}
