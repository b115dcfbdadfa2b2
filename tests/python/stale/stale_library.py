"""Older sets and deques, patterns of text, types with parameters and copies, of which something changes."""

import collections
import re

import torch
from staleness import call, case, module, tensor


@case
def a_set_gets_another_item():
    m = module("s = {1, 2}\ndef f(x): return [x * k for k in s]")
    yield m.f, tensor()
    m.s.add(7)


@case
def a_set_is_another_one_in_another_order():
    m = module("s = {8, 0}\ndef f(x): return [x * (k + 1) for k in s], list(s)")
    m.s = set()
    m.s.update([0, 8])
    yield m.f, tensor()
    m.s = set()
    m.s.update([8, 0])


@case
def a_set_is_filled_again_in_another_order():
    m = module("s = set()\ndef f(x): return [x * (k + 1) for k in s]")
    m.s.update([0, 8, 16])
    yield m.f, tensor()
    m.s.clear()
    m.s.update([16, 8, 0])


@case
def a_set_of_kinds_changes():
    m = module("s = {torch.float32, int}\ndef f(x): return x * len([k for k in s if k is int]), x.dtype in s")
    yield m.f, tensor()
    m.s.discard(int)


@case(evolves=True)
def a_set_is_changed_and_iterated():
    m = module("s = {1, 2}\ndef f(x):\n  s.add(len(s) + 8)\n  y = x * 2\n  return [y * k for k in s]")
    yield m.f, tensor()
    m.s.discard(1)


def deque(source, *items, **limits):
    return module(source, collections=collections, q=collections.deque(items, **limits))


@case
def an_item_of_a_deque_changes():
    m = deque("def f(x): return x * q[1]", 1, 2, 3)
    yield m.f, tensor()
    m.q[1] = 5


@case
def a_deque_is_rotated():
    m = deque("def f(x): return x * q[0], list(q)", 1, 2, 3)
    yield m.f, tensor()
    m.q.rotate(1)


@case
def a_deque_grows():
    m = deque("def f(x): return x * len(q), [n for n in q]", 1, 2)
    yield m.f, tensor()
    m.q.append(3)


@case
def a_deque_gets_empty():
    m = deque("def f(x): return x * 2 if q else x", 1)
    yield m.f, tensor()
    m.q.clear()


@case(evolves=True)
def a_deque_is_another_one():
    m = deque("def f(x):\n  q.append(1)\n  return x * len(q)", 1, maxlen=4)
    yield call(m.f, tensor()).watch(m.q)
    m.q = collections.deque([1], maxlen=2)


@case(evolves=True)
def a_deque_with_a_limit_moves_on():
    m = deque("def f(x):\n  q.append(q[0] + 1)\n  return x * q[-1]", 1, 2, maxlen=2)
    yield call(m.f, tensor()).watch(m.q)
    m.q.append(9)


@case(evolves=True)
def a_deque_of_tensors_is_a_window():
    m = deque("def f(x):\n  q.append(x * 2)\n  return torch.stack(tuple(q)).sum(0)", maxlen=2)
    yield call(m.f, tensor()).watch(m.q)
    m.q.appendleft(torch.ones(4))


@case
def two_deques_become_one():
    m = deque("def f(x):\n  q.append(5)\n  y = x * r[-1]\n  q.pop()\n  return y", 1)
    m.r = collections.deque([2])
    yield call(m.f, tensor()).watch(m.q)
    m.r = m.q


@case
def a_deque_drops_what_has_a_finalizer():
    class Noisy:
        def __del__(self):
            print("gone")

    m = deque("def f(x):\n  q.clear()\n  q.append(1)\n  return x * 2", 1)
    yield m.f, tensor()
    m.q.append(Noisy())
    yield tensor()
    m.q.clear()  # What is left in it would be told while another case is observed.


@case
def a_deque_is_a_subclass():
    class Odd(collections.deque):
        def __getitem__(self, key):
            return 7

    m = deque("def f(x): return x * q[0]", 1)
    yield m.f, tensor()
    m.q = Odd([1])


@case
def a_pattern_is_another_one():
    m = module("import re\nP = re.compile('a')\ndef f(x): return x * len(P.findall('aab'))")
    yield m.f, tensor()
    m.P = re.compile("b")


@case
def a_text_that_is_matched_changes():
    m = module(
        "import re\nt = 'aab'\nP = re.compile('a')\ndef f(x): return x * len(P.findall(t)), bool(P.match(t))"
    )
    yield m.f, tensor()
    m.t = "ba"


@case
def what_stands_in_place_of_a_match_changes():
    m = module(
        "import re\nP = re.compile('a')\nw = 'b'\ndef g(m): return w\ndef f(x): return x * 2, P.sub(g, 'aa')"
    )
    yield m.f, tensor()
    m.w = "c"


@case
def a_parameter_of_a_type_changes():
    m = module("from typing import List\nt = int\ndef f(x): return x * (List[t] == List[int])")
    yield m.f, tensor()
    m.t = str


@case
def a_class_gets_its_own_parameters():
    m = module(
        "import typing\nT = typing.TypeVar('T')\nclass C(typing.Generic[T]): pass\n"
        "def f(x): return x * 2, str(C[int])"
    )
    yield m.f, tensor()
    m.C.__class_getitem__ = classmethod(lambda cls, key: "mine")


@case
def a_copied_dict_of_texts_changes():
    m = module("import copy\nd = {'a': 'b'}\ndef f(x): return x * len(copy.deepcopy(d)['a']), copy.deepcopy(d)")
    yield m.f, tensor()
    m.d["a"] = "other"


@case
def a_copied_ordered_dict_moves():
    m = module(
        "import copy, collections\no = collections.OrderedDict(a=1, b=2)\ndef f(x): return x * 2, copy.copy(o)"
    )
    yield m.f, tensor()
    m.o.move_to_end("a")


@case
def a_copied_ordered_dict_gets_an_attribute():
    m = module(
        "import copy, collections\no = collections.OrderedDict(a=1)\ndef f(x): return x * 2, vars(copy.copy(o))"
    )
    yield m.f, tensor()
    m.o.note = 3


@case
def a_memo_of_a_copy_is_kept():
    m = module(
        "import copy\nclass C: pass\nc = C()\n"
        "def f(x, c):\n  memo = {}\n  copy.deepcopy(c, memo)\n  return x * 2, id(c) in memo"
    )
    yield m.f, tensor(), m.c
    yield m.f, tensor(), m.C()


@case
def a_memo_of_a_copy_is_handed_on():
    m = module(
        "import copy\nclass C: pass\nc = C()\ndef f(x, c):\n  memo = {}\n  copy.deepcopy(c, memo)\n"
        "  return x * 2, memo\ndef g(x, c):\n  y, memo = f(x, c)\n  return y, type(memo.get(id(c))).__name__"
    )
    yield m.g, tensor(), m.c
    yield m.g, tensor(), m.C()


@case
def a_deque_is_changed_before_it_is_read():
    m = deque("def f(x):\n  q.append(5)\n  y = x * q[0] * len(q)\n  q.pop()\n  return y", 1, 2)
    yield call(m.f, tensor()).watch(m.q)
    m.q[0] = 4


@case(evolves=True)
def a_deque_is_only_appended_to():
    m = deque("def f(x):\n  q.append(x.shape[0])\n  q.extend((1, 2))\n  return x * 2", maxlen=5)
    yield call(m.f, tensor()).watch(m.q)
    m.q.appendleft(7)


@case
def what_is_counted_changes():
    m = module("import collections\nw = ['a', 'b', 'a']\ndef f(x): return x * collections.Counter(w)['a']")
    yield m.f, tensor()
    m.w.append("a")
