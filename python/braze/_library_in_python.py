"""What captures run in the place of functions of the standard library that are written in C and call, or look into,
what they are given: Python code that does the same, so that all of it is watched. The unusual is left to C code."""

import bisect
import functools
import heapq
import inspect
import itertools
import operator
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from braze._load import C

Sequence = list[Any] | tuple[Any, ...]
Key = Callable[[Any], Any] | None
COMPENSATES = sys.version_info >= (3, 12)  # sum() of floats keeps what rounding loses.

# ---- getters


def get_attributes(names: tuple[str, ...], subject: Any) -> Any:
    """operator.attrgetter(*names)(subject)"""
    if len(names) == 1:
        return _attribute(subject, names[0])
    return tuple([_attribute(subject, name) for name in names])


def _attribute(subject: Any, path: str) -> Any:
    for name in path.split("."):
        subject = getattr(subject, name)
    return subject


def get_items(keys: tuple[Any, ...], subject: Any) -> Any:
    """operator.itemgetter(*keys)(subject)"""
    return subject[keys[0]] if len(keys) == 1 else tuple([subject[key] for key in keys])


def call_method(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], subject: Any) -> Any:
    """operator.methodcaller(name, *arguments, **keywords)(subject)"""
    return getattr(subject, name)(*arguments, **keywords)


# ---- calls


def call(function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
    """operator.call, and f(*items) where f is written in C and the items come out of an iterator."""
    return function(*arguments, **keywords)


def signature_of(subject: Any) -> inspect.Signature:
    """inspect.signature() of a class with an `__init__` or `__new__` in Python, or of an object with such a
    `__call__`: the function's, without its first parameter."""
    method = _called(subject)
    if type(method) is not types.FunctionType or getattr(subject, "__signature__", None) is not None:
        return C.end_graph("the signature of an object of this kind")
    told = inspect.signature(method)
    parameters = list(told.parameters.values())
    first = parameters[0].kind if parameters else None
    if first is inspect.Parameter.VAR_POSITIONAL:
        return told
    if first is not inspect.Parameter.POSITIONAL_OR_KEYWORD and first is not inspect.Parameter.POSITIONAL_ONLY:
        return C.end_graph("the signature of an object of this kind")
    return told.replace(parameters=parameters[1:])


def _called(subject: Any) -> Any:
    if not isinstance(subject, type):
        return type(subject).__call__
    if type(subject).__call__ is not type.__call__:
        return None
    for base in subject.__mro__:
        for name in ("__new__", "__init__"):
            if name in base.__dict__ and base is not object:
                return getattr(subject, name)
    return None


def collect(kind: Callable[..., Any], items: Any) -> Any:
    """set(items) or frozenset(items)"""
    return kind([*items])


def fill(kind: Callable[..., Any], mapping: Any, **more: Any) -> Any:
    """dict(mapping, **more) or OrderedDict(mapping, **more), of what is asked for its keys"""
    made = kind()
    for key in [*mapping.keys()]:
        made[key] = mapping[key]
    for key in more:
        made[key] = more[key]
    return made


def fill_by_pairs(kind: Callable[..., Any], pairs: Any, /, **more: Any) -> Any:
    """dict(pairs, **more) or OrderedDict(pairs, **more), of an iterator or the items of a dict"""
    made = kind()
    update_by_pairs(made, pairs, **more)
    return made


def update(target: dict[Any, Any], mapping: Any, /, **more: Any) -> None:
    """target.update(mapping, **more), likewise"""
    if isinstance(target, OrderedDict):
        keys = mapping.keys()
        for key in keys:
            target[key] = mapping[key]
    else:
        for key in [*mapping.keys()]:
            dict.__setitem__(target, key, mapping[key])
    for key in more:
        _put(target, key, more[key])


def update_by_pairs(target: dict[Any, Any], pairs: Any, /, **more: Any) -> None:
    """target.update(pairs, **more), where nothing says that it has keys"""
    for pair in pairs:
        if (type(pair) is not tuple and type(pair) is not list and type(pair) is not str) or len(pair) != 2:
            return C.end_graph("a dict of what are no pairs")
        _put(target, pair[0], pair[1])
    for key in more:
        _put(target, key, more[key])


def _put(target: dict[Any, Any], key: Any, value: Any) -> None:
    if type(target) is dict or isinstance(target, OrderedDict):
        target[key] = value
    else:
        dict.__setitem__(target, key, value)


def items_of(iterable: Any) -> Iterator[Any]:
    """What C code goes through in its place."""
    for item in iterable:  # noqa: UP028 (`yield from` has C code ask for the items)
        yield item


def items_of_list(iterable: Any) -> Iterator[Any]:
    """Likewise, where C code asks how many there are before it begins."""
    yield from [*iterable]


# ---- items that are compared or summed up


def total(iterable: Any, /, start: Any = 0) -> Any:
    """sum()"""
    if isinstance(start, (str, bytes, bytearray)):
        return sum(iterable, start)
    result = start
    for item in iterable:
        if COMPENSATES and type(item) is float and (type(result) is int or type(result) is float):
            return sum([result, item, *iterable])
        result = result + item
    return result


def largest(iterable: Any, /, **settings: Any) -> Any:
    """max()"""
    return _extreme(iterable, max, **settings)


def smallest(iterable: Any, /, **settings: Any) -> Any:
    """min()"""
    return _extreme(iterable, min, **settings)


def _extreme(iterable: Any, of: Any, key: Key = None, **settings: Any) -> Any:
    best, best_value, is_first = None, None, True
    for item in iterable:
        value = item if key is None else key(item)
        if is_first or (value > best_value if of is max else value < best_value):  # type: ignore[operator]
            best, best_value, is_first = item, value, False
    if is_first:
        return settings["default"] if "default" in settings else of(())
    return best


def folded(function: Callable[[Any, Any], Any], iterable: Any, /, *initial: Any) -> Any:
    """functools.reduce()"""
    is_first = not initial
    value = None if is_first else initial[0]
    for item in iterable:
        value, is_first = (item, False) if is_first else (function(value, item), False)
    return functools.reduce(function, ()) if is_first else value


def ordered(iterable: Any, /, key: Key = None, reverse: bool = False) -> list[Any]:
    """sorted()"""
    items = [*iterable]
    if key is None:
        return sorted(items, reverse=True) if reverse else sorted(items)
    values = [key(item) for item in items]
    if len(items) > 16 or any([type(value) is not int for value in values]):
        found = iter(values)
        return sorted(items, key=lambda _: next(found), reverse=reverse)
    result: list[Any] = []
    placed: list[int] = []
    for item, value in zip(items, values, strict=True):
        at = len(placed)
        while at > 0 and (placed[at - 1] < value if reverse else value < placed[at - 1]):
            at -= 1
        result.insert(at, item)
        placed.insert(at, value)
    return result


# ---- sorted lists


def _is_part(items: Sequence, low: int, high: int | None) -> bool:
    """Of what else there is, C code has its own opinion: a `high` of -1 is none, say."""
    if type(items) is not list and type(items) is not tuple:
        return False
    return type(low) is int and low >= 0 and (high is None or (type(high) is int and high >= 0))


def bisect_left(a: Sequence, x: Any, lo: int = 0, hi: int | None = None, *, key: Key = None) -> int:
    if not _is_part(a, lo, hi):
        return bisect.bisect_left(a, x, lo, hi, key=key)
    high = len(a) if hi is None else hi
    while lo < high:
        middle = (lo + high) // 2
        item = a[middle] if key is None else key(a[middle])
        if item < x:
            lo = middle + 1
        else:
            high = middle
    return lo


def bisect_right(a: Sequence, x: Any, lo: int = 0, hi: int | None = None, *, key: Key = None) -> int:
    if not _is_part(a, lo, hi):
        return bisect.bisect_right(a, x, lo, hi, key=key)
    high = len(a) if hi is None else hi
    while lo < high:
        middle = (lo + high) // 2
        item = a[middle] if key is None else key(a[middle])
        if x < item:
            high = middle
        else:
            lo = middle + 1
    return lo


def insort_left(a: list[Any], x: Any, lo: int = 0, hi: int | None = None, *, key: Key = None) -> None:
    if type(a) is not list or not _is_part(a, lo, hi):
        return bisect.insort_left(a, x, lo, hi, key=key)
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_right(a: list[Any], x: Any, lo: int = 0, hi: int | None = None, *, key: Key = None) -> None:
    if type(a) is not list or not _is_part(a, lo, hi):
        return bisect.insort_right(a, x, lo, hi, key=key)
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


# ---- heaps. As in C, items are exchanged step by step, which a comparison that raises or looks can see.


def _is_heap(heap: list[Any]) -> bool:
    """Longer ones are made in another order."""
    return type(heap) is list and len(heap) <= 2500


def _is_above(heap: list[Any], first: Any, second: Any, largest: bool) -> bool:
    size = len(heap)
    is_above = bool(second < first if largest else first < second)
    if len(heap) != size:
        raise RuntimeError("list changed size during iteration")
    return is_above


def _sift_down(heap: list[Any], start: int, at: int, largest: bool) -> None:
    while at > start:
        parent = (at - 1) >> 1
        if not _is_above(heap, heap[at], heap[parent], largest):
            break
        heap[at], heap[parent] = heap[parent], heap[at]
        at = parent


def _sift_up(heap: list[Any], at: int, largest: bool) -> None:
    start, end = at, len(heap)
    while at < end >> 1:
        child = 2 * at + 1
        if child + 1 < end and not _is_above(heap, heap[child], heap[child + 1], largest):
            child += 1
        heap[at], heap[child] = heap[child], heap[at]
        at = child
    _sift_down(heap, start, at, largest)


def _make_heap(heap: list[Any], largest: bool) -> None:
    for at in range((len(heap) >> 1) - 1, -1, -1):
        _sift_up(heap, at, largest)


def _replace(heap: list[Any], item: Any, largest: bool) -> Any:
    first, heap[0] = heap[0], item
    _sift_up(heap, 0, largest)
    return first


def heapify(heap: list[Any], /) -> None:
    return _make_heap(heap, largest=False) if _is_heap(heap) else heapq.heapify(heap)


def _heapify_max(heap: list[Any], /) -> None:
    return _make_heap(heap, largest=True) if _is_heap(heap) else heapq._heapify_max(heap)  # type: ignore[attr-defined]


def heappush(heap: list[Any], item: Any, /) -> None:
    if not _is_heap(heap):
        return heapq.heappush(heap, item)
    heap.append(item)
    _sift_down(heap, 0, len(heap) - 1, largest=False)


def heappop(heap: list[Any], /) -> Any:
    if not _is_heap(heap) or not heap:
        return heapq.heappop(heap)
    last = heap.pop()
    return _replace(heap, last, largest=False) if heap else last


def heapreplace(heap: list[Any], item: Any, /) -> Any:
    if not _is_heap(heap) or not heap:
        return heapq.heapreplace(heap, item)
    return _replace(heap, item, largest=False)


def _heapreplace_max(heap: list[Any], item: Any, /) -> Any:
    if not _is_heap(heap) or not heap:
        return heapq._heapreplace_max(heap, item)  # type: ignore[attr-defined]
    return _replace(heap, item, largest=True)


def heappushpop(heap: list[Any], item: Any, /) -> Any:
    if not _is_heap(heap):
        return heapq.heappushpop(heap, item)
    if not heap or not heap[0] < item:
        return item
    return _replace(heap, item, largest=False) if heap else heapq.heappop(heap)


# ---- itertools


class Tee:
    """One of itertools.tee's iterators: what another one has taken of the source is kept for it."""

    def __init__(self, source: Iterator[Any], taken: list[Any]) -> None:
        self.source, self.taken, self.at = source, taken, 0

    def __iter__(self) -> "Tee":
        return self

    def __next__(self) -> Any:
        if self.at == len(self.taken):
            self.taken.append(next(self.source))
        self.at += 1
        return self.taken[self.at - 1]


def tee(iterable: Any, n: int = 2, /) -> tuple[Tee, ...]:
    """itertools.tee"""
    if type(iterable) is Tee or type(n) is not int or n < 0:
        return C.end_graph("a C function that is not understood")
    source, taken = iter(iterable), []
    return tuple([Tee(source, taken) for _ in range(n)])


def accumulated(kind: Any, iterable: Any, func: Any = None, *, initial: Any = None) -> Any:
    """itertools.accumulate() with a function in Python: the iterator only hands the items to it."""
    items = iterable
    if initial is not None:
        is_sequence = type(iterable) is list or type(iterable) is tuple
        items = _begun(initial, iterable if is_sequence else iter(iterable))
    if func is None:
        return kind(items, _plus)
    return kind(items, func if type(func) is types.FunctionType else lambda a, b: func(a, b))


def _begun(first: Any, others: Any) -> Iterator[Any]:
    yield first
    for item in others:  # noqa: UP028 (as in items_of)
        yield item


def _plus(a: Any, b: Any) -> Any:
    return a + b


def install() -> None:
    if not hasattr(C, "set_stand_in"):  # A Python without capture.
        return
    C.set_stand_in(operator.attrgetter.__call__, get_attributes)
    C.set_stand_in(operator.itemgetter.__call__, get_items)
    C.set_stand_in(operator.methodcaller.__call__, call_method)
    C.set_stand_in(operator.call, call)
    # Forms that are asked for by name.
    for name, form in (
        ("set", collect),
        ("dict", fill),
        ("dict of pairs", fill_by_pairs),
        ("dict.update", update),
        ("dict.update of pairs", update_by_pairs),
        ("itertools.accumulate", accumulated),
        ("items", items_of),
        ("items of a list", items_of_list),
    ):
        C.set_stand_in(sys.intern(name), form)
    C.set_stand_in(inspect.signature, signature_of)
    C.set_stand_in(functools.reduce, folded)
    C.set_stand_in(itertools.tee, tee)
    for original, function in ((sum, total), (max, largest), (min, smallest), (sorted, ordered)):
        C.set_stand_in(original, function)
    for function in (bisect_left, bisect_right, insort_left, insort_right):
        C.set_stand_in(getattr(bisect, function.__name__), function)
    for function in (heapify, _heapify_max, heappush, heappop, heapreplace, _heapreplace_max, heappushpop):
        C.set_stand_in(getattr(heapq, function.__name__), function)
