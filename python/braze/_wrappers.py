"""What captures run in the place of PyTorch's helpers for classes with a `__torch_dispatch__`."""

from typing import Any

from torch.utils import _python_dispatch

from braze._load import C


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """Within a capture no operator that writes reaches such a class, so that there is nothing to give back. The
    storage of a wrapper means something for views that leave the function, which are not rebuilt."""
    if not isinstance(args, tuple):
        C.end_graph("return_and_correct_aliasing of a call that it does not take")
    if func.is_view:
        for one in out if isinstance(out, (list, tuple)) else (out,):
            if type(one) is not type(args[0]):
                C.end_graph("a view that is of another class than its tensor")
    return out


def install() -> None:
    C.set_stand_in(_python_dispatch.return_and_correct_aliasing, return_and_correct_aliasing)
