"""Compilers that get a forward and a backward graph: braze.aot_function, braze.aot_autograd."""

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch import fx, nn

import braze


class Kept:
    """A compiler that keeps the graphs that it is given."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, example_inputs):
        assert isinstance(graph, fx.GraphModule)
        assert len(example_inputs) == sum(node.op == "placeholder" for node in graph.graph.nodes)
        self.graphs.append(graph)
        return graph.forward

    def operators(self):
        return [
            str(node.target) for graph in self.graphs for node in graph.graph.nodes if node.op == "call_function"
        ]


def test_forward_and_backward_are_graphs_of_their_own():
    forward, backward = Kept(), Kept()
    quick = braze.aot_function(lambda x, w: F.gelu(x @ w).sum(), forward, backward)
    for step in range(3):
        x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True)
        loss = quick(x, w)
        assert len(backward.graphs) == min(step, 1)
        loss.backward()
        grads = torch.autograd.grad(F.gelu(x @ w).sum(), (x, w))
        torch.testing.assert_close((x.grad, w.grad), grads)
    assert (len(forward.graphs), len(backward.graphs)) == (1, 1)
    assert "aten.gelu.default" in forward.operators() and "aten.gelu_backward.default" in backward.operators()
    assert quick.counts() == {"captured": 1, "replayed": 2, "native": 0}


def test_without_a_backward_compiler_the_forwards_gets_both():
    both = Kept()
    quick = braze.aot_function(torch.sin, both)
    x = torch.randn(3, requires_grad=True)
    quick(x).sum().backward()
    torch.testing.assert_close(x.grad, x.cos().detach())
    assert len(both.graphs) == 2


def test_without_gradients_there_is_no_backward():
    forward, backward, inference = Kept(), Kept(), Kept()
    quick = braze.compile(torch.sin, backend=braze.aot_autograd(forward, backward, inference_compiler=inference))
    for _ in range(2):
        x = torch.randn(3)
        torch.testing.assert_close(quick(x), x.sin())
    assert (len(forward.graphs), len(backward.graphs), len(inference.graphs)) == (0, 0, 1)
    x.requires_grad_()
    quick(x).sum().backward()
    assert (len(forward.graphs), len(backward.graphs), len(inference.graphs)) == (1, 1, 1)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))


def test_a_model_trains_as_eager():
    """Buffers that are written, parameters that are captured, random numbers, nested arguments."""
    both = []
    for compiles in (False, True):
        net = model()

        def step(batch, net=net):
            return {"loss": F.cross_entropy(net(batch["x"]), batch["y"]), "logits": net[0](batch["x"])}

        if compiles:
            step = braze.aot_function(step, lambda gm, _: gm.forward)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        generator = torch.Generator().manual_seed(1)
        losses = []
        for number in range(5):
            batch = {"x": torch.randn(7, 6, generator=generator), "y": torch.arange(7) % 3}
            torch.manual_seed(number)
            optimizer.zero_grad()
            result = step(batch)
            result["loss"].backward()
            optimizer.step()
            losses.append(result["loss"].detach())
        both.append((losses, dict(net.state_dict())))
        if compiles:
            assert step.counts()["native"] == 0, step.reasons()
    torch.testing.assert_close(both[0], both[1])


def test_inputs_are_written_and_views_come_back():
    def f(x, y):
        y.mul_(2)
        return x.t(), (x * y).sum()

    quick = braze.aot_function(f, lambda gm, _: gm.forward)
    for _ in range(2):
        x, mine, theirs = torch.randn(2, 3, requires_grad=True), torch.ones(2, 3), torch.ones(2, 3)
        got, expected = quick(x, mine), f(x, theirs)
        torch.testing.assert_close((got, mine), (expected, theirs))
        assert got[0].data_ptr() == x.data_ptr()


def test_what_the_partition_and_the_decompositions_say():
    saved = []

    def partition(*args, **kwargs):
        forward, backward = min_cut_rematerialization_partition(*args, **kwargs)
        saved.append(sum(node.op == "placeholder" for node in backward.graph.nodes))
        return forward, backward

    table = {torch.ops.aten.silu.default: lambda x: x * torch.sigmoid(x)}
    kept = Kept()
    quick = braze.aot_function(
        lambda x: F.silu(x.sin()).cos().sum(), kept, partition_fn=partition, decompositions=table
    )
    x = torch.randn(5, requires_grad=True)
    quick(x).backward()
    torch.testing.assert_close(x.grad, torch.autograd.grad(F.silu(x.sin()).cos().sum(), x)[0])
    assert saved == [2]  # x, and the gradient: all else is computed again.
    assert "aten.silu.default" not in kept.operators()


def test_modules_boxed_compilers_and_graph_breaks():
    net = model().eval()
    boxed = braze.aot_function(net, lambda gm, _: make_boxed_func(gm.forward))
    assert isinstance(boxed, braze.CompiledModule)
    x = torch.randn(4, 6)
    torch.testing.assert_close(boxed(x), net(x))

    def broken(x):
        y = x.sin()
        return y * (2 if y.sum().item() > 0 else 3)

    with pytest.raises(braze.Error, match="item"):
        braze.aot_function(broken, Kept())(torch.ones(3))
    kept = Kept()
    torch.testing.assert_close(
        braze.aot_function(broken, kept, fullgraph=False)(torch.ones(3)), broken(torch.ones(3))
    )
    assert len(kept.graphs) == 2


def test_double_backward_says_that_there_is_none():
    quick = braze.aot_function(lambda x: (x**3).sum(), lambda gm, _: gm.forward)
    x = torch.randn(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(quick(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward|does not require grad"):
        gradient.sum().backward()


def test_bad_compilers_are_named():
    with pytest.raises(TypeError, match="fw_compiler takes a graph and its example inputs, and is not None"):
        braze.aot_function(torch.sin, None)
    with pytest.raises(TypeError, match="bw_compiler .* is not 3"):
        braze.aot_autograd(Kept(), 3)

    def returns_nothing(graph, example_inputs):
        pass

    with pytest.raises(TypeError, match="the compiler returns_nothing returned None"):
        braze.aot_function(torch.sin, returns_nothing)(torch.ones(3))
