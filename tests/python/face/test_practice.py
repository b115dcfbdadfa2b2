"""examples/practice and examples/scorers: every lesson runs under braze, and its page shows what it prints.

Pages hold what one machine printed; held to is their structure: sections, columns, rows, names, not numbers."""

import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest
import torch

from braze._load import C

TREE = pathlib.Path(__file__).parents[3]
PRACTICE = TREE / "examples/practice"
sys.path.insert(0, str(PRACTICE))
import pages  # noqa: E402  (after the path to it)
import run as practice  # noqa: E402

sys.path.remove(str(PRACTICE))

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")
IS_THE_PAGES_PYTORCH = sys.version_info[:2] == (3, 11) and torch.__version__.startswith("2.13")


@functools.cache
def numbers():
    """A folder for what lessons draw."""
    return tempfile.TemporaryDirectory(prefix="braze-practice-")


@functools.cache
def printed(name):
    """A quick run of a lesson, on one thread: others may be working."""
    script, page = practice.LESSONS[name]
    file = pathlib.Path(numbers().name) / f"{page.stem}-braze.json"
    command = [sys.executable, "-m", "braze", "run", str(script), "--quick", "--json", str(file)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "BRAZE_VERIFY": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return pages.sections(done.stdout)


@pytest.mark.parametrize("name", practice.LESSONS)
def test_a_page_shows_what_its_lesson_prints(name):
    found = printed(name)
    page = practice.LESSONS[name][1].read_text()
    shown = {section: text for compiler, section, text in pages.places(page) if compiler == "braze"}
    assert shown and all(text.strip() for _, _, text in pages.places(page)), "run examples/practice/run --write"
    assert set(shown) == set(found)
    if not IS_THE_PAGES_PYTORCH or torch.cuda.is_available():
        return  # Guards, operators and skips differ.
    for section, text in shown.items():
        if section == "Where" or "this machine" in section:
            continue
        quick, whole = pages.structure(found[section]), pages.structure(text)
        assert [line for line in quick if line not in whole] == [], section
        assert [line for line in whole if line not in quick] == [], section


def test_plots(tmp_path):
    """Each lesson's, of the numbers of its quick run, as if both compilers had given them."""
    pytest.importorskip("matplotlib")
    for name, (_, page) in practice.LESSONS.items():
        printed(name)
        own = pathlib.Path(numbers().name) / f"{page.stem}-braze.json"
        own.with_name(f"{page.stem}-PyTorch.json").write_text(own.read_text())
    code = f"""
import pathlib, run
run.OUT = pathlib.Path({numbers().name!r})
for name in run.LESSONS:
    run.draw(name, list(run.COMPILERS), pathlib.Path({str(tmp_path)!r}))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PRACTICE), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    drawn = {path.name for path in tmp_path.iterdir() if path.stat().st_size > 5000}
    assert drawn == {f"{page.stem}.png" for _, page in practice.LESSONS.values()}
    assert all((page.parent / f"{page.stem}.png").exists() for _, page in practice.LESSONS.values())


def test_pages_are_filled_in_their_places(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# By hand\n\n<!-- braze: A -->\n<!-- end -->\n\nBy hand.\n\n<!-- PyTorch: B -->\nold\n<!-- end -->\n"
    )
    for _ in range(2):
        pages.write(page, {"braze": "\n== A\nx  1\n\n== B\nno\n", "PyTorch": "\n== B\ny 2\n"})
    assert pages.places(page.read_text()) == [("braze", "A", "x  1\n"), ("PyTorch", "B", "y 2\n")]
    assert page.read_text().startswith(
        "# By hand\n\n<!-- braze: A -->\n```text\nx  1\n```\n<!-- end -->\n\nBy hand."
    )
    assert pages.structure("name   1.5  never\nname 12,000 3e-7\n") == ["name # #"]


def test_fusion_moves_less():
    """The counts that practice 4 is about do not depend on the machine."""
    table = printed("4")["Bytes counted, and measured against a copy"]
    rows = {line.split()[0] if not line.startswith("not") else "not fused": line for line in table.splitlines()[:4]}
    kernels, moved = zip(*(rows[name].removeprefix(name).split()[:2] for name in ("eager", "fused")), strict=True)
    assert (kernels, moved) == (("6", "1"), ("14.0", "3.0"))


def test_every_break_of_practice_3_is_fixed():
    rows = printed("3")["Before and after"].splitlines()[1:]
    assert len(rows) == 7
    for row in rows:
        assert "equal" in row and "DIFFER" not in row
        before, after = re.search(r" +(\d+) +(\d+) +\d+ +\d+ +\d+ +\d+ ", row).groups()
        assert int(before) >= 1 and int(after) == 0, row


def test_the_command_explains_itself():
    done = subprocess.run([sys.executable, str(PRACTICE / "run.py"), "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "--pytorch" in done.stdout
    for folder in ("practice", "scorers"):
        assert os.access(TREE / "examples" / folder / "run", os.X_OK)


def test_lessons_run_with_pytorch_itself():
    """The scripts name nothing of braze's: the smallest is run with torch.compile, by a backend that needs no C++
    compiler."""
    for script, _ in practice.LESSONS.values():
        assert "import braze" not in script.read_text()
    code = """
import lesson, phase3_breaks as breaks, torch
quick = lesson.Lesson(quick=True)
with torch.no_grad():
    found = torch._dynamo.explain(breaks.branch)(torch.randn(4, 4))
print(lesson.COMPILER, found.graph_count, found.graph_break_count)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PRACTICE), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.split() == ["PyTorch", "2", "1"], done.stderr
