"""Writes docs/settings.md: every setting and environment variable, from the two tables that the code reads.

.venv/bin/python tools/settings_page.py
"""

from pathlib import Path

from braze import _logs
from braze._load import C
from braze._settings import SETTINGS

PAGE = Path(__file__).resolve().parent.parent / "docs/settings.md"

INTRODUCTION = """# Settings

`braze.config` holds the settings: `braze.config.fusion = False` is for what is compiled from then on,
`braze.config.patch(fusion=False)` for a `with` block or a decorated function, `braze.compile(options={"fusion":
False})` for one function where the table says so, and the variable, read when braze is imported, for a process.

| setting | default | per function | variable | |
|---|---|---|---|---|
"""

SWITCHES = """
The compiled part reads these besides, most of them to look into results, times and faults:

| variable | values | |
|---|---|---|
"""

LOGS = """
`BRAZE_LOGS` names what is logged, with commas between: {names}, or `all`.
"""


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"


def page() -> str:
    """The whole text, made from the tables."""
    text = INTRODUCTION
    for setting in SETTINGS.values():
        default = f"`{setting.default!r}`" if setting.default != "" else ""
        per_function = "yes" if setting.per_call else ""
        text += row(f"`{setting.name}`", default, per_function, f"`{setting.environment}`", setting.meaning)
    text += SWITCHES
    told = {setting.environment for setting in SETTINGS.values()}
    for name, values, meaning in C.switches:
        if name not in told:
            text += row(f"`{name}`", values, meaning)
    names = ", ".join(f"`{name}`" for name in _logs.NAMES)
    return text + LOGS.format(names=names)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
