"""The house: what importing braze costs and brings along, what its libraries need, and that the commands start."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import braze

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(braze.__file__).parent
# What every Linux with PyTorch has. Anything else would be missing on some user's machine.
EVERYWHERE = re.compile(r"(lib(c|m|dl|pthread|rt|gcc_s|stdc\+\+|gomp)|ld-linux-x86-64)\.so")


def fresh(code: str, **environment: str) -> str:
    """Runs code in a new process, from a directory that is not the project's, and returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_is_light(tmp_path):
    """What braze adds after torch: no compiler, no sympy, less than 50 ms. The best of five counts, because a busy
    machine may take any single one longer, and the first compiles Python."""
    code = """
import json, sys, time
import torch
before = set(sys.modules)
start = time.perf_counter()
import braze
print(json.dumps([(time.perf_counter() - start) * 1e3, sorted(set(sys.modules) - before)]))
"""
    kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    runs = [json.loads(fresh(code, **kept)) for _ in range(5)]
    assert min(ms for ms, _ in runs) < 50
    heavy = ("torch._dynamo", "torch._inductor", "triton", "sympy", "torch.fx")
    assert [name for name in runs[0][1] if name.startswith(heavy)] == []


def test_tracing_imports_no_compiler_and_starts_no_process():
    code = """
import pathlib, resource, sys
import torch
before = set(sys.modules)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # torch's CUDA builds ask ldconfig
import braze
program = braze.trace(lambda x: torch.softmax(x + 1, -1), (torch.randn(4, 5),), check=False)
program(torch.randn(4, 5))
children = "".join(path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/children"))
heavy = ("torch._dynamo", "torch._inductor", "triton", "sympy")
print([name for name in set(sys.modules) - before if name.startswith(heavy)])
print(repr(children), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - peak)
"""
    assert fresh(code).splitlines() == ["[]", "'' 0"]


def test_second_process_compiles_nothing(tmp_path):
    code = """
import torch, braze
program = braze.trace(lambda x: torch.relu(x * 3) - 1, (torch.randn(33),), check=False)
x = torch.randn(33)
assert torch.equal(program(x), torch.relu(x * 3) - 1)
print(int("codegen/machine" in program.compile_times() and program.compile_times()["codegen/machine"] > 0))
"""
    assert fresh(code, BRAZE_CACHE_DIR=str(tmp_path)) == "1"
    assert any(path.is_file() for path in tmp_path.rglob("*"))
    assert fresh(code, BRAZE_CACHE_DIR=str(tmp_path)) == "0"
    assert fresh(code, BRAZE_CACHE_DIR=str(tmp_path), BRAZE_CACHE="0") == "1"


def test_version_is_the_packages():
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert braze.__version__ == tomllib.load(file)["project"]["version"]


def readelf(*options: str) -> str:
    if not shutil.which("readelf"):
        pytest.skip("no readelf here")
    return subprocess.run(["readelf", "-W", *options], capture_output=True, text=True, check=True).stdout


def test_core_needs_nothing_that_a_machine_may_lack():
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", str(PACKAGE / "lib/libbraze_core.so")))
    assert needed
    assert [name for name in needed if not EVERYWHERE.match(name)] == []


def test_core_hides_llvm():
    """Another LLVM in the process (Triton's, Numba's, a driver's) must not bind to this one's symbols."""
    symbols = readelf("--dyn-syms", str(PACKAGE / "lib/libbraze_core.so")).splitlines()
    exported = [line.split()[-1] for line in symbols if " UND " not in line and line.strip()[:1].isdigit()]
    assert any("braze" in name for name in exported)
    assert [name for name in exported if "llvm" in name.lower() and "braze" not in name] == []


def test_core_knows_neither_torch_nor_python():
    symbols = readelf("--dyn-syms", str(PACKAGE / "lib/libbraze_core.so"))
    assert not re.search(r" UND .*(_ZN2at|_ZN3c10|\bPy[A-Z_])", symbols)


def test_versions_of_cpython_differ_in_few_files():
    """Elsewhere what differs by version has a name: function_of(), class_dict(), take_raised(), ..."""
    homes = re.compile(r"(_31\d\.\w+|/cpython\.h|/entry\.h|/raised\.h|guards/storage_access\.\w+)$")
    differs = re.compile(r"PY_VERSION_HEX|\btp_dict\b|\bf_func\b|\bLOAD_METHOD\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / "src/python").rglob("*.[ch]*"))
        if not homes.search(path.as_posix())
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if differs.search(line)
    ]
    assert not found, "\n".join(found)


def test_every_reason_for_a_break_is_a_row():
    """A text without a row counts as `other`, and has no remedy of its own."""
    table = (ROOT / "src/python/interpreter/watch/break_reasons.def").read_text()
    rows = re.findall(r'BREAK\((\w+),\s*"((?:[^"\\]|\\.)*)"', table)
    ids, texts = [row[0] for row in rows], [row[1] for row in rows]
    assert len(set(ids)) == len(ids) and len(set(texts)) == len(texts)
    missing = [
        f"{path.name}: {text}"
        for path in sorted((ROOT / "src/python").rglob("*.cpp"))
        for text in re.findall(r'abandon\(\s*"((?:[^"\\]|\\.)*)"', path.read_text())
        if text not in texts
    ]
    assert not missing, "\n".join(missing)


def test_lowering_makes_all_that_the_loop_ir_has():
    """Each kind of statement, reduction and binding is in some text of a lowered graph: the IR promises no more."""
    words = (ROOT / "src/loops/words.h").read_text()
    texts = "".join(
        path.read_text()
        for folder in ("plans", "targets", "symbolic")
        for path in (ROOT / "tests" / folder).iterdir()
        if path.suffix != ".graph"
    )

    def listed(name):
        return re.findall(r'"(\w+)"', re.search(name + r"_words = \{(.*?)\}", words, re.S)[1])

    # `compute` is written as its op, and what is the default is left out.
    wanted = [rf"(?m)(= |^ *){word}\b" for word in listed("stmt") if word != "compute"]
    wanted += [rf"reduce .*\b{word}\b" for word in listed("combine")]
    wanted += [rf"bind={word}\b" for word in listed("bind") if word != "none"]
    wanted += [rf"\] {word}\b" for word in listed("space") if word != "global"]
    wanted += [rf"atomic {word} " for word in listed("atomic")]
    assert len(wanted) > 30
    assert [pattern for pattern in wanted if not re.search(pattern, texts)] == []


def test_environment_variables_are_rows_of_two_tables():
    """support/switches.def for the compiled part, braze._settings and braze._logs for Python."""
    compiled = [path for path in (ROOT / "src").rglob("*.[ch]*") if path.stem != "switches"]
    readers = [path for path in PACKAGE.rglob("*.py") if path.name not in ("_settings.py", "_logs.py")]
    for paths, reading in ((compiled, r'getenv\("BRAZE'), (readers, r'environ.*"BRAZE_')):
        found = [path for path in paths if re.search(reading, path.read_text())]
        assert not found, f"these read the environment themselves: {found}"


@pytest.mark.parametrize(
    ("script", "page"),
    [("settings_page", "settings"), ("api_page", "api"), ("life_of_a_tensor", "life_of_a_tensor")],
)
def test_generated_pages_are_what_the_code_says(script, page):
    if sys.version_info[:2] != (3, 11) or not torch.__version__.startswith("2.13"):
        pytest.skip("the pages show guards and types of Python 3.11 with torch 2.13")
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import {script}; print({script}.page())"
    assert fresh(code) == (ROOT / f"docs/{page}.md").read_text().strip(), f"run tools/{script}.py"


@pytest.mark.parametrize(
    "script",
    [
        *("demo.py", "cold.py", "warm.py", "overhead.py", "kernels.py", "models.py", "training.py", "cold_items"),
        *("gpu/bandwidth.py", "gpu/models.py"),
    ],
)
def test_benchmarks_explain_themselves(script):
    command = [sys.executable, str(ROOT / "bench" / script), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout
    assert "--json" in done.stdout


def test_benchmarks_print_each_row_as_it_is_measured():
    """Before the next case runs, which may take minutes, and on standard error: --json has the other."""
    scripts = [path for path in sorted((ROOT / "bench").glob("*.py")) if "measure.conclude(" in path.read_text()]
    assert len(scripts) >= 8
    silent = [path.name for path in scripts if not re.search(r"as_measured\(|flush=True", path.read_text())]
    assert not silent
    code = f"""
import sys
sys.path.insert(0, {str(ROOT / "bench")!r})
import measure

def run(name):
    print("runs", name, file=sys.stderr, flush=True)
    return {{"warm_ms": {{"eager": 2.0, "braze": 1.25}}}} if name == "one" else {{"failure": "..."}}

for name, facts in measure.as_measured(["one", "two"], run, measure.milliseconds):
    print("has", name, file=sys.stderr, flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    rows = ["runs one", "one: eager 2, braze 1.25 ms", "has one", "runs two", "two: failed", "has two"]
    assert done.stderr.splitlines() == rows
    assert done.stdout == ""


def test_a_case_is_measured_end_to_end(tmp_path):
    """The worker that demo and benchmarks start, on the smallest case: every figure that they print is there."""
    request = {"case": "x+1", "side": "braze", "pairs": 2, "errors": True, "code": str(tmp_path / "code")}
    command = [sys.executable, str(ROOT / "bench" / "worker.py"), json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts["correct"]
    assert facts["error_to_eager"] == 0.0
    assert facts["kernels"] == 1
    assert facts["calls"] == 0
    assert facts["children"] == 0
    assert facts["phases_ms"]["total"] > 0
    assert set(facts["warm_ms"]) == {"eager", "braze"}
    assert {path.name for path in (tmp_path / "code").iterdir()} == {
        "graph.txt",
        "loops.txt",
        "llvm.txt",
        "asm.txt",
        "report.html",
    }
    assert all(path.stat().st_size > 0 for path in (tmp_path / "code").iterdir())
