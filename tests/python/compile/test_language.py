"""The Python language in captured segments: every row as plain Python has it, replayed, in the fewest graphs."""

import sys

import language_builtins  # noqa: F401  (each adds its rows)
import language_calls  # noqa: F401
import language_changes  # noqa: F401
import language_copies  # noqa: F401
import language_exceptions  # noqa: F401
import language_flow  # noqa: F401
import language_frames  # noqa: F401
import language_getters  # noqa: F401
import language_given  # noqa: F401
import language_library  # noqa: F401
import language_objects  # noqa: F401
import language_operators  # noqa: F401
import language_references  # noqa: F401
import language_tensors  # noqa: F401
import language_text  # noqa: F401
import language_views  # noqa: F401
import pytest
import torch
from language import ROWS, make, make_specialised, observe
from specialised import codes_of, is_specialised

from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
X = torch.arange(6.0).reshape(2, 3)


def test_rows_are_specialised():
    code = make_specialised("def f(x):\n    for i in range(3): x = x + i\n    return x", X)
    assert all(is_specialised(one) for one in codes_of(code) if one.co_name == "f")


@pytest.mark.parametrize("form", ["cold", "specialised"])
@pytest.mark.parametrize("name", ROWS)
def test_as_plain_python(name, form):
    row = ROWS[name]
    with torch.no_grad():
        source = row.source if form == "cold" else make_specialised(row.source, X)
        plain, ours = make(source), make(source)
        compiled = C.CompiledFunction(ours.f)
        for _ in range(2):
            assert observe(compiled, X) == observe(plain.f, X)
        before = compiled.counts()
        assert observe(compiled, X) == observe(plain.f, X)
    after = compiled.counts()
    if row.replays:
        assert after == before | {"replayed": before["replayed"] + 1}, compiled.reasons()
    if sys.version_info[:2] == (3, 11):  # Others have other instructions.
        breaks = {(b["file"], b["line"], b["reason"]) for s in compiled.report()["segments"] if (b := s["break"])}
        assert len(breaks) == row.breaks, breaks
