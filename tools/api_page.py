"""Writes docs/api.md: the API of Python from its docstrings, that of C++ from its headers.

.venv/bin/python tools/api_page.py
"""

import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import braze
from braze._load import C
from braze._settings import SETTINGS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/api.md"
HEADERS = ROOT / "include/braze"

INTRODUCTION = """# API reference

Written by `tools/api_page.py` from the docstrings of `python/braze` and the headers of `include/braze`.
[compile.md](compile.md) explains how the parts work together, [settings.md](settings.md) lists all settings and
environment variables, [cpp.md](cpp.md) tells how the C++ face is used.
"""

#: Classes of `Program.kernels` and `Program.steps`; the C++ face has the same (braze/program.h).
RECORDS = ("Kernel", "Step")


def names_of(owner: Any) -> list[str]:
    """The public names of a module or class, in order; of a class its own ones."""
    if inspect.ismodule(owner):
        return sorted(owner.__all__, key=str.lower)
    return [name for name in vars(owner) if not name.startswith("_")]


def docstring(value: Any) -> str:
    """Without the signature that pybind11 puts first."""
    text = inspect.getdoc(value) or ""
    return re.sub(r"^\w+\(.*\) -> .*\n+", "", text)


def signature(name: str, value: Any) -> str:
    """As it stands in a program, one parameter a line where it is long."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return f"{name}()"
    text = f"{name}{found}".replace("~", "")
    text = re.sub(r"(collections\.abc|typing)\.", "", text)
    if len(text) <= 100:
        return text
    rows = [str(parameter) for parameter in found.parameters.values()]
    kinds = [parameter.kind for parameter in found.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        rows.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    body = "".join(f"    {row},\n" for row in rows)
    result = (
        "" if found.return_annotation is found.empty else f" -> {inspect.formatannotation(found.return_annotation)}"
    )
    return re.sub(r"(collections\.abc|typing)\.|~", "", f"{name}(\n{body}){result}")


def prose(text: str) -> str:
    """A docstring as Markdown: examples and indented parts as code."""
    out: list[str] = []
    lines = text.splitlines()
    position = 0
    while position < len(lines):
        line = lines[position]
        if line.startswith(">>> ") or line.startswith("    "):
            block = []
            while position < len(lines) and (
                lines[position].startswith((">>>", "...", "    ")) or not lines[position]
            ):
                block.append(lines[position])
                position += 1
            while block and not block[-1]:
                block.pop()
                position -= 1
            out += ["```", *textwrap.dedent("\n".join(block)).splitlines(), "```"]
            continue
        if re.fullmatch(r"(Args|Returns|Raises):", line):
            out.append(f"*{line[:-1]}*")
            position += 1
            described: list[str] = []
            while position < len(lines) and (lines[position].startswith("    ") or not lines[position]):
                if not lines[position] and not (
                    position + 1 < len(lines) and lines[position + 1].startswith("    ")
                ):
                    break
                entry = re.match(r"    (\S[^:]*): (.*)", lines[position])
                if entry and line != "Returns:":
                    described.append(f"- `{entry[1]}`: {entry[2]}")
                elif lines[position].strip():
                    described.append(f"  {lines[position].strip()}")
                position += 1
            out += ["", *described]
            continue
        out.append(line)
        position += 1
    return "\n".join(out).strip() + "\n"


def field_comments(cls: type) -> dict[str, str]:
    """What `#:` says of a dataclass's fields: behind one, or in the line above."""
    comments: dict[str, str] = {}
    above = ""
    for line in inspect.getsource(cls).splitlines():
        found = [
            token.string[2:].strip()
            for token in _tokens(line.strip())
            if token.type == tokenize.COMMENT and token.string.startswith("#:")
        ]
        field = re.match(r"\s+(\w+): ", line)
        if field:
            comments[field[1]] = found[0] if found else above
        above = found[0] if found and not field else ""
    return comments


def _tokens(line: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(io.StringIO(line).readline)
    except (tokenize.TokenError, IndentationError):
        return


def function_part(name: str, value: Any) -> str:
    return f"### `{name}`\n\n```\n{signature(name, value)}\n```\n\n{prose(docstring(value))}\n"


def class_part(name: str, cls: type) -> str:
    text = f"### `{name}`\n\n"
    if "__init__" in vars(cls) and not is_dataclass(cls) and cls.__module__.startswith("braze"):
        shown = signature(name, cls).removesuffix(" -> None")
        text += f"```\n{shown}\n```\n\n" if cls is not braze.CompiledModule else ""
    text += prose(docstring(cls)) + "\n"
    if is_dataclass(cls):
        comments = field_comments(cls)
        text += "| field | |\n|---|---|\n"
        text += "".join(f"| `{field.name}` | {comments.get(field.name, '')} |\n" for field in fields(cls)) + "\n"
    members = [
        member for member in names_of(cls) if not is_dataclass(cls) or member not in cls.__dataclass_fields__
    ]
    for member in members:
        text += member_row(member, inspect.getattr_static(cls, member))
    return text + ("\n" if members else "")


def member_row(name: str, value: Any) -> str:
    said = docstring(value).replace("\n", " ")
    call = "()" if callable(value) or inspect.ismethoddescriptor(value) else ""
    said = said.removeprefix(f"{name}(): ")
    if found := re.match(rf"{name}(\(\w+\)): ", said):
        call, said = found[1], said[found.end() :]
    return f"- `{name}{call}`{': ' if said else ''}{said}\n"


def exceptions_part(names: list[str]) -> str:
    rows = []
    for name in names:
        cls = getattr(braze, name)
        base = cls.__mro__[1]
        named = f"braze.{base.__name__}" if base.__name__ in braze.__all__ else base.__name__
        rows.append(f"| `braze.{name}` | `{named}` | {docstring(cls)} |\n")
    return "### Errors and warnings\n\n| | is a | |\n|---|---|---|\n" + "".join(rows) + "\n"


def module_part(module: Any) -> str:
    """Functions first, then classes, then errors."""
    prefix = module.__name__
    public = {name: getattr(module, name) for name in names_of(module)}
    errors = [name for name, value in public.items() if isinstance(value, type) and issubclass(value, Exception)]
    text = ""
    for name, value in public.items():
        if name == "compile" and module is braze.compiler:
            text += "### `braze.compiler.compile`\n\nThe same as `braze.compile`.\n\n"
        elif inspect.isroutine(value):
            text += function_part(f"{prefix}.{name}", value)
    for name, value in public.items():
        if isinstance(value, type) and name not in errors:
            text += class_part(f"{prefix}.{name}", value)
    if errors:
        text += exceptions_part(errors)
    return text


def config_part() -> str:
    text = f"{prose(docstring(braze.config))}\n| setting | |\n|---|---|\n"
    text += "".join(f"| `{setting.name}` | {setting.meaning} |\n" for setting in SETTINGS.values())
    for name in ("patch", "to_dict"):
        text += "\n" + function_part(f"braze.config.{name}", getattr(braze.config, name)).rstrip() + "\n"
    return text + "\n"


def public_header(path: Path) -> tuple[str, str]:
    """(what the header says it is, its declarations): without what is internal, private, or how it is done."""
    lines = path.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("//"))
    about = lines[0].removeprefix(f"// braze/{path.name}: ")
    kept: list[str] = []
    position = first
    while position < len(lines):
        line = lines[position]
        position += 1
        if found := re.match(r"namespace (detail|runtime) \{", line):
            position = _after(lines, position, "}  // namespace detail" if found[1] == "detail" else "}")
        elif line.strip() == "private:":
            position = _after(lines, position, "};") - 1
            if not kept[-1]:
                kept.pop()
        elif line.startswith(("#", "namespace braze", "}  // namespace")) or not line:
            kept.append("")
        elif line.lstrip().startswith(": "):  # What a constructor begins with.
            while not lines[position - 1].endswith("{}"):
                position += 1
            kept[-1] += ";"
        elif (declared := _declared(line)) is not None:
            depth = line.count("{") - line.count("}")
            while depth > 0:
                depth += lines[position].count("{") - lines[position].count("}")
                position += 1
            kept.append(declared)
        else:
            kept.append(line)
    declarations = re.sub(r"\n{2,}", "\n\n", "\n".join(kept)).strip()
    return about, declarations.replace(" BRAZE_API", "").replace("BRAZE_API ", "")


def _after(lines: list[str], position: int, end: str) -> int:
    while lines[position] != end:
        position += 1
    return position + 1


def _declared(line: str) -> str | None:
    """A function's declaration, if its body begins in the line."""
    if re.match(r"\s*(//|template|struct|class|enum|static constexpr)", line):
        return None
    plain = line.replace("= {}", "= @")
    found = re.match(r"(.*?\)(?: const| noexcept)*)(?: : \w+\(.*\))? \{", plain)
    return found[1].replace("= @", "= {}") + ";" if found else None


def field_rows(header: str, struct: str) -> dict[str, str]:
    """What a header's `///<` says of the members of a struct, which Python's class of that name has too."""
    text = (HEADERS / header).read_text()
    body = re.search(rf"struct {struct} \{{\n(.*?)\n\}};", text, re.DOTALL)
    rows = re.findall(r"^  [\w:<>]+ (\w+)(?: = \w+)?;(?:\s*///< (.*))?$", body[1] if body else "", re.MULTILINE)
    return dict(rows)


def cpp_part() -> str:
    text = ""
    for path in sorted(HEADERS.glob("*.h")):
        about, declarations = public_header(path)
        about = about if about.startswith("braze::") else about[:1].upper() + about[1:]
        text += f"### `braze/{path.name}`\n\n{about}\n\n"
        if declarations:
            text += f"```cpp\n{declarations}\n```\n\n"
    return text


def page() -> str:
    """The whole text."""
    text = INTRODUCTION + "\n## braze\n\n" + module_part(braze)
    text += class_part("CompiledFunction", C.CompiledFunction).replace(
        "\n\n", "\n\nWhat `braze.compile` returns for a function, and is called as that is.\n\n", 1
    )
    for name in RECORDS:
        text += f"### `{name}`\n\n{docstring(getattr(C, name))} Of `Program.{name.lower()}s`.\n\n| | |\n|---|---|\n"
        text += "".join(f"| `{field}` | {said} |\n" for field, said in field_rows("program.h", name).items()) + "\n"
    text += "### Names\n\n- `braze.cmake_prefix_path`: where CMake's `find_package(braze)` finds the C++ face.\n"
    text += "- `braze.__version__`: of the package.\n\n"
    text += "## braze.compiler\n\n" + prose(docstring(braze.compiler)) + "\n" + module_part(braze.compiler)
    text += "## braze.config\n\n" + config_part()
    text += "## C++\n\n" + cpp_part()
    return text.rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
