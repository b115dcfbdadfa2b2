"""functools.lru_cache and its like: effects of what is cached, the order of use, counts, keywords."""

from staleness import call, case, module, tensor

HEAD = "import functools\nn = [0]\nlog = []\n"


def counted(name, decorator, uses, change, observe="n[0]"):
    """`uses` is made by f; what the cache gives afterwards depends on the order in which it was used."""

    @case(name=name)
    def made():
        m = module(
            f"{HEAD}@functools.{decorator}\ndef g(k, *a, **kw):\n  n[0] += 1\n  return n[0]\n"
            f"def f(x): return x * ({uses})"
        )
        for line in change[0]:
            exec(line, m.__dict__)
        yield m.f, tensor()
        for line in change[1]:
            exec(line, m.__dict__)


WARM = ["g(1)"]
for size in (1, 2, 3):
    others = [f"g({k})" for k in range(2, 2 + size)]
    counted(f"evicted from {size}", f"lru_cache({size})", "g(1)", (WARM, others))
counted(
    "a use keeps an entry", "lru_cache(2)", "g(1)", (WARM, ["g(2)", "f(torch.ones(1))", "g(3)", "g.cache_clear()"])
)
counted("cleared", "lru_cache(None)", "g(1)", (WARM, ["g.cache_clear()"]))
counted("cleared, of cache()", "cache", "g(1)", (WARM, ["g.cache_clear()"]))
counted("cleared, by keyword", "cache", "g(k=1)", (["g(k=1)"], ["g.cache_clear()"]))
counted("cleared, with more keywords", "cache", "g(1, a=2, b=3)", (["g(1, a=2, b=3)"], ["g.cache_clear()"]))
counted("cleared, typed", "lru_cache(None, typed=True)", "g(1)", (WARM, ["g.cache_clear()"]))
counted("cleared, typed by keyword", "lru_cache(4, typed=True)", "g(k=1.0)", (["g(k=1.0)"], ["g.cache_clear()"]))
counted("cleared, of text", "lru_cache", "g('a')", (["g('a')"], ["g.cache_clear()"]))
counted("cleared, of a tuple", "lru_cache", "g((1, 2))", (["g((1, 2))"], ["g.cache_clear()"]))
counted("cleared, of several", "lru_cache", "g(1, 2, 'c')", (["g(1, 2, 'c')"], ["g.cache_clear()"]))
counted("cleared, of nothing kept", "lru_cache(0)", "g(1) * 0 + n[0] * 0 + 1 + len(log)", (WARM, ["log.append(1)"]))
counted("two caches' worth", "lru_cache(2)", "g(1) * 10 + g(2)", (["g(1)", "g(2)"], ["g(3)", "g(4)"]))
counted("replaced", "lru_cache", "g(1)", (WARM, ["g = lambda k: 50"]))
counted("by partial", "lru_cache", "functools.partial(g, 1)()", (WARM, ["g.cache_clear()"]))
counted("by map", "lru_cache", "sum(map(g, [1]))", (WARM, ["g.cache_clear()"]))
counted("by unpacking", "lru_cache", "g(*[1], **{'a': 2})", (["g(1, a=2)"], ["g.cache_clear()"]))


def effects(name, body, watched="log"):
    """A call does what it does to `log`, in order, each time."""

    @case(name=name, evolves=True)
    def made():
        m = module(f"{HEAD}{body}")
        yield call(m.f, tensor()).watch(m.log)


CACHED = "@functools.lru_cache(None)\ndef g(k):\n  log.append('g'); return k + 1\n"
effects("effects of the cached function", CACHED + "def f(x):\n  log.append('f')\n  return x * g(2)")
effects("effects behind", CACHED + "def f(x):\n  y = x * g(2)\n  log.append('f')\n  return y")
effects(
    "effects between", CACHED + "def f(x):\n  log.append(1)\n  y = x * g(2)\n  log.append(2)\n  return y * g(3)"
)
effects("effects of several", CACHED + "def f(x):\n  log.append(g(1) + g(2))\n  return x * g(1)")
effects("always something new", CACHED + "def f(x):\n  return x * g(len(log))")
effects("counts", CACHED + "def f(x):\n  y = x * g(2)\n  log.append(tuple(g.cache_info()))\n  return y")
effects(
    "counts of a hit and a miss",
    CACHED + "def f(x):\n  y = x * g(2) * g(len(log))\n  log.append(tuple(g.cache_info()))\n  return y",
)


@case(evolves=True)
def counts_seen_from_outside():
    m = module(f"{HEAD}@functools.lru_cache(2)\ndef g(k): return k\ndef f(x): return x * g(1)")
    info = []

    class Info:
        def __iter__(self):
            return iter(())

    def f(x):
        info.append(tuple(m.g.cache_info()))
        return m.f(x)

    yield call(m.f, tensor()).watch(info)
    f(tensor())


@case
def a_method_with_a_cache():
    m = module(
        f"{HEAD}class C:\n  def __init__(self, k): self.k = k\n"
        "  @functools.lru_cache\n  def g(self, i): return self.k + i\n"
        "c = C(2)\ndef f(x): return x * c.g(1)"
    )
    yield m.f, tensor()
    m.c = m.C(5)


@case
def a_method_with_a_cache_keeps():
    m = module(
        f"{HEAD}class C:\n  k = 2\n  @functools.lru_cache\n  def g(self, i): return self.k + i\n"
        "c = C()\ndef f(x): return x * c.g(1)"
    )
    yield m.f, tensor()
    m.C.k = 9
    yield (tensor(),)
    m.C.g.cache_clear()
    yield (tensor(),)


@case
def a_cached_list_changes():
    m = module(f"{HEAD}@functools.lru_cache\ndef g(k): return [k, 2]\ndef f(x): return x * sum(g(1))")
    yield m.f, tensor()
    m.g(1).append(5)


@case
def a_cached_dict_changes():
    m = module(f"{HEAD}@functools.cache\ndef g(): return dict(a=1)\ndef f(x): return x * g()['a']")
    yield m.f, tensor()
    m.g()["a"] = 5


@case
def a_cached_tensor_changes():
    m = module(f"{HEAD}@functools.lru_cache(8)\ndef g(k): return torch.ones(4) * k\ndef f(x): return x + g(2)")
    yield m.f, tensor()
    m.g(2).mul_(4)


@case
def a_cached_object_is_given():
    m = module(f"{HEAD}class C: pass\n@functools.lru_cache\ndef g(k): return C()\ndef f(x): return x * g(1).v")
    m.g(1).v = 2
    yield m.f, tensor()
    m.g(1).v = 3


@case
def singledispatch_registers():
    m = module(
        f"{HEAD}@functools.singledispatch\ndef g(v): return 1\n@g.register\ndef _(v: int): return 2\n"
        "def f(x, v): return x * g(v)"
    )
    yield m.f, tensor(), "text"
    m.g.register(str, lambda v: 7)


@case
def cached_property_set():
    m = module(
        f"{HEAD}class C:\n  k = 2\n  @functools.cached_property\n  def p(self): return self.k\n"
        "c = C()\ndef f(x): return x * c.p"
    )
    yield m.f, tensor()
    m.c.p = 7


@case(evolves=True)
def cached_property_has_effects():
    m = module(
        f"{HEAD}class C:\n  @functools.cached_property\n  def p(self): log.append(1); return len(log)\n"
        "c = C()\ndef f(x):\n  y = x * c.p\n  del c.p\n  return y"
    )
    yield call(m.f, tensor()).watch(m.log)
