"""braze.compile: a function that braze captures on its first call, guards, and replays on later ones."""

from collections.abc import Callable
from typing import Any

from braze._load import C


def compile(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a callable that does what `function` does, faster where it could be captured.

    A call whose operators and Python were all understood becomes a program; later calls for which its guards hold
    replay it. Every other call runs natively. `counts()` of the result tells how calls ran, `reasons()` why they
    ran natively, `guards()` what the programs depend on.

    Today a call is captured whole or not at all, without gradients, and specialises on sizes and numbers.

    >>> @braze.compile
    ... def f(x, scale=2.0):
    ...     return torch.softmax(x * scale, -1)
    """
    if not hasattr(C, "CompiledFunction"):
        raise C.Error("braze.compile captures Python on CPython 3.11 and 3.12 only; braze.trace works here.")
    return C.CompiledFunction(function)
