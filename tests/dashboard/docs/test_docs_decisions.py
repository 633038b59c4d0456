"""The page of the decisions has exactly the rules that something in the repository cites."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.source import text, tracked

PAGE = Path("dashboard/docs/decisions.md")
THIS = Path("tests/dashboard/docs/test_docs_decisions.py")  # its examples cite nothing
ENDINGS = {".py", ".md", ".toml", ".html"}
CITED = re.compile(r"\b(OD|E|D)-(\d+)(?: to \1-(\d+))?\b")  # “to” names all rules from the first to the last
ABSENT = re.compile(r"\b(?:design|reliability|dependencies|workspace)\.md|\bspec/[a-z-]+\.md")
ROW = re.compile(r"^\| ((?:OD|E|D)-\d+) \| (.+) \| (.*)\|$", re.MULTILINE)


def find_cited(written: str) -> Iterator[str]:
    """Yields the ids that a text cites, each of a range.

    >>> list(find_cited("in order (OD-4 to OD-6, E-2)"))
    ['OD-4', 'OD-5', 'OD-6', 'E-2']
    """
    for group, first, last in CITED.findall(written):
        yield from (f"{group}-{number}" for number in range(int(first), int(last or first) + 1))


def cited_ids() -> dict[str, Path]:
    """Each cited id with a file that cites it."""
    files = [path for path in tracked() if path.suffix in ENDINGS and path not in (PAGE, THIS)]
    return {name: path for path in files for name in find_cited(text(path))}


def test_every_cited_rule_is_explained_once_and_every_explained_one_is_cited() -> None:
    rows = Counter(name for name, _rule, _reason in ROW.findall(text(PAGE)))
    cited = cited_ids()
    assert not {name: str(path) for name, path in cited.items() if name not in rows}
    assert not rows.keys() - cited.keys()
    assert set(rows.values()) == {1}


def test_a_rule_names_others_that_are_on_the_page() -> None:
    page = text(PAGE)
    assert set(find_cited(page)) <= {name for name, _rule, _reason in ROW.findall(page)}


def test_nothing_cites_a_document_that_is_not_in_the_repository() -> None:
    code = [path for path in tracked() if path.suffix == ".py" and path.parts[0] in ("dashboard", "envelopes")]
    assert code
    assert not [f"{path}: {found[0]}" for path in code if (found := ABSENT.search(text(path)))]
