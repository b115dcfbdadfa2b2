"""Copies of what changes, decorators and modules that are walked through."""

import logging

import torch
from staleness import case, module, tensor


@case
def copied_list_changes():
    m = module("import copy\nl = [2, [3]]\ndef f(x): return x * copy.deepcopy(l)[1][0], copy.deepcopy(l)")
    yield m.f, tensor()
    m.l[1][0] = 5


@case
def copied_list_learns_an_alias():
    m = module(
        "import copy\na, b = [1], [1]\nl = [a, b]\n"
        "def f(x):\n  c = copy.deepcopy(l)\n  return x * (2 if c[0] is c[1] else 3)"
    )
    yield m.f, tensor()
    m.l[1] = m.a


@case
def copied_dict_gets_a_key():
    m = module("import copy\nd = {'a': 2}\ndef f(x): return x * len(copy.deepcopy(d)), copy.copy(d)")
    yield m.f, tensor()
    m.d["b"] = 3


@case
def copied_object_changes():
    m = module("import copy\nclass C: pass\nc = C()\nc.v = 2\ndef f(x): return x * copy.copy(c).v")
    yield m.f, tensor()
    m.c.v = 3


@case
def copied_object_gets_an_attribute():
    m = module("import copy\nclass C: pass\nc = C()\nc.v = 2\ndef f(x): return x * len(vars(copy.copy(c)))")
    yield m.f, tensor()
    m.c.w = 3


@case
def copied_class_learns_to_copy():
    m = module("import copy\nclass C: v = 2\nc = C()\ndef f(x): return x * copy.copy(c).v")
    yield m.f, tensor()

    class Other:
        v = 7

    m.C.__copy__ = lambda self: Other()


@case
def copied_class_learns_to_reduce():
    m = module("import copy\nclass C: v = 2\nc = C()\ndef f(x): return x * copy.copy(c).v")
    yield m.f, tensor()
    m.C.__reduce__ = lambda self: (dict, (), None, None, iter([("v", 3)]))
    m.C.__reduce_ex__ = lambda self, protocol: "c"
    m.C.v = 5


@case
def copied_class_learns_its_state():
    m = module("import copy\nclass C: pass\nc = C()\nc.v = 2\ndef f(x): return x * copy.copy(c).v")
    yield m.f, tensor()
    m.C.__getstate__ = lambda self: {"v": 9}


@case
def copied_class_learns_to_set_its_state():
    m = module("import copy\nclass C: pass\nc = C()\nc.v = 2\ndef f(x): return x * copy.copy(c).v")
    yield m.f, tensor()
    m.C.__setstate__ = lambda self, state: setattr(self, "v", 8)


@case
def dataclass_as_dict():
    m = module(
        "import dataclasses\n@dataclasses.dataclass\nclass D:\n  a: int = 2\nd = D()\n"
        "def f(x): return x * dataclasses.asdict(d)['a']"
    )
    yield m.f, tensor()
    m.d.a = 3


@case
def variables_of_object():
    m = module("class C: pass\nc = C()\nc.v = 2\ndef f(x): return x * vars(c)['v']")
    yield m.f, tensor()
    m.c.v = 3


@case
def globals_by_name():
    m = module("k = 2\ndef f(x): return x * globals()['k']")
    yield m.f, tensor()
    m.k = 3


@case
def wrapped_function_renamed():
    m = module(
        "import functools\ndef g(): pass\n"
        "def f(x):\n  @functools.wraps(g)\n  def h(t): return t * len(h.__name__)\n  return h(x)"
    )
    yield m.f, tensor()
    m.g.__name__ = "longer"


@case
def joined_list_changes():
    m = module("l = [1, 2]\ndef f(x): return x * len(','.join(str(i) for i in l)), ','.join(map(str, l))")
    yield m.f, tensor()
    m.l.append(30)


@case
def logger_is_enabled():
    m = module(
        "import logging\nlog = logging.getLogger('of.a.stale.case')\n"
        "def f(x): return x * (2 if log.isEnabledFor(10) else 3)"
    )
    m.log.setLevel(logging.WARNING)
    yield m.f, tensor()
    m.log.setLevel(logging.DEBUG)


@case
def first_parameter_changes_dtype():
    m = module("lin = torch.nn.Linear(4, 4)\ndef f(x): return x.to(next(lin.parameters()).dtype) + 1")
    yield m.f, tensor()
    m.lin.double()


@case
def parameter_is_registered():
    m = module("lin = torch.nn.Linear(4, 4)\ndef f(x): return x * len(list(lin.named_parameters()))")
    yield m.f, tensor()
    m.lin.register_parameter("k", torch.nn.Parameter(torch.ones(1)))


@case
def parameter_is_shared():
    m = module(
        "a, b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)\ns = torch.nn.Sequential(a, b)\n"
        "def f(x): return x * len(list(s.parameters()))"
    )
    yield m.f, tensor()
    m.b.weight = m.a.weight


@case
def attention_changes_weights():
    m = module(
        "torch.manual_seed(0)\n"
        "mha = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval().requires_grad_(False)\n"
        "def f(x): return mha(x, x, x)[0]"
    )
    yield m.f, tensor(1, 2, 4)
    with torch.no_grad():
        m.mha.in_proj_weight.mul_(0.5)


@case
def encoder_goes_to_training():
    m = module(
        "torch.manual_seed(0)\n"
        "enc = torch.nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True).eval().requires_grad_(False)\n"
        "def f(x): return enc(x).sum() > 1e9, enc.training"
    )
    yield m.f, tensor(1, 2, 4)
    m.enc.train()


@case
def device_context_ends():
    m = module("k = 2\ndef f(x):\n  with torch.device('cpu'):\n    y = x * k + torch.ones(4)\n  return y")
    yield m.f, tensor()
    m.k = 3
