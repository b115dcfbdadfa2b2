"""python -m braze run: what braze has not is the real torch._dynamo's and torch._inductor's."""

import os
import subprocess
import sys

import pytest

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

#: In one process, since importing the real packages takes seconds: a name, and an expression that must be true.
FACTS = {
    "source": "__import__('torch._dynamo.source', fromlist=['x']).LocalSource is not None",
    "utils": "__import__('torch._dynamo.utils', fromlist=['x']).dynamo_timed is not None",
    "is_compile_supported": "isinstance(torch._dynamo.utils.is_compile_supported('cpu'), bool)",
    "testing": "__import__('torch._dynamo.testing', fromlist=['x']).CompileCounter().frame_count == 0",
    "exc": "issubclass(torch._dynamo.exc.InternalTorchDynamoError, Exception)",
    "is_dynamo_supported": "isinstance(torch._dynamo.is_dynamo_supported(), bool)",
    "decorator": "torch._dynamo.disable(len)([1]) == 1",
    "export": "len(list(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)).graph.nodes)) > 2",
    "cond": "torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (torch.ones(1),)).item() == 2",
    "cond_else": "torch.cond(torch.tensor(False), lambda x: x + 1, lambda x: x - 1, (torch.ones(1),)).item() == 0",
    "while_loop": "hops.while_loop(lambda i: i < 3, lambda i: (i + 1,), (torch.tensor(0),))[0] == 3",
    "flex_attention": "flex(Q, Q, Q).shape == Q.shape",
    "compiled_flex_attention": "torch.allclose(torch.compile(flex)(Q, Q, Q), flex(Q, Q, Q), atol=1e-5)",
    "make_fx": "make_fx(lambda x: x + 1)(torch.ones(1)).graph is not None",
    "symbolic": "make_fx(lambda x: x + 1, tracing_mode='symbolic')(torch.ones(3)).graph is not None",
    "fake": "fake().shape == (3,)",
    "functorch": "torch.vmap(lambda x: x * 2)(torch.ones(3)).sum() == 6",
    "transformers": "__import__('transformers').LlamaForCausalLM is not None",
    "dict_counters": "isinstance(counters, dict) and counters.get('nothing') is None",
    "counters_count": "counters['stats']['unique_graphs'] >= 1 and 'stats' in counters",
    "counters_items": "dict(counters.items())['stats'] == counters['stats'] == counters.copy()['stats']",
    "counters_added": "bump() == 5 and counters['mine']['b'] == 5",
    "counters_pop": "counters.pop('mine')['b'] == 5 and 'mine' not in counters",
    "counters_setdefault": "counters.setdefault('new', collections.Counter(a=1))['a'] == 1",
    "still_ours": "type(torch.compile(torch.nn.Linear(2, 2))).__module__ == 'braze._module'",
    "modules_compile": "compile_in_place() == 'CompiledFunction'",
    "config": "limit() == 5",
    "config_patch": "patched() == 3 and torch._dynamo.config.recompile_limit == 5",
    "inductor": "__import__('torch._inductor.ir', fromlist=['x']).Pointwise is not None",
    "inductor_config": "torch._inductor.config.is_fbcode() is False",
    "caches": "torch._inductor.codecache.PyCodeCache.__name__ == 'PyCodeCache'",
    "front": "sys.modules['torch._dynamo'] is torch._dynamo",
    "spec": "importlib.import_module('torch._dynamo.source').__spec__.name == 'torch._dynamo.source'",
}

SCRIPT = """
import collections, importlib, sys
import torch
from torch._dynamo.utils import counters
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import flex_attention as flex
import torch._higher_order_ops as hops
import braze

Q = torch.ones(1, 1, 4, 8)
torch.set_grad_enabled(False)
f = torch.compile(lambda x: x * 2)
f(torch.ones(3))

def fake():
    from torch._subclasses import FakeTensorMode
    with FakeTensorMode():
        return torch.ones(3) + 1

def bump():
    counters["mine"]["b"] += 5
    return counters["mine"]["b"]

def limit():
    torch._dynamo.config.recompile_limit = 5
    return braze.config.recompile_limit

def patched():
    with torch._dynamo.config.patch(recompile_limit=3):
        return braze.config.recompile_limit

def compile_in_place():
    net = torch.nn.Linear(2, 2)
    net.compile()
    return type(net._compiled_call_impl).__name__

for name, expression in FACTS.items():
    try:
        print(name, bool(eval(expression)))
    except Exception as error:
        print(name, type(error).__name__, error)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    script = tmp_path_factory.mktemp("run") / "script.py"
    script.write_text(f"FACTS = {FACTS!r}\n{SCRIPT}")
    command = [sys.executable, "-W", "ignore", "-m", "braze", "run", str(script)]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


@pytest.mark.parametrize("name", FACTS)
def test_the_real_packages_serve(name, answers):
    assert answers.get(name) == "True", FACTS[name]


def test_tracing_takes_little_more_memory_than_it_keeps(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import torch, tracemalloc
def f(x):
    for i in range(1000):
        x = x + i
    return x
torch.fx.symbolic_trace(lambda x: x + 1)
tracemalloc.start()
graph = torch.fx.symbolic_trace(f)
kept, peak = tracemalloc.get_traced_memory()
print(peak < 3 * kept, isinstance(graph, torch.fx.GraphModule), graph(torch.ones(1)).item() == 499501)
""")
    command = [sys.executable, "-m", "braze", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True", "True"], done.stderr
