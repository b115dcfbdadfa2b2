"""Modes and options of braze.compile."""

from typing import Any

from braze import config
from braze._load import C
from braze._settings import PER_CALL, check

#: What each mode sets. On a CPU CUDA graphs change nothing: there is no launch overhead to save. Without autotuning
#: code is chosen from what is known of the machine, so that one input gives the same bits on every call.
_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"cudagraphs": True},
    "max-autotune": {"max_autotune": True, "cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
}


def list_modes() -> list[str]:
    """Names for `braze.compile(mode=...)`."""
    return list(_MODES)


def list_options() -> list[str]:
    """Names for `braze.compile(options={...})`; braze.config tells what they mean."""
    return list(PER_CALL)


def options_of(mode: str | None) -> dict[str, Any]:
    """What a mode sets.

    Raises:
        ValueError: for a mode that does not exist.
    """
    if mode is not None and mode not in _MODES:
        raise C.ArgumentValueError(f"unrecognized mode {mode!r}; there are {', '.join(_MODES)}")
    return dict(_MODES[mode or "default"])


def resolve(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    """Every setting's value for one compile(): the options, then the mode's, then braze.config's."""
    if mode is not None and options is not None:
        raise C.Error("mode and options cannot be given at the same time; a mode is a set of options")
    of_mode = options_of(mode)
    if options is not None and not isinstance(options, dict):
        raise C.ArgumentTypeError(f"options is a dict from names to values, not {options!r}")
    given = of_mode | {name.replace("-", "_"): value for name, value in (options or {}).items()}
    for name, value in given.items():
        check(name, value, PER_CALL, "option")
    return {name: config.to_dict()[name] for name in PER_CALL} | given
