"""python -m braze run: scripts written for torch.compile."""

import os
import subprocess
import sys

import pytest

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


@pytest.fixture
def run(tmp_path):
    def run_script(code, *arguments, fails=False, **environment):
        script = tmp_path / "script.py"
        script.write_text(code)
        done = subprocess.run(
            [sys.executable, "-m", "braze", "run", str(script), *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout + done.stderr

    return run_script


def test_a_script_with_arguments(run):
    code = """
import sys, torch
import torch.nn as nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)
    def forward(self, x):
        return torch.relu(self.linear(x))

if __name__ == "__main__":
    net = Net().eval()
    compiled = torch.compile(net, mode="reduce-overhead")
    x = torch.randn(2, 8)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), net(x))
    print(type(compiled).__module__, sys.argv[1:], list(compiled.state_dict()))
    print(compiled.forward.counts())
"""
    text = run(code, "--epochs", "3")
    assert "braze._module ['--epochs', '3'] ['_orig_mod.linear.weight', '_orig_mod.linear.bias']" in text
    assert "'replayed': 2" in text


def test_the_real_modules_are_not_imported(run):
    code = """
import sys, torch
import torch._dynamo
import torch._inductor.config
from torch._dynamo.utils import counters
torch._dynamo.reset()
torch._dynamo.config.cache_size_limit = 4
f = torch.compile(lambda x: x + 1, backend="inductor", dynamic=False)
with torch.no_grad():
    f(torch.ones(3)); f(torch.ones(3))
print(counters["stats"]["unique_graphs"], torch._dynamo.config.cache_size_limit)
heavy = ("torch._dynamo.", "torch._inductor.", "triton", "sympy")
print(sorted(name for name in sys.modules if name.startswith(heavy) and hasattr(sys.modules[name], "__file__")))
print(torch._dynamo.utils.compile_times() != "", torch._dynamo.utils.compile_times(repr="csv")[0] != [])
counters.clear()
print(dict(counters["stats"]))
"""
    assert run(code).splitlines() == ["1 4", "[]", "True True", "{}"]


def test_data_in_a_graph(run):
    code = """
import torch
import torch._dynamo as dynamo
from torch._dynamo.utils import counters

def f(x):
    n = x.sum().item()
    return x[x > 0] * n

dynamo.config.capture_scalar_outputs = True
with dynamo.config.patch(capture_dynamic_output_shape_ops=True):
    fast = torch.compile(f, fullgraph=True)
for k in range(4):
    x = torch.arange(9.0) - k
    assert torch.equal(fast(x), f(x))
print(counters["stats"]["unique_graphs"], dict(counters["graph_break"]))
found = dynamo.explain(f)(x)
print(found.graph_count, found.graph_break_count)
"""
    assert run(code).splitlines() == ["1 {}", "2 1"]


def test_fullgraph_reads_elements_as_pytorch_does(run):
    code = """
import torch
from torch._dynamo.utils import counters

def f(x):
    return x[x > 0] * x.sum().item(), x.nonzero(), x.unique(), 3.0 in x

plain = torch.compile(f)
for mode in (None, "reduce-overhead"):
    whole = torch.compile(f, fullgraph=True, mode=mode, recompile_limit=16)
    for k in range(4):
        x = torch.arange(9.0) - k
        for a, b in zip(whole(x), f(x)):
            assert a == b if isinstance(b, bool) else torch.equal(a, b)
print(dict(counters["graph_break"]))
plain(torch.arange(9.0))
print(len(counters["graph_break"]) > 0)
try:
    torch.compile(f, fullgraph=True, mode="fast")
except ValueError as error:
    print("unrecognized mode" in str(error))

def branch(x):
    return x * 2 if x.sum() > 0 else x

try:
    torch.compile(branch, fullgraph=True)(torch.ones(3))
except Exception as error:
    print("a branch on the value of a tensor" in str(error))
"""
    assert run(code).splitlines() == ["{}", "True", "True", "True"]


def test_explain_and_breaks(run):
    code = """
import torch
import torch._dynamo as dynamo

def f(x):
    y = x.sin()
    dynamo.graph_break()
    return y.cos()

with torch.no_grad():
    found = dynamo.explain(f)(torch.ones(3))
print(found.graph_count, found.graph_break_count, len(found.ops_per_graph), len(found.break_reasons))
print(found.op_count)
"""
    assert run(code).split() == ["2", "1", "2", "1", "2"]


def test_custom_backends(run):
    code = """
import torch
from torch._dynamo import register_backend, list_backends

@register_backend
def mine(gm: torch.fx.GraphModule, example_inputs):
    print([str(node.target) for node in gm.graph.nodes if node.op == "call_function"])
    return gm.forward

@torch.compile(backend="mine")
def f(x):
    return torch.relu(x)

with torch.no_grad():
    f(torch.ones(3))
print("mine" in list_backends(), "mine" in torch.compiler.list_backends())
"""
    assert run(code).splitlines() == ["['aten.relu.default']", "True True"]


def test_compiler_functions(run):
    code = """
import torch

@torch.compiler.disable
def slow(x):
    return x + 1

@torch._dynamo.disable(recursive=False)
def slower(x):
    return slow(x)

f = torch.compile(lambda x: slower(x) * 2)
with torch.no_grad(), torch.compiler.set_stance("force_eager"):
    print(f(torch.ones(1)).item())
torch.compiler.reset()
torch._dynamo.mark_dynamic(torch.ones(3), 0)
print(torch.compiler.is_compiling(), torch.compiler.allow_in_graph(slow) is slow)
net = torch.nn.Linear(3, 3)
net.compile()
with torch.no_grad():
    print(net(torch.ones(3)).shape)
"""
    assert run(code).splitlines() == ["4.0", "False True", "torch.Size([3])"]


def test_options_of_pytorch(run):
    code = """
import torch
import torch._inductor.config as config
options = {"epilogue_fusion": True, "max_autotune": False, "fallback_random": True,
           "triton.cudagraphs": True, "trace.enabled": False}
f = torch.compile(lambda x: x + 1, options=options)
with torch.no_grad():
    print(f(torch.ones(1)).item())
config.triton.cudagraphs = True
config.fallback_random = True
print(config.triton.cudagraphs, config.fallback_random, "max_autotune" in torch._inductor.list_options())
with config.patch({"max_autotune": True}), config.patch("epilogue_fusion", False):
    print(config.max_autotune, config.epilogue_fusion)
import braze
config.force_disable_caches = True
print(braze.config.disk_cache, torch._inductor.list_mode_options("max-autotune"))
for wrong in (lambda: torch.compile(f, options={"no_such_option": 1}),
              lambda: setattr(config, "no_such_option", 1),
              lambda: setattr(torch._dynamo.config, "no_such_option", 1),
              lambda: torch.compile(f, mode="default", options={}),
              lambda: torch.compile(f, mode="no such mode")):
    try:
        wrong()
    except (RuntimeError, AttributeError) as error:
        print("no such" in str(error).replace("_", " ") or "same time" in str(error))
"""
    expected = ["2.0", "True True True", "True False", "False {}", *["True"] * 5]
    assert run(code).splitlines() == expected


def test_logs(run):
    code = """
import torch, torch._logging
f = torch.compile(lambda x, n: x * n)
with torch.no_grad():
    f(torch.ones(3), 1); f(torch.ones(3), 2)
torch._logging.set_logs(graph_code=True, dynamo=20)
with torch.no_grad():
    torch.compile(lambda x: x - 1)(torch.ones(3))
try:
    torch._logging.set_logs(no_such_log=True)
except ValueError as error:
    print("refused")
"""
    text = run(code, TORCH_LOGS="+dynamo,recompiles")
    assert "[braze.recompiles]" in text
    assert "[braze.graph_code]" in text
    assert "refused" in text


def test_a_debug_folder(run, tmp_path):
    code = """
import torch
f = torch.compile(lambda x: torch.relu(x) + 1, options={"compile_threads": 1})
f(torch.ones(3))
f(torch.ones(4))
"""
    text = run(code, TORCH_COMPILE_DEBUG="1", TORCH_COMPILE_DEBUG_DIR=str(tmp_path), TORCH_LOGS="recompiles")
    assert "[braze.recompiles]" in text
    assert "relu" not in text, "what TORCH_LOGS does not name is in the folder only"
    (folder,) = (tmp_path / "torch_compile_debug").iterdir()
    files = {file.name: file.read_text() for file in folder.iterdir()}
    assert "relu" in files["graph_code.txt"]
    assert "guards.txt" in files
    assert "output_code.txt" in files
    assert files["recompiles.txt"]


def test_optimizers_still_work(run):
    code = """
import torch
net = torch.nn.Linear(3, 3)
optimizer = torch.optim.Adam(net.parameters())
compiled = torch.compile(net)
for _ in range(2):
    optimizer.zero_grad()
    compiled(torch.ones(2, 3)).sum().backward()
    optimizer.step()
print(net.weight.grad is not None)
print(torch.fx.symbolic_trace(net).graph is not None)
"""
    text = run(code)
    assert text.splitlines()[:2] == ["True", "True"]
    assert "in eager" not in text


def test_exceptions_and_absent_names(run):
    assert "ZeroDivisionError" in run("1 / 0", fails=True)
    assert "`python -m braze run` answers" in run("import torch; torch._dynamo.no_such_thing", fails=True)


def test_modules(tmp_path):
    (tmp_path / "program.py").write_text("import torch; print(__name__, torch.compile.__module__)")
    command = [sys.executable, "-m", "braze", "run", "-m", "program"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["__main__", "braze._torch_face.install"], done.stderr


def test_marks_of_dimensions_by_every_name(run):
    """Where they are defined, too: a file of PyTorch's that is imported on the way is run once."""
    code = """
import torch
from torch._dynamo.decorators import mark_dynamic, mark_unbacked
import torch._dynamo

def f(x):
    return x * x.shape[0]

for mark in (mark_dynamic, mark_unbacked, torch._dynamo.mark_dynamic, torch._dynamo.mark_unbacked):
    compiled, x = torch.compile(f), torch.randn(8, 3)
    mark(x, 0, hint_override=100)
    for one in (x, torch.randn(5, 3), torch.randn(9, 3), torch.randn(0, 3)):
        assert torch.equal(compiled(one), f(one))
    print(compiled.counts()["captured"])
"""
    assert run(code).splitlines() == ["2"] * 4


def test_settings_of_sizes(run):
    code = """
import torch
import torch._dynamo.config as config

def captures():
    compiled = torch.compile(lambda x: x * x.shape[0])
    for n in (8, 5, 9):
        compiled(torch.randn(n, 3))
    return compiled.counts()["captured"]

print(captures())
with config.patch(automatic_dynamic_shapes=False):
    print(captures())
with config.patch(assume_static_by_default=False):
    print(captures())
print(captures(), torch.compile(lambda x: x * 2, dynamic=True)(torch.ones(3)).sum().item())
"""
    assert run(code).splitlines() == ["2", "3", "1", "2 6.0"]
    lines = run(code, TORCH_DYNAMO_AUTOMATIC_DYNAMIC_SHAPES="0").splitlines()
    assert lines == ["3", "3", "1", "3 6.0"]


def test_a_script_that_is_not_there(tmp_path):
    """What python itself says of it."""
    missing = str(tmp_path / "missing.py")
    told = []
    for command in ([missing], ["-m", "braze", "run", missing]):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
        told.append((done.returncode, done.stderr))
    assert told[0] == told[1]
