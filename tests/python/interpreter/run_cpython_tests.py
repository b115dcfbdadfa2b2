"""Runs modules of CPython's own tests, each test method natively, through braze's evaluator, or compiled.

    python run_cpython_tests.py EXTENSION native|braze|compiled MODULE...

EXTENSION is the module that has `interpret` and `interpreter_statistics`. Prints one JSON object a module:
"outcomes" (test id -> "ok", "skipped", or the last line of the error) and "statistics". Only the methods run
through braze: loading of modules, setUp and tearDown are native. Every second module has run natively before, so
that CPython has specialised its code.
"""

import gc
import importlib
import io
import json
import sys
import types
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "stale"))
from specialised import specialise


class Outcomes(unittest.TestResult):
    """What became of every test."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, str] = {}

    def addSuccess(self, test):
        self.outcomes.setdefault(test.id(), "ok")

    def addSkip(self, test, reason):
        self.outcomes[test.id()] = "skipped"

    def addExpectedFailure(self, test, err):
        self.outcomes[test.id()] = "expected failure"

    def addUnexpectedSuccess(self, test):
        self.outcomes[test.id()] = "unexpected success"

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._failed(test, err)

    def addError(self, test, err):
        self._failed(test, err)

    def addFailure(self, test, err):
        self._failed(test, err)

    def _failed(self, test, err) -> None:
        self.outcomes[test.id()] = f"{err[0].__name__}: {str(err[1])[:300]}"


def run(name: str, interpreter) -> dict:
    suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(name))
    outcomes = Outcomes()
    stdout, sys.stdout = sys.stdout, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    before = interpreter.interpreter_statistics()
    try:
        suite.run(outcomes)
    finally:
        sys.stdout = stdout
    return {"outcomes": outcomes.outcomes, "statistics": since(before, interpreter.interpreter_statistics())}


def specialise_module(name: str, interpreter) -> None:
    file = importlib.import_module(name).__file__
    for function in gc.get_objects():
        if isinstance(function, types.FunctionType) and function.__code__.co_filename == file:
            specialise(function.__code__)
    run(name, interpreter)


def since(before: dict, after: dict) -> dict:
    return {
        key: since(before[key], value) if isinstance(value, dict) else value - before[key]
        for key, value in after.items()
    }


def main() -> None:
    extension, mode, *names = sys.argv[1:]
    interpreter = importlib.import_module(extension)
    gc.freeze()  # Tests that collect hundreds of times need not look at PyTorch each time.
    calls = {
        "native": lambda method: method(),
        "braze": lambda method: interpreter.interpret(method),
        "compiled": lambda method: interpreter.CompiledFunction(method)(),
    }
    for at, name in enumerate(names):
        if mode != "native" and at % 2:
            unittest.TestCase._callTestMethod = lambda self, method: method() and None
            specialise_module(name, interpreter)
        unittest.TestCase._callTestMethod = lambda self, method: calls[mode](method) and None
        print(json.dumps(run(name, interpreter)), flush=True)


if __name__ == "__main__":
    main()
