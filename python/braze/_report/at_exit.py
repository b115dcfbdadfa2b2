"""BRAZE_REPORT=folder: a page about every function that was compiled, written as the process ends."""

import atexit
import re
import sys
from pathlib import Path
from typing import Any

#: Compiled functions whose pages are wanted, by the folder, in the order in which they were made. They are kept
#: alive: a function that was used inside of another would be gone at the end.
_wanted: list[tuple[str, Any]] = []


def keep(folder: str, compiled: Any) -> None:
    """At the end of the process there is a page about `compiled` in the folder."""
    if not _wanted:
        atexit.register(_write_all)
    _wanted.append((folder, compiled))


def _write_all() -> None:
    from braze._report import report

    names: set[Path] = set()
    while _wanted:
        folder, compiled = _wanted.pop(0)
        if not sum(compiled.counts().values()):
            continue  # Never called.
        stem = re.sub(r"\W+", "_", getattr(compiled, "__qualname__", type(compiled.__wrapped__).__name__)).strip(
            "_"
        )
        path, number = Path(folder) / f"{stem}.html", 1
        while path in names:
            number += 1
            path = Path(folder) / f"{stem}_{number}.html"
        names.add(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            report(compiled, path)
        except OSError as error:  # The program itself has done its work.
            print(f"braze: the report {path} cannot be written: {error}", file=sys.stderr)
