"""braze.report: what the page says is what happened, it is well-formed, and it needs nothing from outside."""

import html.parser
import json
import re
import subprocess
import sys

import pytest
import torch
from torch import nn

import braze
from braze._load import C
from braze._report import _facts_of, drawing
from braze._report.collect import collect
from braze._report.render import amount_of_bytes, amount_of_time

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")

VOID = {"meta", "input", "br"}


class Page(html.parser.HTMLParser):
    """Text, identities and links of a page; fails where elements are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.words, self.loaded = [], [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if "href" in attributes else []
        self.loaded += [attributes[key] for key in ("src",) if key in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):  # Of SVG.
        assert tag in ("rect", "line", "circle")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(32, 64), nn.Linear(64, 8), nn.LayerNorm(64)

    def forward(self, x):
        return torch.softmax(self.second(self.norm(nn.functional.gelu(self.first(x)))), -1)


@pytest.fixture
def written(tmp_path):
    """A function that makes a page of something compiled, and reads it."""

    def write(compiled, **choices):
        path = braze.report(compiled, tmp_path / "report.html", **choices)
        return Page(path.read_text(encoding="utf-8"))

    return write


def called(compiled, *calls):
    with torch.no_grad():
        for x in calls:
            compiled(x)
    return compiled


def test_a_module(written):
    compiled = called(braze.compile(Block(), dynamic=False), *[torch.randn(16, 32)] * 4, torch.randn(20, 32))
    page = written(compiled)
    assert "Block" in page.text and "5 calls, 3 replayed" in page.text
    assert "100.0 % of" in page.text and "0 graph breaks" in page.text
    assert "Compiled again" in page.text  # The second size: the guard that failed, and by what.
    assert re.search(r"\.shape == \(16, 32\), was \(20, 32\)", page.text)
    for kernel in {kernel.name for program in compiled.programs() for kernel in program.kernels}:
        assert f"kernel-{kernel}" in page.ids and f"#kernel-{kernel}" in page.links
        assert f"kernel @{kernel}" in page.text  # Its loops.
    assert "vmov" in page.text or "movups" in page.text  # Machine code.
    assert "aten::addmm" in page.text and "test_report.py" in page.text


def test_nothing_is_loaded_from_elsewhere(written):
    page = written(called(braze.compile(Block()), torch.randn(16, 32)))
    assert not page.loaded
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert len(page.ids) == len(set(page.ids))


def test_breaks_and_native_runs(written):
    def f(x):
        y = x * 2
        print(end="")
        return (y + 1).relu()

    page = written(called(braze.compile(f), *[torch.randn(8)] * 3))
    assert "1 graph break" in page.text and 'print(end="")' in page.text
    assert "Move the call out of the compiled function" in page.text

    def never(x):
        while x.sum() < 10:
            x = x + torch.rand(())
        return x

    with braze.compiler.set_stance("force_eager"):
        page = written(called(braze.compile(never), torch.randn(8)))
    assert "Nothing was compiled." in page.text


def test_hostile_names(written):
    def f(x):
        return x + 1

    f.__qualname__ = "</script><script>alert(1)</script>&amp;"
    f.__name__ = "<b>"
    page = written(called(braze.compile(f), torch.randn(8)))
    assert "</script><script>alert(1)</script>&amp;" in page.text


def test_times_and_bytes():
    compiled = called(braze.compile(lambda x: torch.softmax(x * 2, -1)), *[torch.randn(64, 256)] * 3)
    facts = collect(compiled)
    (program,) = facts["programs"]
    (part,) = program["parts"]
    (step,) = part["plan"]["steps"]
    assert step["bytes_read"] == step["bytes_written"] == 64 * 256 * 4
    assert 0 < step["nanoseconds"] < 1e9 and step["operations"] >= 64 * 256 * 4
    assert facts["kernels"][step["name"]]["nanoseconds"] == step["nanoseconds"]
    assert program["guard_nanoseconds"] > 0 and program["replays"] == 3
    assert facts["counts"] == {"captured": 1, "replayed": 2, "native": 0}
    assert program["compile_nanoseconds"] > 0
    assert {phase["name"] for phase in program["phases"]} >= {"capture", "guards", "loops", "codegen", "bind"}


def test_a_training_step(written):
    model = Block()
    compiled = braze.compile(model)
    for _ in range(3):
        compiled(torch.randn(16, 32)).sum().backward()
    page = written(compiled)
    assert "Backward" in page.text


def test_a_traced_program(written):
    program = braze.trace(lambda x: torch.softmax(x, -1) + 1, torch.randn(4, 8))
    assert "softmax" in written(program, title="my softmax").text
    with pytest.raises(braze.ArgumentTypeError, match="object of type int"):
        written(3)
    with pytest.raises(braze.ArgumentTypeError, match="object of type Linear"):
        written(nn.Linear(2, 2))


def test_explanations_link_to_it(tmp_path):
    path = braze.explain(lambda x: x * 2 + 1)(torch.randn(4)).report(tmp_path / "explained.html")
    assert (
        "1 operators compiled" in Page(path.read_text()).text or "operators compiled" in Page(path.read_text()).text
    )


def test_comparison(tmp_path):
    x = torch.randn(64, 256)
    pages = []
    for fusion in (False, True):
        compiled = called(braze.compile(lambda x: torch.softmax(x * 2, -1), options={"fusion": fusion}), x, x, x)
        pages.append(braze.report(compiled, tmp_path / f"{fusion}.html"))
    path = braze.compare_reports(*pages, tmp_path / "both.html")
    page = Page(path.read_text())
    assert "gone" in page.text and "new" in page.text and "bytes moved by kernels" in page.text
    before, after = (_facts_of(page) for page in pages)
    assert len(before["kernels"]) > len(after["kernels"]) == 1
    (tmp_path / "other.html").write_text("<html></html>")
    with pytest.raises(braze.ArgumentValueError, match="no page that braze.report has written"):
        braze.compare_reports(tmp_path / "other.html", pages[0], tmp_path / "none.html")


def test_embedded_facts_have_no_texts(tmp_path):
    path = braze.report(called(braze.compile(Block()), torch.randn(16, 32)), tmp_path / "report.html")
    facts = _facts_of(path)
    assert "asm" not in json.dumps(facts) and facts["title"] == "Block"


def test_written_as_the_process_ends(tmp_path):
    code = """
import torch, braze
@braze.compile
def doubled(x):
    return x * 2
def run():
    f = braze.compile(lambda x: x + 1)
    f(torch.ones(3))
doubled(torch.ones(3)), run(), run()
braze.compile(len)  # never called
"""
    folder = tmp_path / "pages" / "of_all"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"BRAZE_REPORT": str(folder), "PATH": "/usr/bin:/bin", "BRAZE_CACHE": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout + done.stderr == ""
    assert sorted(path.name for path in folder.iterdir()) == [
        "doubled.html",
        "run_locals_lambda.html",
        "run_locals_lambda_2.html",
    ]


def plan_of(steps, buffers, outputs, arena=0):
    return {
        "steps": [{"reads": reads, "writes": writes} for reads, writes in steps],
        "buffers": buffers,
        "outputs": outputs,
        "arena_bytes": arena,
    }


def buffer(kind, size=4, offset=0, part_of=-1):
    return {"kind": kind, "type": f"f32[{size // 4}]", "bytes": size, "offset": offset, "part_of": part_of}


def test_wires():
    # An argument read twice, one read once, a temporary, a result made of two parts.
    buffers = [buffer("input"), buffer("input"), buffer("temporary"), buffer("output"), buffer("part", part_of=3)]
    plan = plan_of([([0, 1], [2]), ([0, 2], [3]), ([2], [4])], buffers, [3])
    found = {wire.buffer: wire for wire in drawing.wires(plan)}
    assert set(found) == {0, 2, 3}
    assert (found[0].first, found[0].last, found[0].readers) == (-1, 1, (0, 1))
    assert (found[2].first, found[2].last, found[2].readers) == (0, 2, (1, 2))
    assert (found[3].first, found[3].last, found[3].is_result) == (1, 3, True)
    for one in found.values():
        for other in found.values():
            if one is not other and one.lane == other.lane:
                assert one.last <= other.first or other.last <= one.first


def test_memory_over_time():
    buffers = [buffer("temporary", 64), buffer("temporary", 128, 64), buffer("output")]
    picture = drawing.memory(plan_of([([], [0]), ([0], [1]), ([1], [2])], buffers, [2], arena=192))
    first, second = picture["boxes"]
    assert first["x"] == 0 and first["width"] == pytest.approx(600)
    assert second["y"] == pytest.approx(60) and second["height"] == pytest.approx(120)
    assert drawing.memory(plan_of([([], [2])], buffers, [2])) is None


def test_amounts():
    assert [amount_of_bytes(n) for n in (0, 999, 1500, 123456, 2.5e9)] == [
        "0 bytes",
        "999 bytes",
        "1.5 kB",
        "123 kB",
        "2.5 GB",
    ]
    assert [amount_of_time(n) for n in (0, 12, 1234, 5.5e6, 3e9)] == ["", "12 ns", "1.23 us", "5.5 ms", "3 s"]
