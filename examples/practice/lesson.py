"""What the practice phases share: which compiler answers torch.compile, how calls are timed, how results are told.

    python -m braze run examples/practice/phase1_backends.py     # torch.compile is braze's
    python examples/practice/phase1_backends.py                  # torch.compile is PyTorch's

A phase is a function main(lesson) that prints sections and tables, and leaves the numbers for the plot in
lesson.facts.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

#: `python -m braze run` puts its own in the place of torch.compile.
IS_BRAZE = torch.compile.__module__.startswith("braze")
COMPILER = "braze" if IS_BRAZE else "PyTorch"

NEVER = "never"  #: Where a table would have a number.


class Lesson:
    """Prints, and keeps what a plot needs."""

    def __init__(self, quick: bool = False) -> None:
        self.quick = quick  #: A look at whether everything works: the times mean little.
        self.facts: dict[str, Any] = {}

    def section(self, name: str) -> None:
        print(f"\n== {name}", flush=True)

    def say(self, text: str = "") -> None:
        print(text, flush=True)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Columns of numbers stand right, others left."""
        columns = []
        for heading, *column in zip(headings, *rows, strict=True):
            texts = [str(cell) for cell in column]
            width = max(map(len, (heading, *texts)))
            are_numbers = all(text[:1].isdigit() or text == NEVER for text in texts)
            columns.append([text.rjust(width) if are_numbers else text.ljust(width) for text in (heading, *texts)])
        for row in zip(*columns, strict=True):
            print("  ".join(row).rstrip(), flush=True)

    def median_us(self, **calls: Callable[[], Any]) -> dict[str, float]:
        """Microseconds a call, of each: medians of samples that are taken in turns, so that what disturbs one
        disturbs the others as much."""
        seconds, rounds = (0.002, 3) if self.quick else (0.02, 15)
        repeats = {}
        for name, call in calls.items():
            call()
            once = min(_seconds(call, 1) for _ in range(3))
            repeats[name] = max(1, min(10_000, round(seconds / max(once, 1e-7))))
        samples: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                samples[name].append(_seconds(call, repeats[name]) * 1e6)
        return {name: statistics.median(times) for name, times in samples.items()}


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def first_call_ms(call: Callable[[], Any]) -> float:
    return _seconds(call, 1) * 1e3


def apart(function: Callable[..., Any], *args: Any) -> Any:
    """What the function returns in a process of its own with empty caches, where everything is compiled anew.

    To be called before PyTorch has computed anything here: a fork has none of its parent's threads.
    """
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            use_caches_in(folder)
            sending.send(function(*args))

    process = context.Process(target=work)
    process.start()
    sending.close()
    try:
        return receiving.recv()
    except EOFError:
        raise SystemExit("the process of a measurement died; what it said is above") from None
    finally:
        process.join()


def use_caches_in(folder: str) -> None:
    """Nothing that an earlier run left is found. To be called before the first compilation."""
    os.environ["BRAZE_CACHE_DIR"] = folder
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder


@contextlib.contextmanager
def logs(**names: bool) -> Iterator[io.StringIO]:
    """Collects what torch._logging.set_logs(...) has logged. Once a process: handlers keep the stream they find."""
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        torch._logging.set_logs(**names)
    yield text
    torch._logging.set_logs()


def machine() -> str:
    """Where this ran, for those who read the figures."""
    model = "an unknown processor"
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return f"{COMPILER}, torch {torch.__version__.split('+')[0]}, {torch.get_num_threads()} threads of {model}"


def run(main: Callable[[Lesson], None], about: str) -> None:
    """The command line of a phase."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few samples: whether it works")
    parser.add_argument("--json", metavar="FILE", help="where the numbers for the plot go")
    options = parser.parse_args()
    lesson = Lesson(options.quick)
    torch.manual_seed(0)
    lesson.section("Where")
    lesson.say(machine())
    with tempfile.TemporaryDirectory() as folder:
        use_caches_in(folder)
        main(lesson)
    if options.json:
        Path(options.json).write_text(json.dumps(lesson.facts))
