"""braze compiles PyTorch programs: trace a function or module once, call the program instead.

>>> program = braze.trace(model, (x,))
>>> y = program(x)
>>> print(program.code("loops"))
"""

import os as _os

from braze._compile import compile
from braze._load import C as _C
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

__all__ = [
    "ArgumentTypeError",
    "ArgumentValueError",
    "Error",
    "InternalError",
    "OutOfRangeError",
    "Program",
    "TraceWarning",
    "__version__",
    "cmake_prefix_path",
    "compile",
    "trace",
]
