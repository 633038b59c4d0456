"""The rules of the layout that no import contract can say. ARCHITECTURE.md gives their reasons."""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.source import (
    functions,
    imported_with_the_module,
    imports,
    method_calls,
    modules,
    nodes,
    templates,
    text,
    tracked,
)

SOURCE = ("dashboard", "envelopes")
EVERYTHING = (*SOURCE, "tests")
MODULE_LINES = 430
FUNCTION_LINES = 60
TOP_LEVEL = {
    *("manage.py", "pyproject.toml", "dashboard", "envelopes", "templates", "static", "tests"),
    *("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", ".gitignore", ".ci"),
}
BANNED = re.compile(r"^(services?|utils?|helpers?|managers?|commons?|handlers?|processors?|misc|core|base_?classes)$")
BANNED_CLASS = re.compile(r"^(Base|Abstract)[A-Z]|(Manager|Handler|Processor|Service|Helper|Utils?|Data|Info)$")
WRITES = {
    *("save", "create", "bulk_create", "bulk_update", "update", "delete"),
    *("get_or_create", "update_or_create", "acreate", "asave", "adelete"),
}
# What a view may write besides: the session, messages, headers, dictionaries, sets, and an operator's own saved view
# or comparison. Evidence is written by `ingest` alone.
NOT_EVIDENCE = re.compile(
    r"(session|headers|context|messages|params|query|found|seen|hashlib|digest|progress|bar|view|comparison)\b"
)
UNESCAPED = re.compile(r"\|\s*safe(seq)?\b|autoescape\s+off")
EXTENDS = re.compile(r'\{% extends "(.+?)" %\}')
BLOCK = re.compile(r"\{% block (\w+) %\}")
TEMPLATE_TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
UNSAFE = {
    "an inline script": re.compile(r"<script(?![^>]*\bsrc=)", re.IGNORECASE),
    "a style element": re.compile(r"<style\b", re.IGNORECASE),
    "a style attribute": re.compile(r"""\sstyle\s*=""", re.IGNORECASE),
    "an event attribute": re.compile(r"""\s(on[a-z]+|hx-on[a-z:-]*)\s*=""", re.IGNORECASE),
    "a script address": re.compile(r"javascript:", re.IGNORECASE),
}


def test_no_module_is_longer_than_430_lines() -> None:
    long = {str(path): size for path in modules(*EVERYTHING) if (size := len(text(path).splitlines())) > MODULE_LINES}
    assert not long


def test_no_folder_of_the_dashboard_has_grown_past_one_subject() -> None:
    folders = Counter(path.parent for path in modules("dashboard") if path.name != "__init__.py")
    assert not {str(folder): count for folder, count in folders.items() if count > 30}


def test_functions_are_small() -> None:
    sizes = dict(pair for path in modules(*SOURCE) for pair in functions(path))
    lines = sorted(sizes.values())
    assert not {name: size for name, size in sizes.items() if size > FUNCTION_LINES}
    assert statistics.median(lines) <= 10
    under_30 = sum(size < 30 for size in lines) / len(lines)
    assert under_30 >= 0.9, f"only {under_30:.0%} of {len(lines)} functions are under 30 lines"


def test_no_function_of_the_tests_is_longer_than_60_lines() -> None:
    assert not {name: size for path in modules("tests") for name, size in functions(path) if size > FUNCTION_LINES}


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert not [str(path) for path in modules(*EVERYTHING) if any(map(BANNED.match, [path.stem, *path.parent.parts]))]


def test_no_class_has_a_name_that_says_nothing() -> None:
    named = [f"{path}: {name}" for path in modules(*SOURCE) for name in _classes(path) if BANNED_CLASS.search(name)]
    assert not named


def test_envelopes_needs_msgspec_and_rfc8785_and_nothing_else_to_be_imported() -> None:
    """What else it can use is imported where it is used; one module runs in a process of its own.

    An adapter of the recorder is imported by those who use its library.
    """
    own_process = {"template_language.py"}
    adapters = {Path("envelopes/recorder") / name for name in ("langchain.py", "openai_agents.py")}
    known = sys.stdlib_module_names | {"envelopes", "msgspec", "rfc8785"}
    foreign = {
        f"{path} imports {name}"
        for path in modules("envelopes")
        if path.name not in own_process and path not in adapters
        for name in imported_with_the_module(path)
        if name.split(".")[0] not in known
    }
    assert not foreign


@pytest.mark.parametrize(("package", "registry"), [("families", "FAMILIES"), ("recordings", "RECORDINGS")])
def test_each_module_of_a_registry_is_listed_in_it(package: str, registry: str) -> None:
    init = Path("envelopes", package, "__init__.py")
    listed = re.search(rf"^{registry}\b[^=]*= \((.*?)\)$", text(init), re.MULTILINE | re.DOTALL)
    assert listed, f"{init} has no tuple {registry}"
    named = set(re.findall(r"(\w+)\.FORMATS?\b|(\w+)\.FAMILY\b", listed[1]))
    assert {first or second for first, second in named} == _members(package)


@pytest.mark.parametrize("package", ["families", "recordings"])
def test_members_of_a_registry_do_not_import_each_other(package: str) -> None:
    member = re.compile(rf"envelopes\.{package}\.(\w+)")
    crossing = [
        f"{path} imports {name}"
        for path in modules(f"envelopes/{package}")
        for name in imports(path)
        if (found := member.match(name)) and found[1] in _members(package) - {path.parts[2].removesuffix(".py")}
        if path.name != "__init__.py" or len(path.parts) > 3
    ]
    assert not crossing


def _members(package: str) -> set[str]:
    """Modules and folders directly below; a leading underscore, `base` or what all members share is no member."""
    found = {path.stem for path in (CHECKOUT / "envelopes" / package).iterdir() if path.suffix == ".py"}
    found |= {path.parent.name for path in (CHECKOUT / "envelopes" / package).glob("*/__init__.py")}
    return {
        name
        for name in found
        if name
        not in (
            "__init__",
            "anthropic_usage",
            "base",
            "documents",
            "document_fields",
            "json_lines",
            "session_lines",
            "gemini_answers",
            "object_fields",
            "places",
            "registry",
            "examples",
            "plugins",
            "segments",
            "fitting",
            "indented_values",
            "json_outputs",
        )
    }


@pytest.mark.parametrize("package", ["families", "recordings"])
def test_only_a_registry_names_its_members(package: str) -> None:
    """A tool that runs yields the result structs of its own family, so `runtime` names families."""
    naming = [
        f"{path} imports {name}"
        for path in modules(*SOURCE)
        if path.parts[:2] not in (("envelopes", package), ("envelopes", "runtime"))
        for name in imports(path)
        if re.fullmatch(rf"envelopes\.{package}\.(\w+)(\..*)?", name) and name.split(".")[2] in _members(package)
    ]
    assert not naming


def test_no_code_branches_on_the_name_of_a_tool() -> None:
    ladder = re.compile(r"""\b(if|elif|case)\b[^\n]*\btool(_name)?\s*(==\s*["']|in\s*[({\[])""")
    found = [f"{path}: {match[0].strip()}" for path in modules(*SOURCE) for match in ladder.finditer(text(path))]
    assert not found


def test_no_pattern_repeats_a_group_possessively() -> None:
    """`re` before Python 3.11.5 matches it wrongly (gh-106052, gh-100061). `(?>(?:…)*)` means the same as `(?:…)*+`."""
    repeated = re.compile(r"\)([*+?]|\{\d*,?\d*\})\+")
    found = [
        f"{path}:{node.lineno}: {node.value}"
        for path in modules(*SOURCE)
        for node in nodes(path)
        if isinstance(node, ast.Constant) and repeated.search(str(node.value))
    ]
    assert not found


def test_no_template_turns_escaping_off() -> None:
    assert not [f"{path}: {found[0]}" for path in templates() for found in UNESCAPED.finditer(text(path))]


def test_no_template_fills_a_block_that_its_parents_do_not_have() -> None:
    """Django drops such a block without a word, and the page is empty. A block within a filled one is a new one."""
    written = {path.relative_to("templates").as_posix(): text(path) for path in templates()}
    for name, said in written.items():
        known, parent = set[str](), EXTENDS.search(said)
        while parent:
            known |= set(BLOCK.findall(written[parent[1]]))
            parent = EXTENDS.search(written[parent[1]])
        if EXTENDS.search(said):
            assert set(outer_blocks(said)) <= known, name


def outer_blocks(template: str) -> Iterator[str]:
    depth = 0
    for tag in re.finditer(r"{% (end)?block\b ?(\w*)", template):
        if not tag[1] and not depth:
            yield tag[2]
        depth += -1 if tag[1] else 1


@pytest.mark.parametrize("what", UNSAFE)
def test_no_template_has(what: str) -> None:
    markup = {path: TEMPLATE_TAG.sub("", text(path)) for path in templates()}
    assert not [f"{path}: {found[0].strip()}" for path in markup for found in UNSAFE[what].finditer(markup[path])]


def test_every_script_and_stylesheet_comes_from_the_project() -> None:
    foreign = re.compile(r"""(?:src|href)\s*=\s*["'](?:https?:)?//""")
    scripts = re.compile(r"<(?:script|link|img|iframe)\b[^>]*>", re.IGNORECASE)
    assert not [f"{path}: {tag}" for path in templates() for tag in scripts.findall(text(path)) if foreign.search(tag)]


def test_views_hold_no_filter_chains_and_no_parsing() -> None:
    parsers = {"json", "msgspec", "envelopes.text.untrusted_json", "xml", "html.parser", "csv"}
    for path in modules("dashboard/views"):
        assert not [f"{path}:{line}" for line, _, method in method_calls(path) if method in ("filter", "exclude")]
        assert not imports(path) & parsers, path


@pytest.mark.parametrize("folder", ["dashboard/views", "dashboard/management/commands", "dashboard/templatetags"])
def test_evidence_is_written_by_ingest_alone(folder: str) -> None:
    writing = [
        f"{path}:{line} {receiver}.{method}()"
        for path in modules(folder)
        for line, receiver, method in method_calls(path)
        if method in WRITES and not NOT_EVIDENCE.search(receiver) and receiver not in _imported_modules(path)
    ]
    assert not writing


def _imported_modules(path: Path) -> set[str]:
    """`recording.delete(run)` is the write path itself, not a row's method."""
    return {name.rsplit(".", 1)[-1] for name in imports(path) if name.startswith("dashboard.") and _is_module(name)}


def _is_module(name: str) -> bool:
    return (CHECKOUT / name.replace(".", "/")).with_suffix(".py").exists()


def test_views_are_functions() -> None:
    classes = [f"{path}: {node}" for path in modules("dashboard/views") for node in _classes(path) if "View" in node]
    assert not classes


def _classes(path: Path) -> list[str]:
    return [node.name for node in nodes(path) if isinstance(node, ast.ClassDef)]


def test_the_top_level_holds_the_fixed_entries_and_nothing_else() -> None:
    assert {path.parts[0] for path in tracked()} == TOP_LEVEL
    assert [path for path in tracked() if path.parts[0] == ".ci"] == [Path(".ci/run")]


def test_nothing_names_the_place_where_it_was_written() -> None:
    place = re.compile(r"(?<![\w.])/(work|root|home/\w+)/(main|shared)\b")
    suffixes = {".py", ".md", ".toml", ".html", ".css", ".js", ".txt", ""}
    kept_as_found = {"samples", "vendor", "golden"}
    files = [path for path in tracked() if path.suffix in suffixes and not kept_as_found & set(path.parts)]
    assert not [str(path) for path in files if place.search(text(path))]
