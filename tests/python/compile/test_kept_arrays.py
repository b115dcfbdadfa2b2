"""Arrays that objects and globals keep, and that calls replace, write or append: arguments of one program."""

import numpy as np
import pytest
import torch

import braze
from braze._load import C

pytestmark = pytest.mark.skipif(not hasattr(C, "CompiledFunction"), reason="no evaluator for this Python")


class State:
    def __init__(self):
        self.mean = np.zeros(4, np.float32)
        self.rows = np.zeros((3, 4), np.float32)
        self.history = []

    def replaced(self, x):
        self.mean = self.mean * 0.9 + (x * 2).numpy().mean(0) * 0.1
        return x * torch.from_numpy(self.mean)

    def written(self, x):
        self.mean *= 0.9
        self.mean += (x * 2).numpy().mean(0) * 0.1
        return x * torch.from_numpy(self.mean)

    def shifted(self, x):
        self.rows[:-1] = self.rows[1:]
        self.rows[-1] = (x * 2).numpy()[0]
        return x + torch.from_numpy(self.rows.mean(0))

    def appended(self, x):
        self.history.append((x * 2).numpy())
        return x + 1

    def normalised(self, x):
        a = (x * 1).numpy()
        b = (a - self.mean) / (self.rows.std(0) + 1e-3)
        self.mean = 0.9 * self.mean + 0.1 * a[0]
        return torch.from_numpy(b)


@pytest.mark.parametrize("name", ["replaced", "written", "shifted", "appended", "normalised"])
def test_state_of_numpys_is_no_new_capture(name):
    ours, theirs = State(), State()
    fast = braze.compile(getattr(ours, name))
    with torch.no_grad():
        for seed in range(12):
            x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
            torch.testing.assert_close(fast(x), getattr(theirs, name)(x))
            np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(ours.rows, theirs.rows, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(ours.history, theirs.history, rtol=1e-5, atol=1e-6)
    assert fast.counts()["captured"] <= 2
    assert fast.counts()["native"] == 0
