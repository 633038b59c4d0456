"""Counts of the layout's rules of size, naming and markup; `pytest tests/test_house_limits.py -s -n 0` prints them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.source import docstrings, functions_of_module, imports, module_name, modules, nodes, templates, text, tree

SOURCE = ("dashboard", "envelopes")
MODULES = 634  # 272 when the layout was new; masks, the workspace, plans, tools, live intake and formats came since
CODE_LINES = 80_500  # without blanks, comments and docstrings; 30,777 when the layout was new
SMALL_MODULE = 110  # lines; a smaller one with a single importer belongs into it
SHORT_FUNCTION = 3  # lines, the `def` included
SHORT_FUNCTIONS_SHARE = 0.10
TEMPLATE_COLUMNS = 140
TEMPLATE_LINES = 140

# Modules that something else than an import line calls for: a view, a command, a pool, a member of a registry.
ENTRY_POINTS = re.compile(
    r"dashboard\.(views|management|models|templatetags)\..+|dashboard\.(urls|wsgi|apps|settings|middleware|server|preload|__main__)"
    r"|envelopes\.families\.\w+(\..+)?|envelopes\.(recordings|variants|transports|codecs|recorder)\.\w+"
)
# Other small modules with a single importer, each with the reason why it stays apart.
APART = {
    "dashboard.text.shared_file_markup": "markup is written in markup modules alone; its importer writes shared files",
    "envelopes.text.patterns": "compiles what somebody typed, for any layer; search is its first user",
    "dashboard.store_sqlite3.base": "Django imports a database backend by this name",
    "dashboard.dask_cluster": "a worker of a cluster loads it before Django, so before all other modules of dashboard",
    "envelopes.alignment.coverage": "belongs to alignment, and its importer is a page of comparisons",
}
MARKUP = re.compile(r"dashboard/text/\w+_markup\.py|dashboard/templatetags/markup\.py")
TAG = re.compile(r"(?<!\?P)</?[a-zA-Z][a-zA-Z0-9-]*[\s>/]")  # a named group of an expression is no tag
MARKS_AS_SAFE = re.compile(r"__html__|\b(mark_safe|format_html|format_html_join|SafeString|SafeText)\(")
COMMON_CLASSES = {"Command", "Meta", "Migration", "Config"}
FRAGMENT = re.compile(r"(Of|As|What|Whether|Where|For who)\b")


@cache
def importers() -> dict[str, set[str]]:
    """For each module of the project, the modules that import it; packages are named without `__init__`."""
    names = {module_name(path): path for path in modules(*SOURCE)}
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in names.items():
        for imported in imports(path) & set(names):
            found[imported].add(name)
    return found


@cache
def code_lines(path: Path) -> int:
    documented = {line for docstring in docstrings(path) for line in range(docstring.lineno, docstring.end_lineno + 1)}
    if not _has_strings_of_lines(path):  # most modules, and a tokenizer is slow
        lines = enumerate(map(str.strip, text(path).splitlines()), start=1)
        return len({number for number, line in lines if line and not line.startswith("#")} - documented)
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = (token for token in tokenize.generate_tokens(io.StringIO(text(path)).readline) if token.type not in blank)
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - documented)


def _has_strings_of_lines(path: Path) -> bool:
    """True when a line may be within a string that is no docstring, so that it counts whatever stands in it."""
    quotes = len(re.findall(r"\"{3}|'{3}", text(path)))
    return quotes != 2 * len(docstrings(path)) or "\\\n" in text(path)


def test_there_are_no_more_modules_and_lines_of_code_than_now() -> None:
    by_folder = Counter("/".join(path.parts[:2]) if len(path.parts) > 2 else path.parts[0] for path in modules(*SOURCE))
    lines = sum(code_lines(path) for path in modules(*SOURCE))
    print("\nmodules:", ", ".join(f"{folder} {count}" for folder, count in sorted(by_folder.items())))
    print(f"modules in all: {by_folder.total()}; lines of code: {lines:,}")
    assert by_folder.total() <= MODULES
    assert lines <= CODE_LINES


def test_no_small_module_has_a_single_importer() -> None:
    """A package's `__init__` that re-exports a module makes it a part of the package's interface."""
    packages = {module_name(path) for path in modules(*SOURCE) if path.name == "__init__.py"}
    small = {
        name: importer
        for path in modules(*SOURCE)
        if path.name != "__init__.py" and len(text(path).splitlines()) < SMALL_MODULE
        if not ENTRY_POINTS.fullmatch(name := module_name(path)) and name not in APART
        for importer in [importers()[name]]
        if len(importer) < 2 and not importer & packages
    }
    print(f"\nsmall modules with a single importer: {len(small)}, and by name with a reason: {len(APART)}")
    assert not small
    assert set(APART) <= {module_name(path) for path in modules(*SOURCE)}


def test_few_free_functions_are_short_and_called_once() -> None:
    free = [(path, node) for path in modules(*SOURCE) for node in functions_of_module(path)]
    uses = Counter(name for path in modules(*SOURCE) for name in _names_used(path))
    hops = [
        f"{path}:{node.lineno} {node.name}"
        for path, node in free
        if (node.end_lineno or node.lineno) - node.lineno < SHORT_FUNCTION and not node.decorator_list
        if uses[path, node.name] + (0 if node.name.startswith("_") else uses[None, node.name]) < 2
    ]
    share = len(hops) / len(free)
    print(f"\nfree functions: {len(free)}; of three lines or fewer with one caller: {len(hops)} = {share:.1%}")
    assert share <= SHORT_FUNCTIONS_SHARE, "\n".join(hops)


def _names_used(path: Path) -> Iterator[tuple[Path | None, str]]:
    """Names read in the module, under its path, and names imported from elsewhere, under None."""
    for node in nodes(path):
        if isinstance(node, ast.Name):
            yield path, node.id
        elif isinstance(node, ast.ImportFrom):
            yield from ((None, alias.name) for alias in node.names)


def test_markup_is_written_in_templates_and_markup_modules_alone() -> None:
    elsewhere = [path for path in modules("dashboard") if not MARKUP.fullmatch(path.as_posix())]
    tags = [f"{path}:{node.lineno} {node.value[:60]!r}" for path in elsewhere for node in _strings_with_tags(path)]
    marked = [
        f"{path}:{number}"
        for path in [*elsewhere, *modules("envelopes")]
        for number, line in enumerate(text(path).splitlines(), start=1)
        if MARKS_AS_SAFE.search(line)
    ]
    with_method = [str(path) for path in modules(*SOURCE) if "__html__" in text(path)]
    print(f"\ntags in string literals: {len(tags)}; marked as safe elsewhere: {len(marked)}")
    assert not tags
    assert not marked
    assert not with_method


def _strings_with_tags(path: Path) -> Iterator[ast.Constant]:
    documentation = set(docstrings(path))
    strings = (node for node in nodes(path) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    yield from (node for node in strings if node not in documentation and TAG.search(node.value))


def test_template_lines_and_templates_have_at_most_140() -> None:
    pages = [path for path in templates() if path.suffix == ".html"]
    wide = [
        f"{path}:{number}"
        for path in pages
        for number, line in enumerate(text(path).splitlines(), start=1)
        if len(line) > TEMPLATE_COLUMNS
    ]
    long = [str(path) for path in pages if len(text(path).splitlines()) > TEMPLATE_LINES]
    print(f"\ntemplate lines over {TEMPLATE_COLUMNS} characters: {len(wide)}; templates over 140 lines: {len(long)}")
    assert not wide
    assert not long


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path in modules(*SOURCE):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in COMMON_CLASSES:
                places[node.name].append(str(path))
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    print(f"\npublic classes: {len(places)}; names that stand twice: {len(twice)}")
    assert not twice


def test_no_docstring_begins_as_a_fragment() -> None:
    fragments = [
        f"{path}:{docstring.lineno} {docstring.value.splitlines()[0][:80]}"
        for path in modules(*SOURCE)
        for docstring in docstrings(path)
        if FRAGMENT.match(docstring.value.strip())
    ]
    print(f"\ndocstrings that begin with Of, As, What, Whether, Where or For who: {len(fragments)}")
    assert not fragments
