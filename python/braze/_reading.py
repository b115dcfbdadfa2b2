"""Reading a tensor's value while tracing: the value is computed from the example inputs and fixed in the trace.

item(), bool() and float() reach braze through the dispatcher. The methods here look at memory directly; while a
trace is going on they are replaced on torch.Tensor, for all threads, by versions that let every other tensor pass.
"""

import contextlib
import functools
import threading
from collections.abc import Iterator

import torch

from braze._load import C


class TraceWarning(UserWarning):
    """The program may not do what the traced function does for other inputs."""


_METHODS = {
    "tolist": "tolist()",
    "numpy": "numpy()",
    "__array__": "numpy",
    "__repr__": "print()",
    "data_ptr": "data_ptr()",
}
_lock = threading.Lock()
_active = 0  # Traces now going on, in all threads.
_originals: dict[str, object] = {}  # What torch.Tensor's own dictionary held; None: the method is inherited.


def _reader(name: str, what: str):
    inherited = getattr(torch.Tensor, name)

    @functools.wraps(inherited)
    def read(self, *args, **kwargs):
        if not C.is_tracer(self):
            return inherited(self, *args, **kwargs)
        return C.untraced(inherited, C.materialize(self, what), *args, **kwargs)

    return read


@contextlib.contextmanager
def freezing_reads() -> Iterator[None]:
    """While it is open, the methods above work on traced tensors."""
    global _active
    with _lock:
        _active += 1
        if _active == 1:
            for name, what in _METHODS.items():
                _originals[name] = torch.Tensor.__dict__.get(name)
                setattr(torch.Tensor, name, _reader(name, what))
    try:
        yield
    finally:
        with _lock:
            _active -= 1
            if _active == 0:
                for name, original in _originals.items():
                    if original is None:
                        delattr(torch.Tensor, name)
                    else:
                        setattr(torch.Tensor, name, original)
