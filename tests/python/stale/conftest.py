"""Tells at the end how many cases show that a change is seen, and not only that nothing was replayed."""

import numpy as np
import pytest


class Replays:
    """How the second, unchanged call of each case ran."""

    def __init__(self):
        self.cases = 0
        self.replayed = 0

    def add(self, compiled):
        counts = getattr(compiled, "counts", None)
        if counts:
            self.cases += 1
            self.replayed += counts()["replayed"] > 0


_replays = Replays()


@pytest.fixture(autouse=True)
def numpys_errors():
    """What NumPy does about overflow and the like, which programs change, is as it was for the next one."""
    with np.errstate():
        yield


@pytest.fixture
def replays():
    return _replays


def pytest_terminal_summary(terminalreporter):
    if _replays.cases:
        terminalreporter.section("stale results")
        terminalreporter.write_line(f"{_replays.replayed} of {_replays.cases} unchanged calls were replayed")
