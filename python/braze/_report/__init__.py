"""braze.report: what became of a compiled function, as one HTML page that needs nothing but a browser.

Jinja2 (which PyTorch brings along), the templates and most of this package are loaded when the first page is made.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from braze._load import C

#: Where a page keeps what it was made of, so that pages can be compared.
_FACTS = re.compile(r'<script type="application/json" id="facts">(.*?)</script>', re.DOTALL)


def report(compiled: Any, path: str | os.PathLike[str] = "report.html", *, title: str | None = None) -> Path:
    """Writes a page about what braze.compile or braze.trace returned, and returns its path.

    The page tells how often the function was called and what ran compiled or natively, and why; graphs with source
    lines, as text and as a drawing; every kernel with its loops, machine code, the bytes that it moves and the
    time that it took; memory over time; guards and what checking them costs; recompilations with the value that
    did not fit; graph breaks with remedies; the phases of compilation. It holds all it shows: no network, no
    scripts needed.

    Args:
        compiled: a compiled function or module, or a braze.Program. Times are there once it was called twice.
        path: of the file; one that exists is replaced.
        title: instead of the function's name.

    Raises:
        ArgumentTypeError: `compiled` is none of these.
        OSError: the file cannot be written.

    >>> fast = braze.compile(model)
    >>> fast(x), fast(x)
    >>> braze.report(fast, "report.html")
    """
    from braze._report.collect import collect

    facts = collect(compiled, title)
    return _write(path, "page.html", facts=facts, embedded=_embedded(facts))


def compare_reports(
    before: str | os.PathLike[str], after: str | os.PathLike[str], path: str | os.PathLike[str] = "comparison.html"
) -> Path:
    """Writes a page that sets two pages of report() side by side: what a change has changed. Returns its path.

    Kernels are matched by what they compute, programs by the function and line where they begin.

    Raises:
        ArgumentValueError: one of the two was not written by report().
        OSError: a file cannot be read or written.

    >>> braze.compare_reports("before.html", "after.html", "comparison.html")
    """
    from braze._report.comparison import compare

    return _write(path, "comparison.html", comparison=compare(_facts_of(before), _facts_of(after)))


def _facts_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    found = _FACTS.search(Path(path).read_text(encoding="utf-8"))
    if found is None:
        raise C.ArgumentValueError(f"{os.fspath(path)} is no page that braze.report has written")
    return json.loads(found.group(1))


def _embedded(facts: dict[str, Any]) -> str:
    """What a comparison needs of the facts: numbers and names, not the texts."""
    texts = {"loops", "asm", "graph", "guards", "lines"}

    def without_texts(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_texts(each) for key, each in value.items() if key not in texts}
        if isinstance(value, list):
            return [without_texts(each) for each in value]
        return value

    # "</script>" in a name would end the element.
    return json.dumps(without_texts(facts), separators=(",", ":")).replace("<", "\\u003c")


def _write(path: str | os.PathLike[str], template: str, **values: Any) -> Path:
    from braze._report.render import render

    path = Path(path)
    path.write_text(render(template, **values), encoding="utf-8")
    return path
