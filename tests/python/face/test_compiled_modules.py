"""What braze.compile returns for a module: a module that stands for it."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 3)
        self.register_buffer("shift", torch.ones(3))
        self.factor = 2.0
        self.drop = nn.Dropout(0.5)

    def forward(self, x, bias=0.0):
        return self.drop(torch.relu(self.linear(x))) * self.factor + self.shift + bias

    def helper(self):
        return "helped"


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@pytest.fixture
def net():
    return Net().eval()


X = torch.randn(4, 5)


def test_calls_as_the_module(net):
    compiled = braze.compile(net)
    for _ in range(3):
        torch.testing.assert_close(compiled(X), net(X))
        torch.testing.assert_close(compiled(X, bias=1.0), net(X, bias=1.0))
    assert compiled.forward.counts()["replayed"] > 0


def test_is_a_module_with_the_same_state(net):
    compiled = braze.compile(net)
    assert isinstance(compiled, nn.Module)
    assert compiled._orig_mod is net
    assert list(compiled.state_dict()) == [f"_orig_mod.{name}" for name in net.state_dict()]
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in net.parameters()]
    assert [name for name, _ in compiled.named_modules()] == [
        "",
        "_orig_mod",
        "_orig_mod.linear",
        "_orig_mod.drop",
    ]
    compiled.load_state_dict({name: torch.zeros_like(t) for name, t in compiled.state_dict().items()})
    assert float(compiled(X).abs().sum()) == 0


def test_names_are_torch_compiles(net):
    theirs = torch.compile(net, backend="eager")
    ours = braze.compile(net)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]


def test_attributes_reach_through(net):
    compiled = braze.compile(net)
    assert compiled.factor == 2.0
    assert compiled.helper() == "helped"
    assert compiled.linear is net.linear
    compiled.factor = 5.0
    assert net.factor == 5.0
    torch.testing.assert_close(compiled(X), net(X))
    compiled.extra = 1
    assert net.extra == 1
    del compiled.extra
    assert not hasattr(net, "extra")
    compiled.linear = nn.Linear(5, 3)
    assert compiled.linear is net.linear
    torch.testing.assert_close(compiled(X), net(X))
    assert {"factor", "helper", "linear", "_orig_mod"} <= set(dir(compiled))
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = compiled.absent


def test_train_and_eval(net):
    compiled = braze.compile(net)
    assert not compiled.training
    compiled.train()
    assert net.training
    assert net.drop.training
    torch.manual_seed(0)
    one = compiled(X)
    torch.manual_seed(0)
    torch.testing.assert_close(one, net(X))
    compiled.eval()
    assert not net.drop.training
    torch.testing.assert_close(compiled(X), net(X))
    net.train()
    assert compiled.training


def test_to_and_half(net):
    compiled = braze.compile(net)
    compiled(X)
    assert compiled.double() is compiled
    assert net.linear.weight.dtype == torch.float64
    torch.testing.assert_close(compiled(X.double()), net(X.double()))


def test_hooks_of_the_module_are_part_of_it(net):
    net.register_forward_hook(lambda module, args, result: result + 1)
    net.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    compiled = braze.compile(net)
    for _ in range(3):
        torch.testing.assert_close(compiled(X), net(X))


def test_hooks_of_the_wrapper_run_around_it(net):
    compiled = braze.compile(net)
    seen = []
    handle = compiled.register_forward_hook(lambda module, args, result: seen.append(module))
    compiled(X)
    compiled(X)
    assert seen == [compiled, compiled]
    handle.remove()
    net(X)
    compiled(X)
    assert len(seen) == 2


def test_a_hook_added_later(net):
    compiled = braze.compile(net)
    before = compiled(X)
    net.linear.register_forward_hook(lambda module, args, result: result * 0)
    torch.testing.assert_close(compiled(X), net(X))
    assert not torch.equal(compiled(X), before)


def test_pickle_and_deepcopy(net):
    compiled = braze.compile(net, fullgraph=True)
    expected = compiled(X)
    for again in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert isinstance(again, braze.CompiledModule)
        assert again._orig_mod is not net
        torch.testing.assert_close(again(X), expected)
        again._orig_mod.factor = 7.0
        assert net.factor == 2.0
    file = io.BytesIO()
    torch.save(compiled.state_dict(), file)
    file.seek(0)
    assert list(torch.load(file)) == list(compiled.state_dict())


def test_containers():
    compiled = braze.compile(nn.Sequential(nn.Linear(5, 5), nn.ReLU()).eval())
    assert len(compiled) == 2
    assert isinstance(compiled[1], nn.ReLU)
    assert [type(part) for part in compiled] == [nn.Linear, nn.ReLU]
    assert compiled
    with pytest.raises(TypeError, match="'Net' has no len"):
        len(braze.compile(Net()))
    assert braze.compile(Net())


def test_compiling_twice(net):
    assert braze.compile(braze.compile(net))._orig_mod is net


def test_a_compiled_part(net):
    whole = nn.Sequential(braze.compile(net), nn.ReLU())
    plain = nn.Sequential(net, nn.ReLU())
    compiled = braze.compile(whole)
    for _ in range(3):
        torch.testing.assert_close(compiled(X), plain(X))


def test_another_method(net):
    class Two(Net):
        def twice(self, x):
            return self(x) * 2

    two = Two().eval()
    twice = braze.compile(two.twice)
    for _ in range(3):
        torch.testing.assert_close(twice(X), two(X) * 2)


def test_scripted_modules_are_refused(net):
    with pytest.raises(TypeError, match="itself"):
        braze.compile(torch.jit.trace(net, X))


def test_global_hooks_run_for_the_module_alone(net):
    compiled = braze.compile(net)
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, result: seen.append(module))
    try:
        compiled(X)
        once = list(seen)
        seen.clear()
        net(X)
        assert once == seen
        compiled.register_forward_hook(lambda module, args, result: None)
        with pytest.warns(UserWarning, match="once more for the wrapper"):
            compiled(X)
    finally:
        handle.remove()
