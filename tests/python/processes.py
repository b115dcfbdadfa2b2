"""Tasks in child processes, several at a time, and code in a fresh Python: a crash or a hang is a result too."""

import dataclasses
import io
import os
import pickle
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Task = TypeVar("Task")


@dataclasses.dataclass
class Crash:
    """The process died of a signal (SIGALRM: it ran out of time); `last` is what it said it was about to do."""

    signal: int
    last: str

    def __str__(self) -> str:
        return f"CRASH, signal {self.signal}"


@dataclasses.dataclass
class _Child:
    task: Any
    pid: int
    pipe: int
    data: bytes = b""

    def result(self) -> Any:
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        said, last = io.BytesIO(self.data), ""
        while said.tell() < len(self.data):
            try:
                kind, value = pickle.load(said)
            except (EOFError, pickle.UnpicklingError):  # it died while writing
                break
            if kind == "result":
                return value
            last = value
        return Crash(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, last)


def _start(task: Any, run: Callable[[Any, Callable[[str], None]], Any], seconds: int) -> _Child:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Child(task, pid, reading)
    try:
        os.close(reading)
        signal.alarm(seconds)
        with os.fdopen(writing, "wb") as pipe:

            def say(what: str) -> None:
                pickle.dump(("about to do", what), pipe)
                pipe.flush()

            pickle.dump(("result", run(task, say)), pipe)
    finally:
        os._exit(0)  # also after an exception: the parent's clean-up is not the child's


def results(
    tasks: Iterable[Task], run: Callable[[Task, Callable[[str], None]], Any], *, jobs: int, seconds: int
) -> Iterator[tuple[Task, Any]]:
    """(task, run(task, say) or a Crash) in the order in which they end; a task may call say(text) as it goes on.
    Results travel by pickle; `seconds` is the limit of one task."""
    waiting = iter(tasks)
    with selectors.DefaultSelector() as running:
        while True:
            while len(running.get_map()) < jobs and (task := next(waiting, None)) is not None:
                child = _start(task, run, seconds)
                running.register(child.pipe, selectors.EVENT_READ, child)
            if not running.get_map():
                return
            for key, _ in running.select():
                if data := os.read(key.fd, 1 << 16):
                    key.data.data += data
                    continue
                running.unregister(key.fd)
                yield key.data.task, key.data.result()


def fresh(code: str, **environment: str) -> str:
    """What `code` prints in a Python of its own, which finds the modules beside this one."""
    folder = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.path.insert(0, {folder!r})\n{code}"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
