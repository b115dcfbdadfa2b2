"""Logs by name: BRAZE_LOGS=graph_breaks,recompiles in the environment, or braze.set_logs(graph_breaks=True)."""

import logging
import os

from braze._load import C

#: In the order of python/compile/events.h. Each is a logger `braze.<name>` of its own.
NAMES: tuple[str, ...] = getattr(C, "event_names", ())

_logger = logging.getLogger("braze")


def set_logs(*, all: bool = False, **wanted: bool) -> None:
    """Chooses what is logged from now on: set_logs(graph_breaks=True, recompiles=True). Nothing named: nothing.

    Texts go to the loggers `braze.graph_breaks` and so on, at level INFO, and to stderr as long as the program
    configures no logging of its own.
    """
    for name, value in wanted.items():
        if name not in NAMES:
            raise C.ArgumentValueError(f"no log is named {name!r}; there are {', '.join(NAMES)}")
        if not isinstance(value, bool):
            raise C.ArgumentTypeError(f"{name} is True or False, not {value!r}")
    names = [name for name in NAMES if wanted.get(name, all)]
    for name in NAMES:
        logging.getLogger(f"braze.{name}").setLevel(logging.INFO if name in names else logging.NOTSET)
    if names and not _logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        _logger.addHandler(handler)
    if NAMES:
        C.listen(_log if names else None, names)


def from_environment() -> None:
    """What BRAZE_LOGS asks for: names with commas between them, or "all". BRAZE_VERBOSE=1 asks for all."""
    text = "all" if os.environ.get("BRAZE_VERBOSE") == "1" else os.environ.get("BRAZE_LOGS", "")
    names = [name.strip().removeprefix("+") for name in text.split(",") if name.strip()]
    if names:
        set_logs(all="all" in names, **{name: True for name in names if name != "all"})


def _log(name: str, text: str) -> None:
    logging.getLogger(f"braze.{name}").info("%s", text)
