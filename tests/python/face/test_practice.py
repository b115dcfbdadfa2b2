"""examples/practice and examples/scorers: every lesson runs under braze, and its page shows what it prints.

Pages hold what one machine printed; held to is their structure: sections, columns, rows, names, not numbers."""

import functools
import os
import pathlib
import re
import subprocess
import sys

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
def printed(name):
    """A quick run of a lesson, on one thread: others may be working."""
    command = [sys.executable, "-m", "braze", "run", str(practice.LESSONS[name][0]), "--quick"]
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
