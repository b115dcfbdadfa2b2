"""braze compiles PyTorch programs: decorate a function or wrap a module, and call it as before.

>>> compiled = braze.compile(model)
>>> y = compiled(x)
>>> print(braze.explain(model)(x))
"""

import os as _os

from braze import _logs, compiler, config
from braze._backends import list_backends, register_backend
from braze._compile import compile
from braze._explain import BreakReason, Explanation, explain
from braze._load import C as _C
from braze._logs import set_logs
from braze._modes import list_modes, list_options
from braze._module import CompiledModule
from braze._reading import TraceWarning
from braze._trace import trace

__version__ = "0.1.0"

#: For CMake: `find_package(braze)` finds the C++ face of the installed wheel below it (docs/cpp.md).
cmake_prefix_path = _os.path.join(_os.path.dirname(_os.path.abspath(__file__)), "share", "cmake")

Program = _C.Program
Error = _C.Error
ArgumentTypeError = _C.ArgumentTypeError
ArgumentValueError = _C.ArgumentValueError
OutOfRangeError = _C.OutOfRangeError
InternalError = _C.InternalError

_logs.from_environment()

__all__ = [
    "ArgumentTypeError",
    "ArgumentValueError",
    "BreakReason",
    "CompiledModule",
    "Error",
    "Explanation",
    "InternalError",
    "OutOfRangeError",
    "Program",
    "TraceWarning",
    "__version__",
    "cmake_prefix_path",
    "compile",
    "compiler",
    "config",
    "explain",
    "list_backends",
    "list_modes",
    "list_options",
    "register_backend",
    "set_logs",
    "trace",
]
