"""Every Python example of the documents runs, one after the other within a document."""

import contextlib
import importlib.metadata
import io
import os
import pathlib
import re

import pytest
import torch

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

TREE = pathlib.Path(__file__).parents[3]
PAGES = [TREE / "README.md", *sorted((TREE / "docs").rglob("*.md")), *sorted((TREE / "examples").rglob("*.md"))]
DOCUMENTS = [path for path in PAGES if "```python" in path.read_text()]


def examples(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(TREE)))
def test_examples(path, tmp_path):
    world = {"__name__": "__main__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for number, example in enumerate(examples(path)):
            file = tmp_path / f"{path.stem}_{number}.py"  # Where explain finds the lines.
            file.write_text(example)
            exec(compile(example, str(file), "exec"), world)
    if path.name == "compile.md":
        assert "2 graphs, 1 graph breaks, 5 operators" in printed.getvalue()
        assert "a branch on the value of a tensor" in printed.getvalue()


def test_the_examples_of_the_documents_are_found():
    found = {str(path.relative_to(TREE)) for path in DOCUMENTS}
    newcomers = {"docs/tutorial.md", "docs/from-torch-compile.md", "docs/troubleshooting.md"}
    assert {"README.md", "docs/compile.md", "docs/practice/2-capture.md"} | newcomers <= found


def anchors(path):
    """Where links into a page may point, as GitHub names headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(TREE)))
def test_links_lead_somewhere(path):
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)):
        if link.startswith("http"):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_a_custom_backend_with_a_graph_break():
    (example,) = [text for text in examples(TREE / "docs" / "compile.md") if "def f(x)" in text]
    world = {"torch": torch, "braze": braze}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(example, world)
    called = []

    def backend(gm, example_inputs):
        called.append(gm)
        return lambda *inputs: gm.forward(*inputs)

    with torch.no_grad():
        compiled = braze.compile(world["f"], backend=backend)
        for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
            assert torch.equal(compiled(x), world["f"](x))
    assert 2 <= len(called) <= 3


def test_the_backend_is_found_by_name():
    entries = importlib.metadata.entry_points(group="torch_dynamo_backends")
    assert "braze" in {entry.name for entry in entries}


def test_where_cmake_looks():
    assert os.path.isabs(braze.cmake_prefix_path)
    assert braze.cmake_prefix_path.endswith(os.path.join("share", "cmake"))
