"""Effects: each happens once a call, in order, with that call's values."""

from staleness import call, case, module, tensor


def effect(name, source, change, evolves=False, watch=True):
    @case(name=name, evolves=evolves)
    def make():
        m = module(source)
        yield call(m.f, tensor()).watch(*([m] if watch else []))
        change(m)

    return make


def set_k(value):
    return lambda m: setattr(m, "k", value)


effect("print_value", "k = 1\ndef f(x):\n  print('k', k)\n  return x", set_k(2))
effect("print_shape", "k = 1\ndef f(x):\n  y = x.repeat(k)\n  print(y.shape)\n  return y", set_k(2))
effect("print_tensor", "k = 1\ndef f(x):\n  print(x * k)\n  return x", set_k(2))
effect("print_order", "k = 1\ndef f(x):\n  for i in range(k): print(i, end=';')\n  return x", set_k(3))
effect(
    "print_to_file",
    "import io\nk = 1\ndef f(x):\n  s = io.StringIO(); print(k, file=s)\n  return x, s.getvalue()",
    set_k(2),
)
effect("warning", "import warnings\nk = 'a'\ndef f(x):\n  warnings.warn(k)\n  return x", set_k("b"))
effect("global_store", "k = 1\nout = 0\ndef f(x):\n  global out\n  out = k\n  return x", set_k(2))
effect("global_store_tensor", "k = 1\nout = 0\ndef f(x):\n  global out\n  out = x * k\n  return x", set_k(2))
effect("global_deleted", "k = 1\ndef f(x):\n  global out\n  out = k\n  if k == 1: del out\n  return x", set_k(2))
effect("global_counter", "n = 0\ndef f(x):\n  global n\n  n += 1\n  return x * n", lambda m: None, evolves=True)
effect("list_append", "k = 1\nlog = []\ndef f(x):\n  log.append(k)\n  return x", set_k(2), evolves=True)
effect("list_append_tensor", "k = 1\nlog = []\ndef f(x):\n  log.append(x * k)\n  return x", set_k(2), evolves=True)
effect("list_item_store", "k = 1\nlog = [0]\ndef f(x):\n  log[0] = k\n  return x", set_k(2))
effect(
    "list_in_place_add",
    "k = 1\nlog = []\ndef f(x):\n  global log\n  log += [k]\n  return x",
    set_k(2),
    evolves=True,
)
effect("list_pop", "log = list(range(9))\ndef f(x): return x * log.pop()", lambda m: None, evolves=True)
effect("list_extend", "k = (1, 2)\nlog = []\ndef f(x):\n  log.extend(k)\n  return x", set_k((3,)), evolves=True)
effect("list_slice_store", "k = 1\nlog = [0, 0]\ndef f(x):\n  log[:] = [k, k]\n  return x", set_k(2))
effect("list_delete_item", "k = 0\nlog = [1, 2]\ndef f(x):\n  log[:] = [1, 2]\n  del log[k]\n  return x", set_k(1))
effect("list_sort", "k = False\nlog = [2, 1, 3]\ndef f(x):\n  log.sort(reverse=k)\n  return x", set_k(True))
effect("dict_store", "k = 1\nlog = {}\ndef f(x):\n  log['a'] = k\n  return x", set_k(2))
effect(
    "dict_store_order",
    "k = 'ab'\nlog = {}\ndef f(x):\n  log.clear()\n  for c in k: log[c] = 1\n  return x",
    set_k("ba"),
)
effect("dict_update", "k = 1\nlog = {}\ndef f(x):\n  log.update(a=k)\n  return x", set_k(2))
effect("dict_pop", "k = 'a'\nlog = {}\ndef f(x):\n  log.update(a=1, b=2); log.pop(k)\n  return x", set_k("b"))
effect("dict_setdefault", "k = 'a'\nlog = {}\ndef f(x):\n  log.setdefault(k, 1)\n  return x", set_k("b"))
effect("set_add", "k = 1\nlog = set()\ndef f(x):\n  log.add(k)\n  return x", set_k(2))
effect("attribute_store", "k = 1\nclass C: pass\nc = C()\ndef f(x):\n  c.v = k\n  return x", set_k(2))
effect("attribute_store_tensor", "k = 1\nclass C: pass\nc = C()\ndef f(x):\n  c.v = x * k\n  return x", set_k(2))
effect(
    "attribute_delete",
    "k = 'v'\nclass C: pass\nc = C()\ndef f(x):\n  c.v = c.w = 1\n  delattr(c, k)\n  return x",
    set_k("w"),
)
effect("class_attribute_store", "k = 1\nclass C: pass\ndef f(x):\n  C.v = k\n  return x * C.v", set_k(2))
effect(
    "property_setter",
    "k = 1\nlog = [0]\nclass C:\n  @property\n  def v(self): pass\n  @v.setter\n"
    "  def v(self, n): log[0] = n\nc = C()\ndef f(x):\n  c.v = k\n  return x",
    set_k(2),
)
effect(
    "setattr_hook",
    "k = 1\nlog = [0]\nclass C:\n  def __setattr__(self, n, v): log[0] = (n, v)\nc = C()\n"
    "def f(x):\n  c.v = k\n  return x",
    set_k(2),
)
effect(
    "closure_store",
    "k = 1\ndef make():\n  n = 0\n  def f(x):\n    nonlocal n\n    n = k\n    return x\n"
    "  def get(): return n\n  return f, get\nf, get = make()\ng = f\ndef f(x):\n  g(x)\n"
    "  return x * get()",
    set_k(2),
)
effect(
    "default_list_grows", "def f(x, log=[]):\n  log.append(1)\n  return x * len(log)", lambda m: None, evolves=True
)
effect(
    "deque_append",
    "import collections\nk = 1\nlog = collections.deque(maxlen=2)\ndef f(x):\n  log.append(k)\n"
    "  return x, list(log)",
    set_k(2),
    evolves=True,
)
effect(
    "stringio",
    "import io\nk = 'a'\nout = io.StringIO()\ndef f(x):\n  out.write(k)\n  return x, out.getvalue()",
    set_k("b"),
    evolves=True,
)
effect("effect_then_exception", "k = 1\nlog = [0]\ndef f(x):\n  log[0] = k\n  raise ValueError(k)", set_k(2))
effect(
    "exception_then_no_effect",
    "k = 1\nlog = [0]\ndef f(x):\n  if k == 2: raise ValueError(k)\n  log[0] += 0\n  return x",
    set_k(2),
)
effect("effect_in_finally", "k = 1\nlog = [0]\ndef f(x):\n  try: return x\n  finally: log[0] = k", set_k(2))
effect("effect_in_callee", "k = 1\nlog = [0]\ndef g(): log[0] = k\ndef f(x):\n  g()\n  return x", set_k(2))
effect(
    "effect_in_comprehension",
    "k = 2\nlog = []\ndef f(x):\n  log.clear()\n  [log.append(i) for i in range(k)]\n  return x",
    set_k(3),
)
effect(
    "effect_order_of_two_lists",
    "k = True\nlog = []\ndef f(x):\n  log.clear()\n  a, b = log, log\n  (a if k else b).append(1)\n"
    "  b.append(2 + k)\n  return x",
    set_k(False),
)
effect("tensor_in_place", "k = 1.0\nt = torch.zeros(3)\ndef f(x):\n  t.fill_(k)\n  return x", set_k(2.0))
effect(
    "tensor_in_place_counter",
    "t = torch.zeros(3)\ndef f(x):\n  t.add_(1)\n  return x + t.sum()",
    lambda m: None,
    evolves=True,
)
effect("tensor_item_store", "k = 0\nt = torch.zeros(3)\ndef f(x):\n  t.zero_()\n  t[k] = 5\n  return x", set_k(1))
effect("tensor_attribute", "k = 1\nt = torch.zeros(3)\ndef f(x):\n  t.tag = k\n  return x * t.tag", set_k(2))
effect("generator_state", "k = 1\ndef f(x):\n  torch.manual_seed(k)\n  return x + torch.rand(4)", set_k(2))
effect("random_numbers", "def f(x): return x + torch.rand(4)", lambda m: None, evolves=True)
effect("python_random", "import random\nk = 1\ndef f(x):\n  random.seed(k)\n  return x * random.random()", set_k(2))
effect(
    "numpy_random",
    "import numpy\nk = 1\ndef f(x):\n  numpy.random.seed(k)\n  return x * float(numpy.random.rand())",
    set_k(2),
)
effect(
    "environment_store",
    "import os\nk = 'a'\ndef f(x):\n  os.environ['STALE_CASE'] = k\n  return x, os.environ.pop('STALE_CASE')",
    set_k("b"),
)
effect(
    "module_attribute_store",
    "import types\nother = types.ModuleType('o')\nk = 1\ndef f(x):\n  other.v = k\n  return x * other.v",
    set_k(2),
)
effect(
    "sys_modules_store",
    "import sys\nk = 1\ndef f(x):\n  sys.modules['stale_s'] = k\n  return x * sys.modules.pop('stale_s')",
    set_k(2),
)
effect(
    "callback",
    "k = 1\nlog = [0]\ndef note(v): log[0] = v\ndef f(x):\n  note(k)\n  return x",
    lambda m: setattr(m, "note", lambda v: m.log.__setitem__(0, v * 100)),
)
effect(
    "swap_two_items",
    "a, b = [1], [2]\nk = True\ndef f(x):\n  if k: a[0], b[0] = 1, 2\n  else: a[0], b[0] = b[0], a[0]\n  return x",
    set_k(False),
)
effect(
    "late_read_of_stored",
    "k = 1\nout = 0\ndef f(x):\n  global out\n  out = k\n  y = x * out\n  out = 0\n  return y",
    set_k(2),
)


@case
def argument_list_is_mutated():
    m = module("k = 1\ndef f(x, log):\n  log[0] = k\n  return x")
    yield m.f, tensor(), [0]
    m.k = 2


@case
def argument_tensor_is_mutated():
    m = module("k = 1.0\ndef f(x):\n  x.fill_(k)\n  return x")
    yield m.f, tensor()
    m.k = 2.0


@case
def argument_object_is_mutated():
    m = module("k = 1\nclass C: pass\ndef f(x, c):\n  c.v = k\n  return x")
    yield m.f, tensor(), m.C()
    m.k = 2


@case
def generator_argument_is_consumed():
    m = module("def f(x, it): return x * next(it), it")
    it = iter([3, 3, 4])
    yield m.f, tensor(), it


@case
def context_manager_effects():
    m = module(
        "import contextlib\nk = 1\nlog = [0]\n@contextlib.contextmanager\ndef w():\n  log[0] = k\n"
        "  yield k\n  log[0] = -k\n"
        "def f(x):\n  with w() as v: return x * v"
    )
    yield call(m.f, tensor()).watch(m)
    m.k = 2


@case
def stored_method_of_a_list_of_the_call():
    m = module(
        "log = print\nkept = [0]\nk = 1\n"
        "def f(x):\n"
        "    global log, take\n"
        "    made = [k]\n"
        "    log, take = made.append, kept.pop\n"
        "    return made, x * k\n"
        "def g(x):\n"
        "    made, y = f(x)\n"
        "    log(k + 1)\n"
        "    kept.append(7)\n"
        "    return made, y, take(), log.__self__ is made, take.__self__ is kept"
    )
    yield m.g, tensor()
    m.k = 2
    yield
    m.kept = [1, 2]


@case
def stored_method_of_a_dict_of_the_call():
    m = module(
        "class Box: pass\nbox = Box()\nk = 1\n"
        "def f(x):\n"
        "    made = {'a': k}\n"
        "    box.ask, box.set = made.get, made.setdefault\n"
        "    return made, x * box.ask('a')"
    )
    f, box = m.f, m.box

    def called(x):
        made, y = f(x)
        box.set("b", 5)
        return made, y, box.ask("b"), box.ask.__self__ is made

    yield called, tensor()
    m.k = 2
