"""PyTorch's modes and flags, thread-locals, context variables, environment, time-like things."""

import contextlib
import contextvars
import decimal
import io
import os
import sys
import threading

import torch
from staleness import call, case, module, tensor


def leaf():
    return tensor().requires_grad_()


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


class Doubling(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.Tensor.add else result


class Counting(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        print("dispatched", function)
        return function(*args, **(kwargs or {}))


def mode(name, source, context, make=tensor):
    """The change is that the second call is made inside of a context."""

    @case(name=name)
    def cases():
        m = module(source)
        yield m.f, make()
        with context():
            yield make()

    return cases


mode("no_grad", "def f(x): return x * 2", torch.no_grad, leaf)
mode("inference_mode", "def f(x): return torch.ones(3) * 2, x * 2", torch.inference_mode, leaf)
mode("is_grad_enabled", "def f(x): return x + torch.is_grad_enabled()", torch.no_grad)
mode(
    "autocast",
    "def f(x): return x.reshape(2, 2) @ x.reshape(2, 2)",
    lambda: torch.autocast("cpu", dtype=torch.bfloat16),
)
mode("is_autocast", "def f(x): return x + torch.is_autocast_enabled('cpu')", lambda: torch.autocast("cpu"))
mode("default_dtype", "def f(x): return x + torch.ones(4), torch.tensor(1.5)", lambda: default_dtype(torch.float64))
mode("default_device", "def f(x): return torch.ones(2).device, x", lambda: torch.device("meta"))
mode("deterministic", "def f(x): return x + torch.are_deterministic_algorithms_enabled()", deterministic)
mode("function_mode", "def f(x): return x.add(1)", Doubling)
mode("dispatch_mode", "def f(x): return x + 1", Counting)
mode(
    "saved_tensor_hooks",
    "def f(x): return (x * x).sum()",
    lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: print("pack") or t, lambda t: t),
    leaf,
)
mode("anomaly", "def f(x): return x + torch.is_anomaly_enabled()", lambda: torch.autograd.set_detect_anomaly(True))
mode(
    "deterministic_error",
    "def f(x): return torch.zeros(4).put_(torch.tensor([0, 1]), x[:2], accumulate=False)",
    deterministic,
)
mode(
    "decimal_context",
    "import decimal\ndef f(x): return x, decimal.Decimal(1) / 3",
    lambda: decimal.localcontext(decimal.Context(prec=3)),
)
mode("warnings_as_errors", "import warnings\ndef f(x):\n  warnings.warn('w')\n  return x", lambda: errors())


@contextlib.contextmanager
def errors():
    import warnings

    original = warnings.warn

    def raising(message, *args, **kwargs):
        raise UserWarning(message)

    warnings.warn = raising
    try:
        yield
    finally:
        warnings.warn = original


@case
def vmap_around():
    """Inside of vmap the same argument has one dimension less, and its tensors are of another kind."""
    m = module("def f(x): return x.sum(0) * x.dim()")
    compiled = yield m.f, tensor(2, 3)
    results = [torch.func.vmap(compiled)(tensor(2, 3))]
    yield call(tensor(3)).watch(results)


@case
def gradient_around():
    m = module("def f(x): return (x * x).sum()")
    compiled = yield m.f, tensor()
    results = [torch.func.grad(compiled)(tensor())]
    yield call(tensor() + 1).watch(results)


@case
def forward_derivative_around():
    m = module("def f(x): return x * x")
    compiled = yield m.f, tensor()
    results = [torch.func.jvp(compiled, (tensor(),), (torch.ones(4),))]
    yield call(tensor() + 1).watch(results)


@case
def context_variable():
    variable = contextvars.ContextVar("stale_variable", default=1)
    m = module("def f(x): return x * v.get()", v=variable)
    yield m.f, tensor()
    token = variable.set(5)
    yield tensor()
    variable.reset(token)


@case
def thread_local():
    m = module("import threading\nlocal = threading.local()\nlocal.k = 1\ndef f(x): return x * local.k")
    yield m.f, tensor()
    m.local.k = 4


@case
def thread_local_of_another_thread():
    m = module(
        "import threading\nlocal = threading.local()\nlocal.k = 1\ndef f(x): return x * getattr(local, 'k', 9)"
    )
    compiled = yield m.f, tensor()
    results = []
    thread = threading.Thread(target=lambda: results.append(compiled(tensor())))
    thread.start()
    thread.join()
    m.f = None
    yield call(tensor()).watch(results)


STATE = """
import threading
class State(threading.local):
    def __init__(self): self.k = 3
state = State()
"""


@case
def attribute_of_thread_locals_subclass():
    m = module(STATE + "def f(x): return x * state.k")
    yield m.f, tensor()
    m.state.k = 4
    yield tensor()
    m.State.k = 6
    yield tensor()
    del m.state.k


@case
def thread_locals_subclass_in_another_thread():
    m = module(STATE + "state.k = 5\ndef f(x):\n    state.n = state.k\n    return x * state.n")
    compiled = yield m.f, tensor()
    results = []
    thread = threading.Thread(target=lambda: results.append(compiled(tensor())))
    thread.start()
    thread.join()
    results.append(m.state.n)
    m.f = None
    yield call(tensor()).watch(results)


@case
def dict_of_thread_local():
    m = module("import threading\nlocal = threading.local()\nlocal.k = 1\ndef f(x): return x * len(vars(local))")
    yield m.f, tensor()
    m.local.other = 4


@case
def current_thread():
    m = module("import threading\ndef f(x): return x, threading.current_thread().name")
    yield m.f, tensor()
    thread, before = threading.current_thread(), threading.current_thread().name
    thread.name = "renamed"
    try:
        yield tensor()
    finally:
        thread.name = before


@case
def environment_variable():
    os.environ["STALE_K"] = "1"
    m = module("import os\ndef f(x): return x * int(os.environ['STALE_K'])")
    try:
        yield m.f, tensor()
        os.environ["STALE_K"] = "6"
        yield tensor()
    finally:
        del os.environ["STALE_K"]


@case
def getenv_missing():
    os.environ["STALE_G"] = "1"
    m = module("import os\ndef f(x): return x * int(os.getenv('STALE_G', '8'))")
    yield m.f, tensor()
    del os.environ["STALE_G"]


@case
def file_content():
    import tempfile

    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "k")
    with open(path, "w") as file:
        file.write("2")
    m = module("def f(x):\n  with open(path) as file: return x * int(file.read())", path=path)
    yield m.f, tensor()
    with open(path, "w") as file:
        file.write("3")
    yield tensor()
    folder.cleanup()


@case
def working_directory():
    m = module("import os\ndef f(x): return x, os.getcwd() == '/'")
    before = os.getcwd()
    yield m.f, tensor()
    os.chdir("/")
    try:
        yield tensor()
    finally:
        os.chdir(before)


@case
def recursion_limit():
    import sys

    m = module("import sys\ndef f(x): return x, sys.getrecursionlimit()")
    before = sys.getrecursionlimit()
    yield m.f, tensor()
    sys.setrecursionlimit(before + 100)
    try:
        yield tensor()
    finally:
        sys.setrecursionlimit(before)


@case(evolves=True)
def clock():
    m = module(
        "import time\nticks = iter(range(100))\ntime_now = lambda: next(ticks)\ndef f(x): return x * time_now()"
    )
    yield m.f, tensor()


@case
def seeded_generator():
    class Seeded:
        def __init__(self, seed):
            self.seed = seed

    m = module(
        "def f(x, s):\n  g = torch.Generator(); g.manual_seed(s.seed)\n  return x + torch.rand(4, generator=g)"
    )
    seeded = Seeded(1)
    yield m.f, tensor(), seeded
    seeded.seed = 2


@case(evolves=True)
def generator_goes_on():
    m = module("g = torch.Generator(); g.manual_seed(0)\ndef f(x): return x + torch.rand(4, generator=g)")
    yield m.f, tensor()


@case(evolves=True)
def global_seed_goes_on():
    m = module("def f(x): return torch.nn.functional.dropout(x, 0.5)")
    yield m.f, tensor()


@case
def seed_set_between():
    m = module(
        "def f(x):\n  state = torch.get_rng_state()\n  y = x + torch.rand(4)\n"
        "  torch.set_rng_state(state)\n  return y"
    )
    yield m.f, tensor()
    torch.manual_seed(77)


@case
def number_of_threads():
    m = module("def f(x): return x * torch.get_num_threads()")
    before = torch.get_num_threads()
    yield m.f, tensor()
    torch.set_num_threads(before + 1)
    try:
        yield tensor()
    finally:
        torch.set_num_threads(before)


@case
def print_options():
    m = module("def f(x): return repr(x / 3), x")
    yield m.f, tensor()
    torch.set_printoptions(precision=2)
    try:
        yield tensor()
    finally:
        torch.set_printoptions(profile="default")


@case
def standard_error_replaced():
    m = module("import sys\ndef f(x):\n  print('out', file=sys.stderr)\n  return x")
    before, first, second = sys.stderr, io.StringIO(), io.StringIO()
    sys.stderr = first
    try:
        yield m.f, tensor()
        sys.stderr = second
        yield call(tensor()).watch(Written(first), Written(second))
    finally:
        sys.stderr = before


class Written(dict):
    """Reads as what has been written to a stream so far."""

    def __init__(self, stream):
        self.stream = stream

    def items(self):
        return [("text", self.stream.getvalue())]
