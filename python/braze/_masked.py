"""What captures run in the place of functions of torch.masked, see _stand_ins.py."""

from collections.abc import Callable
from typing import Any

from torch.masked import _ops
from torch.masked.maskedtensor.core import is_masked_tensor

from braze import _stand_ins
from braze._load import C


def _combine_input_and_mask(op: Callable[..., Any], input: Any, mask: Any, *args: Any) -> Any:
    """What is masked out is what an operation makes nothing of. Eager defines a class each time, for tensors that
    have a mask of their own, whether it is given one or not."""
    if is_masked_tensor(input) or not callable(op):
        C.end_graph(_stand_ins.NO_FORM)
    if mask is None:
        return input
    canonical = _ops._input_mask(input, mask=mask)
    return _ops._where(canonical, input, _ops._reduction_identity(op.__name__, input, *args))
