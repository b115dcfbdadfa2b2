"""Random programs whose world changes between calls, against plain Python."""

import pytest
import test_stale
from random_worlds import run_world


@pytest.mark.parametrize("seed", range(120))
@pytest.mark.parametrize("compiler", test_stale.COMPILERS)
def test_random_world(compiler, seed):
    seen, story = run_world(seed, test_stale.COMPILERS[compiler])
    expected, _ = run_world(seed, test_stale.plain)
    for i, (one, other) in enumerate(zip(seen, expected, strict=True)):
        assert one == other, f"call {i} of\n" + "\n".join(story)


@pytest.mark.skipif("braze" not in test_stale.COMPILERS, reason="no evaluator for this Python")
@pytest.mark.parametrize("seed", range(40))
def test_random_world_where_sizes_are_symbols(seed):
    seen, story = run_world(seed, test_stale.DYNAMIC)
    expected, _ = run_world(seed, test_stale.plain)
    for i, (one, other) in enumerate(zip(seen, expected, strict=True)):
        assert one == other, f"call {i} of\n" + "\n".join(story)


def test_random_worlds_change_results():
    """A compiler that remembers the first result is caught in nearly all of them."""
    caught = sum(run_world(s, test_stale.remember_first)[0] != run_world(s, test_stale.plain)[0] for s in range(40))
    assert caught >= 38
