"""What being observable costs while nobody watches: instructions, counted by callgrind, so that a busy machine
changes nothing.

    python bench/watching.py

Two counts, each in a fresh process, with the cost of what is there for profilers, reports and explanations:
  replay   a call of x + 1 on ten floats: asking whether a profiler is on. At most 3 % of the call.
  cold     the first call of a transformer encoder: facts of kernels and steps, the clocks of phases, counted
           allocations. At most 3 % of it.

Needs valgrind (a minute). Exit status 1 if a limit is passed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

LIMIT = 0.03
REPLAYS = 2000

REPLAY = f"""
import torch, braze
x = torch.arange(10, dtype=torch.float32)
f = braze.compile(lambda x: x + 1)
with torch.no_grad():
    for _ in range({REPLAYS} + 1): f(x)
assert f.counts() == {{"captured": 1, "replayed": {REPLAYS}, "native": 0}}, f.counts()
"""
COLD = """
import torch, braze
layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval()
f = braze.compile(model)
with torch.no_grad(): f(torch.randn(2, 16, 64))
assert f.forward.counts()["captured"] == 1
"""

#: Case: program, the function during which instructions are counted (callgrind's pattern), how many calls of it,
#: and the functions that are there for whoever watches. Those of the second group call nothing but what they wrap
#: (malloc, the clock), which would be called without them: only their own instructions are theirs.
CASES = {
    "replay": (REPLAY, "braze::python::FunctionState::replay(*", REPLAYS, ["at::getStepCallbacksUnlessEmpty"], []),
    "cold": (
        COLD,
        "braze::python::FunctionState::call(*",
        1,
        [
            "braze::driver::inspect(",
            "braze::codegen::phase_facts(",
            "braze::PhaseTimes::add(",
            "at::getStepCallbacksUnlessEmpty",
        ],
        ["__wrap_"],
    ),
}
LINE = re.compile(r"^\s*([\d,]+) \([^)]*\)\s+(?:\S+?:)?(.*)$")


def annotated(profile: Path, inclusive: bool) -> list[tuple[int, str]]:
    """Instructions and name of each function of a callgrind profile, the total first."""
    command = ["callgrind_annotate", f"--inclusive={'yes' if inclusive else 'no'}", "--threshold=100", str(profile)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [(int(m[1].replace(",", "")), m[2]) for m in map(LINE.match, text.splitlines()) if m]


def counted(program: str, during: str, inclusive: list[str], own: list[str]) -> tuple[int, dict[str, int]]:
    """All instructions while the function `during` ran, and those of each of the named functions."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        tool = ["valgrind", "--tool=callgrind", f"--toggle-collect={during}", f"--callgrind-out-file={profile}"]
        environment = {**os.environ, "BRAZE_CACHE_DIR": folder, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*tool, sys.executable, "-c", program], capture_output=True, text=True, env=environment
        )
        if done.returncode != 0:
            raise SystemExit(f"the program under valgrind failed:\n{done.stderr[-2000:]}")
        whole, parts = annotated(profile, True), annotated(profile, False)
    cost = {name: sum(count for count, of in whole if of.startswith(name)) for name in inclusive}
    cost |= {name: sum(count for count, of in parts if of.startswith(name)) for name in own}
    return whole[0][0], cost


def main() -> int:
    table = Table("case", "part", "instructions", "share", title="Instructions a call, nobody watching")
    failed = []
    for case, (program, during, calls, inclusive, own) in CASES.items():
        total, cost = counted(program, during, inclusive, own)
        share = sum(cost.values()) / total
        table.add_row(case, "all", f"{total // calls:,}", "")
        for name, count in cost.items():
            table.add_row("", name.rstrip("(_"), f"{count // calls:,}", f"{count / total:.2%}")
        table.add_row("", "together", f"{sum(cost.values()) // calls:,}", f"{share:.2%}", end_section=True)
        if not share <= LIMIT:
            failed.append(f"{case}: {share:.2%}, limit {LIMIT:.0%}")
    Console(width=110).print(table)
    for each in failed:
        print("over the limit:", each)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
