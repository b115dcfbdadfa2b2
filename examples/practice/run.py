"""Runs the practice phases, one process each, with torch.compile answered by braze.

    examples/practice/run              # all five
    examples/practice/run 3            # one; also: run scorers
    examples/practice/run --pytorch    # each with PyTorch's own compiler too: minutes
    examples/practice/run --write      # with both, and what they print and plot goes into docs/practice

Plots go to out/practice, or to docs/practice with --write. Where braze is installed as a package, run this file
with that Python instead of the command.
"""

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pages

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = ROOT / "out/practice"
DOCS = ROOT / "docs/practice"

#: By name: the script, and the page that explains it.
LESSONS = {
    "1": (HERE / "phase1_backends.py", DOCS / "1-backends.md"),
    "2": (HERE / "phase2_capture.py", DOCS / "2-capture.md"),
    "3": (HERE / "phase3_breaks.py", DOCS / "3-breaks.md"),
    "4": (HERE / "phase4_fusion.py", DOCS / "4-fusion.md"),
    "5": (HERE / "phase5_batches.py", DOCS / "5-batches.md"),
    "scorers": (HERE.parent / "scorers/relevance.py", DOCS / "scorers.md"),
}
COMPILERS = {"braze": ["-m", "braze", "run"], "PyTorch": []}


def run_one(name: str, compiler: str, quick: bool, stream: bool = True) -> str:
    """What a lesson prints, shown line by line as it comes. Its numbers are in OUT then."""
    script, page = LESSONS[name]
    OUT.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        *COMPILERS[compiler],
        str(script),
        "--json",
        str(OUT / f"{page.stem}-{compiler}.json"),
    ]
    command += ["--quick"] if quick else []
    printed = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        for line in process.stdout:
            printed.append(line)
            if stream:
                print(line, end="", flush=True)
    if process.returncode:
        raise SystemExit(f"{script.name} failed under {compiler}")
    return "".join(printed)


def draw(name: str, compilers: list[str], folder: Path) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    script, page = LESSONS[name]
    sys.path.insert(0, str(script.parent))
    module = importlib.import_module(script.stem)
    facts = {one: json.loads((OUT / f"{page.stem}-{one}.json").read_text()) for one in compilers}
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "font.size": 10})
    figure = plt.figure(figsize=(11, 4.2), layout="constrained")
    module.draw(figure, facts)
    path = folder / f"{page.stem}.png"
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lesson", nargs="*", help="1 to 5 (all, if none), or scorers")
    parser.add_argument("--pytorch", action="store_true", help="also with PyTorch's own torch.compile")
    parser.add_argument("--quick", action="store_true", help="few samples: whether it works")
    parser.add_argument("--write", action="store_true", help="puts output and plots into docs/practice")
    options = parser.parse_args()
    if unknown := [name for name in options.lesson if name not in LESSONS]:
        parser.error(f"there is no lesson {', '.join(unknown)}; there are {', '.join(LESSONS)}")
    chosen = options.lesson or ([*LESSONS] if options.write else [name for name in LESSONS if name.isdigit()])
    compilers = list(COMPILERS) if options.pytorch or options.write else ["braze"]
    for name in chosen:
        print(f"\n######## {LESSONS[name][0].stem}", flush=True)
        texts = {compiler: run_one(name, compiler, options.quick) for compiler in compilers}
        path = draw(name, compilers, DOCS if options.write else OUT)
        print(f"\nplot: {path.relative_to(ROOT)}    page: {LESSONS[name][1].relative_to(ROOT)}")
        if options.write:
            pages.write(LESSONS[name][1], texts)


if __name__ == "__main__":
    main()
