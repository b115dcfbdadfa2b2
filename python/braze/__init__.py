"""braze compiles PyTorch programs: decorate a function or wrap a module, and call it as before.

>>> compiled = braze.compile(model)
>>> y = compiled(x)
>>> print(braze.explain(model)(x))
"""

import os as _os

from braze import _functions, _library_in_python, _logs, _stand_ins, compiler, config
from braze._aot import aot_autograd, aot_function
from braze._backends import list_backends, register_backend
from braze._compile import compile
from braze._explain import BreakReason, Explanation, explain
from braze._load import C as _C
from braze._logs import set_logs
from braze._modes import list_modes, list_options
from braze._module import CompiledModule
from braze._reading import TraceWarning
from braze._report import compare_reports, report
from braze._trace import trace

__version__ = "0.1.0"

_folder = _os.path.dirname(_os.path.abspath(__file__))
#: For CMake: `find_package(braze)` finds the C++ face below it (docs/cpp.md): of the installed wheel, or of what
#: `cmake --install build --prefix build/prefix` has put there in a source tree.
cmake_prefix_path = _os.path.join(_folder, "share", "cmake")
if not _os.path.isdir(cmake_prefix_path):
    cmake_prefix_path = _os.path.normpath(_os.path.join(_folder, "..", "..", "build", "prefix", "share", "cmake"))

Program = _C.Program
Error = _C.Error
ArgumentTypeError = _C.ArgumentTypeError
ArgumentValueError = _C.ArgumentValueError
OutOfRangeError = _C.OutOfRangeError
InternalError = _C.InternalError

_logs.from_environment()
_stand_ins.install()
_library_in_python.install()
_functions.install()

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
    "aot_autograd",
    "aot_function",
    "cmake_prefix_path",
    "compare_reports",
    "compile",
    "compiler",
    "config",
    "explain",
    "list_backends",
    "list_modes",
    "list_options",
    "register_backend",
    "report",
    "set_logs",
    "trace",
]


def __dir__() -> list[str]:
    return __all__
