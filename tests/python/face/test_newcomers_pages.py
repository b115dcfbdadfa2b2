"""docs/from-torch-compile.md and docs/troubleshooting.md name what the code has."""

import inspect
import pathlib
import re

import pytest

import braze
from braze import _logs, _settings
from braze._load import C
from braze._torch_face import logs, options

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

DOCS = pathlib.Path(__file__).parents[3] / "docs"
MOVING = (DOCS / "from-torch-compile.md").read_text()
TROUBLE = (DOCS / "troubleshooting.md").read_text()


def rows(page):
    """Both cells of every row of a page's tables."""
    return [
        tuple(cell.strip() for cell in row) for row in re.findall(r"^\| (.*?) \| (.*?) \|$", page, re.MULTILINE)
    ]


def row_of(name):
    found = [right for left, right in rows(MOVING) if re.search(rf"`{re.escape(name)}(?!\w)", left)]
    assert found, f"{name} is in no table"
    return found[0]


@pytest.mark.parametrize("name", inspect.signature(braze.compile).parameters)
def test_arguments(name):
    assert any(re.search(rf"`{name}\b", left) for left, _ in rows(MOVING))


@pytest.mark.parametrize("name", braze.list_modes())
def test_modes(name):
    row_of(f'"{name}"')


@pytest.mark.parametrize("name", [*options._SAME, *options._OPPOSITE])
def test_settings_of_pytorch(name):
    own = options._SAME.get(name) or options._OPPOSITE[name]
    assert f"`{own}`" in row_of(name)


@pytest.mark.parametrize("name", [*_logs.NAMES, *logs._SAME])
def test_logs(name):
    for own in logs._names(name):
        assert own in row_of(name)


@pytest.mark.parametrize("page", [MOVING, TROUBLE], ids=["from-torch-compile", "troubleshooting"])
def test_variables_exist(page):
    known = {f"BRAZE_{name}" if not name.startswith("BRAZE_") else name for name, _, _ in C.switches}
    known |= {setting.environment for setting in _settings.SETTINGS.values()} | {"BRAZE_LOGS"}
    named = set(re.findall(r"\bBRAZE_[A-Z_]+", page))
    assert named and named <= known


def test_stances():
    for stance in ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile"):
        assert f"`{stance}`" in row_of("torch.compiler.set_stance")
        with braze.compiler.set_stance(stance):
            pass


def test_texts_of_errors():
    """Those that the pages quote."""
    with pytest.raises(braze.ArgumentValueError, match="unexpected option"):
        braze.compile(len, options={"nothing": 1})
    with pytest.raises(braze.ArgumentValueError, match="unrecognized mode"):
        braze.compile(len, mode="nothing")
    with pytest.raises(braze.ArgumentValueError, match="invalid backend"):
        braze.compile(len, backend="nothing")
    for text in ("unexpected option", "unrecognized mode", "invalid backend", "which is its recompile limit"):
        assert text in MOVING
