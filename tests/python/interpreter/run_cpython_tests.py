"""Runs one module of CPython's own tests, each test method natively or through braze's evaluator.

    python run_cpython_tests.py EXTENSION native|braze MODULE [NAME PART]

EXTENSION is the module that has `interpret` and `interpreter_statistics`. Prints one JSON object: "outcomes" (test
id -> "ok", "skipped", or the last line of the error) and "statistics". Only the methods run through the evaluator:
loading of modules, setUp and tearDown are native.
"""

import importlib
import io
import json
import sys
import unittest


class Outcomes(unittest.TestResult):
    """What became of every test."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, str] = {}
        self.details: dict[str, str] = {}

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
        self.details[test.id()] = self._exc_info_to_string(err, test)


def tests_of(suite: unittest.TestSuite):
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from tests_of(entry)
        else:
            yield entry


def main() -> None:
    extension, mode, name, *part = sys.argv[1:]
    braze = importlib.import_module(extension)
    if mode == "braze":

        def through_braze(self, method) -> None:
            braze.interpret(method)

        unittest.TestCase._callTestMethod = through_braze
    module = importlib.import_module(name)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    if part:
        suite = unittest.TestSuite(test for test in tests_of(suite) if part[0] in test.id())
    outcomes = Outcomes()
    stdout, sys.stdout = sys.stdout, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        if part:
            for test in suite:
                print(test.id(), file=sys.stderr, flush=True)
        suite.run(outcomes)
    finally:
        sys.stdout = stdout
    if part:
        print("\n".join(outcomes.details.values()), file=sys.stderr)
    print(json.dumps({"outcomes": outcomes.outcomes, "statistics": braze.interpreter_statistics()}))


if __name__ == "__main__":
    main()
