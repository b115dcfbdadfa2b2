"""docs/api.md: everything public has a docstring, and is on the page. (test_house.py: the page is up to date.)"""

import inspect
import pathlib
import re

import pytest

import braze
from braze._load import C
from braze._settings import SETTINGS

TREE = pathlib.Path(__file__).parents[3]
PAGE = (TREE / "docs/api.md").read_text()


def described(name):
    """What the page says of one name: up to the next heading."""
    found = re.search(rf"^### `{re.escape(name)}`\n(.*?)(?=^##)", PAGE + "\n##", re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


@pytest.mark.parametrize("name", [name for name in braze.__all__ if not name.startswith("__")])
def test_names_of_the_package(name):
    value = getattr(braze, name)
    if inspect.ismodule(value):
        assert inspect.getdoc(value) and f"## braze.{name}\n" in PAGE
    elif isinstance(value, str):
        assert f"`braze.{name}`" in PAGE
    else:
        said = inspect.getdoc(value)
        assert said, f"{name} has no docstring"
        if isinstance(value, type) and issubclass(value, Exception):
            assert f"| `braze.{name}` |" in PAGE
        else:
            assert said.splitlines()[0] in described(f"braze.{name}")


@pytest.mark.parametrize("name", braze.compiler.__all__)
def test_names_of_the_compiler(name):
    assert inspect.getdoc(getattr(braze.compiler, name)), f"{name} has no docstring"
    assert described(f"braze.compiler.{name}").strip()


def test_settings():
    for name, setting in SETTINGS.items():
        assert setting.meaning and f"| `{name}` | {setting.meaning} |" in PAGE
    for name in ("patch", "to_dict"):
        assert inspect.getdoc(getattr(braze.config, name)) in described(f"braze.config.{name}")


@pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
@pytest.mark.parametrize(
    "owner", ["braze.Program", "CompiledFunction", "braze.CompiledModule", "braze.Explanation"]
)
def test_members(owner):
    cls = getattr(C if owner == "CompiledFunction" else braze, owner.rpartition(".")[2])
    assert inspect.getdoc(cls)
    fields = getattr(cls, "__dataclass_fields__", {})
    for name in [name for name in vars(cls) if not name.startswith("_")]:
        assert name in fields or inspect.getdoc(inspect.getattr_static(cls, name)), f"{owner}.{name}"
        assert re.search(rf"`{name}(\(.*?\))?`", described(owner)), f"{owner}.{name}"


def test_a_modules_calls_are_told_of_as_a_functions():
    for name in ("counts", "operators", "reasons", "guards", "programs", "steps"):
        assert f"`{name}()`" in described("braze.CompiledModule")


@pytest.mark.parametrize("header", sorted((TREE / "include/braze").glob("*.h")), ids=lambda path: path.name)
def test_headers(header):
    """Every type and function that is not internal, with its comments, and nothing internal."""
    said = described(f"braze/{header.name}")
    assert said.strip()
    text = header.read_text()
    public = re.sub(r"^namespace detail \{.*?^\}  // namespace detail$", "", text, flags=re.DOTALL | re.MULTILINE)
    public = re.sub(r"^namespace runtime \{.*?^\}$", "", public, flags=re.DOTALL | re.MULTILINE)
    public = re.sub(r"^ private:.*?^\};$", "};", public, flags=re.DOTALL | re.MULTILINE)
    for line in public.splitlines():
        if re.match(r"\s*///", line):
            assert line.rstrip() in said
        elif found := re.match(r"(?:struct|class) (?:BRAZE_API )?(\w+)", line):
            assert re.search(rf"(struct|class) {found[1]}\b", said)
        elif found := re.match(r"(?:auto|BRAZE_API \w+) (\w+)\(", line):
            assert f"{found[1]}(" in said
    assert "namespace detail" not in said and "private:" not in said
