"""Every test starts from the same random numbers, and no test sees or fills the user's disk cache.

BRAZE_TEST_DEVICE=cuda: tensors that a test makes without naming a device lie there.
BRAZE_TEST_PASSED=FILE: tests whose names the file holds are left out, and those that pass are added to it.
"""

import gc
import os
import sys
import tempfile
from pathlib import Path

_cache = tempfile.TemporaryDirectory(prefix="braze-test-cache-")
os.environ["BRAZE_CACHE_DIR"] = _cache.name  # read when braze compiles its first kernel
os.environ.setdefault("BRAZE_VERIFY", "1")  # the IR verifier after every pass
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import cpu_alone  # noqa: E402
import pytest  # noqa: E402  (torch and braze must see the environment above)
import seeds  # noqa: E402
import torch  # noqa: E402


def _hypothesis_profile() -> None:
    try:
        from hypothesis import settings
    except ImportError:  # not on every machine that runs these tests
        return
    # Compiling takes longer the first time, so a deadline would fail at random; the same examples in every run.
    settings.register_profile("braze", deadline=None, derandomize=True, max_examples=60)
    settings.load_profile("braze")


_hypothesis_profile()

if DEVICE := os.environ.get("BRAZE_TEST_DEVICE"):
    torch.set_default_device(DEVICE)


def pytest_collectstart(collector):
    """What a module of tests draws when it is imported depends on no other module."""
    seeds.seed()


def pytest_collection_modifyitems(config, items):
    passed = Path(os.environ.get("BRAZE_TEST_PASSED", os.devnull))
    known = set(passed.read_text().split("\n")) if passed.is_file() else set()
    left = [item for item in items if item.nodeid not in known]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in known])
    items[:] = left
    for item in left if DEVICE else ():
        if reason := cpu_alone.why_skipped(item.name):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish():
    """Tests and the packages that they stand on stay: no collection of what a test leaves need look at them."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logreport(report):
    # With several processes the one that hands out the tests hears of each, too, and writes alone.
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    if (passed := os.environ.get("BRAZE_TEST_PASSED")) and alone and report.when == "call" and report.passed:
        with open(passed, "a") as file:
            file.write(f"{report.nodeid}\n")


@pytest.fixture(autouse=True)
def same_random_numbers():
    seeds.seed()
    if DEVICE:  # An earlier test may have chosen another.
        torch.set_default_device(DEVICE)
    yield
    if torch.cuda.is_initialized():
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:  # No later test could use the device: the process ends, named by this test.
            print(error, file=sys.__stderr__, flush=True)
            os._exit(70)
    assert torch.is_grad_enabled(), "the test left grad mode off"
    assert torch.get_default_dtype() == torch.float32, "the test left another default dtype"


_opinfo = []


@pytest.fixture(scope="session")
def opinfo_report():
    """Counts of the OpInfo sweep, told at the end of the run."""
    from opinfo_sweep import Report

    _opinfo.append(Report())
    return _opinfo[-1]


def pytest_terminal_summary(terminalreporter):
    for report in _opinfo:
        terminalreporter.section("operators against eager")
        for line in report.lines():
            terminalreporter.write_line(line)
