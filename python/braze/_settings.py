"""The table of settings: what braze.config holds, options= accepts and the environment sets."""

import os
from dataclasses import dataclass
from typing import Any

from braze._load import C
from braze._logs import set_logs


@dataclass(frozen=True)
class Setting:
    name: str
    default: Any  # Its type is the setting's.
    meaning: str
    environment: str
    per_call: bool = True  #: Also one of compile()'s options.
    least: int = 0  #: Of a number.
    of_code: bool = False  #: The code generator is told (python/program_options.h).
    of_segments: bool = False  #: braze's own backend of braze.compile is told (python/compile/backend.h).


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            "recompile_limit",
            8,
            "Programs for one call or place in a function; then it runs in eager there.",
            "BRAZE_RECOMPILE_LIMIT",
            least=1,
        ),
        Setting(
            "cache_size_limit",
            64,
            "Programs for all places of one function; then it runs in eager where there is none.",
            "BRAZE_CACHE_SIZE_LIMIT",
            least=1,
        ),
        Setting(
            "capture_scalar_outputs",
            False,
            "item(), tolist() and their like end no graph: it goes on with a number of each call.",
            "BRAZE_CAPTURE_SCALAR_OUTPUTS",
        ),
        Setting(
            "capture_dynamic_output_shape_ops",
            False,
            "nonzero(), boolean masks and their like end no graph: it goes on with a size of each call.",
            "BRAZE_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS",
        ),
        Setting(
            "suppress_errors",
            False,
            "A defect of braze makes the call run in eager, with a warning, instead of raising.",
            "BRAZE_SUPPRESS_ERRORS",
        ),
        Setting("verbose", False, "Everything is logged, as by braze.set_logs(all=True).", "BRAZE_VERBOSE", False),
        Setting("fusion", True, "Several operators may become one kernel.", "BRAZE_FUSE", of_code=True),
        Setting(
            "emulate_precision_casts",
            False,
            "Values of bf16 and f16 are rounded after every operator, as in eager.",
            "BRAZE_EMULATE_PRECISION_CASTS",
            of_code=True,
        ),
        Setting("disk_cache", True, "Machine code is kept on disk between processes.", "BRAZE_CACHE", of_code=True),
        Setting(
            "prepack_weights",
            False,
            "Copies of weights are kept as they are multiplied fastest; writes through .data are not seen.",
            "BRAZE_PREPACK_WEIGHTS",
            of_code=True,
        ),
        Setting(
            "max_autotune",
            False,
            "Forms of matrix products and of a GPU's kernels are measured in the first calls; last bits may vary.",
            "BRAZE_MAX_AUTOTUNE",
            of_code=True,
        ),
        Setting(
            "cudagraphs",
            False,
            "Calls on a GPU are recorded as CUDA graphs and replayed; the log cudagraphs says what is not.",
            "BRAZE_CUDAGRAPHS",
            of_code=True,
        ),
        Setting(
            "size_buckets",
            "",
            'Sizes to which batches that vary are padded, "8, 16, 32" or "powers_of_two"; as they are otherwise.',
            "BRAZE_SIZE_BUCKETS",
            of_segments=True,
        ),
        Setting(
            "verify", False, "Graph and machine code are checked as they are made.", "BRAZE_VERIFY", of_code=True
        ),
        Setting(
            "compile_threads",
            0,
            "Threads that make machine code; 0: as many as there are cores and work for.",
            "BRAZE_COMPILE_THREADS",
            of_code=True,
        ),
        Setting(
            "cache_dir", "", "Where machine code is kept; read at the first compilation.", "BRAZE_CACHE_DIR", False
        ),
        Setting(
            "cache_limit_mb",
            256,
            "How much machine code is kept on disk; read at the first compilation.",
            "BRAZE_CACHE_LIMIT_MB",
            False,
        ),
        Setting(
            "report",
            "",
            "A page about each compiled function (braze.report) is written to this folder as the process ends.",
            "BRAZE_REPORT",
            False,
        ),
    )
}


def check(name: str, value: Any, allowed: dict[str, Setting], what: str) -> Any:
    """The value. Raises for a name that is not allowed, and for a value of another type than the default's."""
    if name not in allowed:
        raise C.ArgumentValueError(f"unexpected {what} {name!r}; there are {', '.join(allowed)}")
    wanted = type(allowed[name].default)
    if type(value) is not wanted:
        raise C.ArgumentTypeError(
            f"{what} {name!r} is of type {type(value).__name__}, and should be of type {wanted.__name__}: "
            f"{allowed[name].meaning}"
        )
    _check_value(f"{what} {name!r}", value, allowed[name])
    return value


_MOST = 2**31 - 1  # What the compiled part takes.


def _is_list_of_sizes(text: str) -> bool:
    sizes = [size.strip() for size in text.split(",") if text]
    return text == "powers_of_two" or all(size.isdecimal() and int(size) > 0 for size in sizes)


def _check_value(name: str, value: Any, setting: Setting) -> None:
    """Numbers in range, and a folder that can be one."""
    if type(value) is int and not setting.least <= value <= _MOST:
        raise C.ArgumentValueError(f"{name} is {value}, and should be from {setting.least} to {_MOST}")
    if isinstance(value, str) and "\0" in value:
        raise C.ArgumentValueError(f"{name} is {value!r}, which cannot be the name of a folder")
    if setting.name == "size_buckets" and not _is_list_of_sizes(value):
        raise C.ArgumentValueError(
            f'{name} is {value!r}, and should be "powers_of_two", or sizes with commas between them: "8, 16, 32"'
        )
    if setting.name in ("cache_dir", "report") and os.path.exists(value) and not os.path.isdir(value):
        raise C.ArgumentValueError(f"{name} is {value!r}, which is no folder")


def from_environment(setting: Setting) -> Any:
    """The setting's value at start-up."""
    text = os.environ.get(setting.environment)
    if not text:
        return setting.default
    if isinstance(setting.default, bool):
        if text not in ("0", "1"):
            raise C.ArgumentValueError(f"{setting.environment} is {text!r}, and should be 0 or 1")
        return text == "1"
    if isinstance(setting.default, int):
        try:
            number = int(text)
        except ValueError:
            raise C.ArgumentValueError(f"{setting.environment} is {text!r}, and should be a number") from None
        _check_value(setting.environment, number, setting)
        return number
    return text


def apply(name: str, value: Any) -> None:
    """What a setting does that is not looked at when functions are compiled."""
    if name in ("cache_dir", "cache_limit_mb"):  # The compiled part reads them from the environment.
        os.environ[SETTINGS[name].environment] = str(value)
    elif name == "verbose":
        set_logs(all=value)


PER_CALL = {name: setting for name, setting in SETTINGS.items() if setting.per_call}
CAPTURE_SETTINGS = tuple(
    name for name, setting in PER_CALL.items() if not setting.of_code and not setting.of_segments
)
CODE_SETTINGS = tuple(name for name, setting in SETTINGS.items() if setting.of_code)
SEGMENT_SETTINGS = tuple(name for name, setting in SETTINGS.items() if setting.of_code or setting.of_segments)
