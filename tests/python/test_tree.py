"""The tree as text: who includes whom, how long files are, how wide classes, and that names lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CPP = (".h", ".cpp")
PARTS = ("src", "include", "python", "tests", "tools", "bench", "examples")


def files(*folders, suffixes):
    """Of the tree itself: nothing that was built or is kept beside it."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)
    return sorted(path for path in found if not {"__pycache__", "build", "out"} & set(path.relative_to(ROOT).parts))


# A folder includes what stands before it, never what stands behind. (docs/design.md has the picture.)
LIBRARIES = ("support target ir passes loops cache codegen device compile", "capture runtime", "api python")
FOLDERS = " ".join(LIBRARIES).split()
WITHIN = {
    "python": "guards interpreter compile",
    "runtime": "device autograd",
    "codegen": "x86 nvptx",
    "loops": "schedule",
    "loops/schedule": "cpu gpu",
    "runtime/device": "cpu cuda",
    "device": "cuda",
    "python/interpreter": "watch",
}


def includes():
    """(the file, a file of src/ that it includes), both from src/."""
    for path in files("src", suffixes=(*CPP, ".def")):
        for name in re.findall(r'#\s*include "([^"]+)"', path.read_text()):
            if (ROOT / "src" / name).exists():
                yield path.relative_to(ROOT / "src"), Path(name)


def test_every_folder_has_its_place():
    here = [ROOT / "src"]
    while here:
        folder = here.pop()
        name = folder.relative_to(ROOT / "src").as_posix()
        inner = {path for path in folder.iterdir() if path.is_dir() and any(path.iterdir())}
        assert {path.name for path in inner} == set(FOLDERS if name == "." else WITHIN.get(name, "").split()), name
        here += inner


def test_includes_point_one_way():
    """Between the folders of one folder. Of two targets, neither knows the other."""
    wrong = []
    for file, included in includes():
        above = Path()
        for mine, its in zip(file.parts[:-1], included.parts[:-1], strict=False):
            if mine != its:
                order = WITHIN[above.as_posix()].split() if above.parts else FOLDERS
                targets = {mine, its} in ({"cpu", "gpu"}, {"cpu", "cuda"}, {"x86", "nvptx"})
                if targets or order.index(its) > order.index(mine):
                    wrong.append(f"{file} includes {included}")
                break
            above /= mine
    assert not wrong, "\n".join(wrong)
    assert len(list(includes())) > 1000


@pytest.mark.parametrize(
    ("library", "strange"),
    [
        (0, r"(torch|ATen|c10|pybind11)/|(Python|structmember)\.h"),
        (1, r"(pybind11/|torch/csrc/Py|torch/python)|Python\.h"),
    ],
)
def test_libraries_know_only_what_they_may(library, strange):
    """The core neither torch nor Python, what stands on it no Python."""
    wrong = [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in files(*(f"src/{folder}" for folder in LIBRARIES[library].split()), suffixes=CPP)
        for name in re.findall(r'#\s*include [<"]([^">]+)[">]', path.read_text())
        if re.match(strange, name)
    ]
    assert not wrong, "\n".join(wrong)


def test_files_are_about_one_thing():
    """600 lines at most."""
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for path in files(*PARTS, suffixes=(*CPP, ".def", ".py"))
        if (lines := len(path.read_text().splitlines())) > 600
    }
    assert not long


def _bare(text):
    """Without comments, preprocessor lines and what is between quotes."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", text, flags=re.M)
    return re.sub(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)'", '""', text)


def _end_of_braces(text, start):
    depth = 0
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.end()
    return len(text)


def _declarations(body):
    """Of a class, with `{}` for whatever stands in braces."""
    all, one, at = [], "", 0
    while at < len(body):
        if body[at] == "{":
            at = _end_of_braces(body, at)
            one += "{}"
            if body[at:].lstrip()[:1] not in (";", ",", "{"):  # Else it initialises a member.
                all.append(one)
                one = ""
        elif body[at] == ";":
            all.append(one)
            one, at = "", at + 1
        else:
            one, at = one + body[at], at + 1
    return all


def _method(declaration, class_name):
    """Its name, if it is a function that is no operator, constructor or destructor."""
    text = re.sub(r"\b(public|private|protected)\s*:|\[\[.*?\]\]|\balignas\([^)]*\)", "", declaration).strip()
    text = re.sub(r"^template\s*<[^{}]*?>\s*(?=\w)", "", text)
    if re.match(r"(class|struct|enum|union|using|friend|static_assert|typedef)\b", text) or "operator" in text:
        return None
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>;{}]*>", "", text)
    found = re.match(r"[^=({]*[\w>&*\])][\s&*]+(~?\w+)\s*\(", text)
    return found[1] if found and found[1].lstrip("~") != class_name else None


def methods_of_classes(path):
    """Read without a parser: what macros declare is not seen, nor is what a base class has."""
    text = _bare(path.read_text())
    named = r"(?<!enum )\b(?:class|struct)\s+(?:\[\[.*?\]\]\s*|BRAZE_\w+\s+)*([\w:]+)"
    for found in re.finditer(named + r"(?:\s+final)?\s*(?::\s*[^;{()]*)?\{", text):
        name = found[1].split("::")[-1]
        body = text[found.end() : _end_of_braces(text, found.end() - 1) - 1]
        yield name, [method for method in (_method(one, name) for one in _declarations(body)) if method]


def test_classes_are_about_one_thing(tmp_path):
    """About 40 methods at most, private ones included."""
    sample = tmp_path / "sample.h"
    sample.write_text(
        "class A final : public B {\n public:\n  A() : x_{1} {}\n  ~A();\n  int one() const { return f(2); }\n"
        "  template <typename T>\n  std::map<int, T> two(T (*f)(int)) {}\n  bool operator==(const A&) const;\n"
        "  virtual void three() = 0;\n private:\n  struct Inner { int four(); };\n"
        "  std::function<void()> member_;\n  int x_{}, y_ = f(3);\n};\n"
    )
    assert dict(methods_of_classes(sample)) == {"A": ["one", "two", "three"], "Inner": ["four"]}
    found = [
        f"{path.relative_to(ROOT)}: {name} has {len(methods)}"
        for path in files("src", "include", suffixes=CPP)
        for name, methods in methods_of_classes(path)
        if len(methods) > 40
    ]
    assert not found, "\n".join(found)


# What a name in a comment may be besides a file of this tree: sources of PyTorch, CPython and CUDA, and scripts of
# examples.
ELSEWHERE = re.compile(
    r"(ATen|c10|cpu)/.*|transformer\.cpp|(cuda|cublasLt|library_types)\.h|pycore_long\.h|pythoncapi_compat\.h"
    r"|tools/perf/.*|Objects/exception_handling_notes\.txt|(model|script|program|score|train)\.py|gm\.graph|program\.graph"
)
NAMED = re.compile(
    r"(?<![\w./<{}*-])((?:[\w-]+/)*[\w-]+\.(?:h|cpp|py|pyi|md|def|sh|cmake|toml|plan|graph|kernel|txt))\b(?![(/])"
)


NAMED_SUFFIXES = (".def", ".py", ".pyi", ".md", ".sh", ".cmake", ".toml", ".plan", ".graph", ".kernel", ".txt")


def comments(path):
    """(line number, text) of what explains: comments, and all of a page."""
    mark = {"": "#", ".py": "#", ".sh": "#", ".cmake": "#", ".txt": "#", ".md": ""}.get(path.suffix, r"(?<!:)//")
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := re.search(mark, line):
            yield number, line[found.end() :]


def test_files_that_comments_name_exist():
    everything = files(*PARTS, "docs", "cmake", suffixes=(*CPP, *NAMED_SUFFIXES))
    everything += [path for path in ROOT.iterdir() if path.is_file() and path.suffix in ("", *NAMED_SUFFIXES)]
    ends = {
        "/".join(parts[start:])
        for parts in (path.relative_to(ROOT).parts for path in everything)
        for start in range(len(parts))
    }
    lost = [
        f"{path.relative_to(ROOT)}:{number}: {name}"
        for path in everything
        if path.suffix in ("", ".h", ".cpp", ".def", ".py", ".md", ".cmake", ".sh") or path.name == "CMakeLists.txt"
        for number, text in comments(path)
        for name in NAMED.findall(text)
        if name not in ends and not ELSEWHERE.fullmatch(name) and "NAME" not in name
    ]
    assert not lost, "\n".join(lost)


def paragraphs(path):
    """(first line's number, lines) of what is neither a table nor code."""
    lines, start, code = [], 0, False
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        code ^= line.startswith("```")
        ends = code or not line.strip() or re.match(r"```|\||#|- |\d+\. ", line)
        if ends and lines:
            yield start, lines
            lines = []
        if not code and line.strip() and not re.match(r"```|\||#", line):
            start = start if lines else number
            lines.append(line)


WRITTEN_BY_TOOLS = ("api", "settings", "life_of_a_tensor")
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem not in WRITTEN_BY_TOOLS]
DESIGN = sorted((ROOT / "docs/design").glob("*.md"))


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES, *DESIGN], ids=lambda page: page.stem)
def test_pages_can_be_read(page):
    """Lines of 130 columns outside of tables and code; on the design, paragraphs of ten lines."""
    wide = [start for start, lines in paragraphs(page) if max(map(len, lines)) > 130]
    long = [start for start, lines in paragraphs(page) if page in DESIGN and len(lines) > 10]
    assert (wide, long) == ([], []), "first lines of paragraphs that are too wide, or too long"
