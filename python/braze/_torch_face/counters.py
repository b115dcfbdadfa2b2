"""torch._dynamo.utils.counters: counts by kind."""

import collections
from collections.abc import Iterator
from typing import Any

from braze._compile import compiled_functions
from braze._explain import count_graphs


def _all() -> dict[str, collections.Counter]:
    counters: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for compiled in list(compiled_functions):
        report = compiled.report()
        for kind, count in report["counts"].items():
            counters["frames"][kind] += count
        counters["stats"]["unique_graphs"] += count_graphs(report["segments"])
        for segment in report["segments"]:
            counters["stats"]["calls_captured"] += segment["op_count"]
            if segment["break"]:
                counters["graph_break"][segment["break"]["reason"]] += 1
    return counters


class Counters(collections.defaultdict):
    """A dict of counters, as they are when they are read. What a script adds to them is kept."""

    def __init__(self) -> None:
        super().__init__(collections.Counter)
        self._before: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        self._shown: dict[str, collections.Counter] = {}

    def _refresh(self) -> None:
        """What was counted since clear(), and what the script has changed of what it was shown."""
        for kind, now in super().items():
            added = collections.Counter(now)
            added.subtract(self._shown.get(kind, {}))
            self._before[kind].subtract(added)
        every = _all()
        for kind in {*every, *self._before}:
            count = collections.Counter(every[kind])
            count.subtract(self._before[kind])
            kept = +count
            if kept or kind in self._shown:
                super().__setitem__(kind, kept)
        self._shown = {kind: collections.Counter(now) for kind, now in super().items()}

    def clear(self) -> None:
        super().clear()
        self._shown = {}
        self._before = _all()

    def __missing__(self, kind: str) -> collections.Counter:
        super().__setitem__(kind, collections.Counter())
        return super().__getitem__(kind)

    def pop(self, kind: str, *default: Any) -> Any:
        self._refresh()
        count = super().pop(kind, *default)
        self._before[kind].update(self._shown.pop(kind, {}))
        return count

    def copy(self) -> dict[str, collections.Counter]:
        """As they are now."""
        self._refresh()
        return collections.defaultdict(collections.Counter, {kind: now.copy() for kind, now in super().items()})

    __copy__ = copy

    def __reduce__(self) -> tuple[Any, ...]:
        return collections.defaultdict, (collections.Counter, dict(self.copy()))

    def __iter__(self) -> Iterator[str]:
        self._refresh()
        return super().__iter__()


def _refreshed(name: str) -> Any:
    plain = getattr(collections.defaultdict, name)

    def method(self: Counters, *args: Any, **kwargs: Any) -> Any:
        self._refresh()
        return plain(self, *args, **kwargs)

    return method


_READING = (
    "__contains__",
    "__eq__",
    "__getitem__",
    "__len__",
    "__repr__",
    "get",
    "items",
    "keys",
    "setdefault",
    "values",
)
for _name in _READING:
    setattr(Counters, _name, _refreshed(_name))
