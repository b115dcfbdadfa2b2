"""What the lessons print, in the pages that explain them.

A page has places for it, each of which names a compiler and a section of its output; what stands between the two
comments is the program's, everything else is written by hand:

    <!-- braze: Guards -->
    <!-- end -->
"""

import re
from pathlib import Path

_PLACE = re.compile(r"(<!-- (?P<compiler>\w+): (?P<section>[^\n]*?) -->\n)(?P<text>.*?)(<!-- end -->)", re.DOTALL)
_FENCE = "```text\n", "```\n"


def sections(printed: str) -> dict[str, str]:
    """The parts of a lesson's output by their names."""
    _, *parts = re.split(r"^== (.*)\n", printed, flags=re.MULTILINE)
    return {name: text.strip("\n") + "\n" for name, text in zip(parts[::2], parts[1::2], strict=True)}


def places(page: str) -> list[tuple[str, str, str]]:
    """(compiler, section, text) of every place in a page."""
    return [
        (found["compiler"], found["section"], found["text"].removeprefix(_FENCE[0]).removesuffix(_FENCE[1]))
        for found in _PLACE.finditer(page)
    ]


def write(path: Path, printed: dict[str, str]) -> None:
    """Fills a page's places anew with what each compiler's run has printed."""
    found = {compiler: sections(text) for compiler, text in printed.items()}

    def fill(place: re.Match[str]) -> str:
        text = found[place["compiler"]][place["section"]]
        return f"{place[1]}{_FENCE[0]}{text}{_FENCE[1]}{place[5]}"

    path.write_text(_PLACE.sub(fill, path.read_text()))


def structure(text: str) -> list[str]:
    """Lines without what differs between runs and machines: numbers, and how wide columns are. Lines that are then
    alike count once, so that a quick run's table is that of a long one."""
    lines = []
    for line in text.splitlines():
        line = re.sub(r"_[0-9a-f]{8}\b", "_#", line)
        line = re.sub(r"-?\b\d[\d.,]*(e[-+]?\d+)?\b|\bnever\b", "#", line)
        line = re.sub(r"\s+", " ", line).strip()
        if line not in lines:
            lines.append(line)
    return lines
