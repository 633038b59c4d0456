"""Writes `requirements.toml` as a page of the operator documentation.

    python -m tests.requirements_page

The page has a table for each of the four texts. A row names the files of its tests; the functions are in the map.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dashboard.text.markdown import FOLDER
from tests.requirement_draw import MAP, ROW

PAGE = FOLDER / "requirements.md"
COMMAND = "python -m tests.requirements_page"
GROUPS = {
    "RFC": "Result envelope",
    "CALL": "Calls, results and events",
    "OUT": "Outcomes",
    "TOOLS": "Tools",
}
INTRODUCTION = f"""\
A requirement is proved by tests that fail when its behaviour is taken away. Behind such a requirement are the files \
of these tests, with the number of tests where there are several; `tests/requirements.toml` names the functions. An \
open requirement has the reason, and the tests of the part that works already, if there are any.

`{COMMAND}` writes this page from `tests/requirements.toml`.
"""


@dataclass(frozen=True)
class Requirement:
    """`tests` prove the requirement, or only a part of it where `open_because` is set."""

    id: str
    sentence: str
    tests: tuple[str, ...]
    needs_none_because: str
    open_because: str

    @property
    def group(self) -> str:
        return self.id.partition("-")[0]

    @property
    def verdict(self) -> str:
        if self.open_because:
            return "open"
        return "none needed" if self.needs_none_because else "proved"


def load_requirements() -> list[Requirement]:
    """Loads the map, in its order; the comment above each row is its sentence."""
    source = MAP.read_text("utf-8")
    sentences = {match["row"]: match["sentence"] for match in ROW.finditer(source)}
    return [
        Requirement(
            row,
            sentences[row],
            tuple(entry.get("tests") or entry.get("part", ())),
            entry.get("reason", ""),
            entry.get("open", ""),
        )
        for row, entry in tomllib.loads(source).items()
    ]


def render_page(requirements: Sequence[Requirement]) -> str:
    return "\n".join(_lines(requirements)) + "\n"


def _lines(requirements: Sequence[Requirement]) -> Iterator[str]:
    verdicts = Counter(requirement.verdict for requirement in requirements)
    yield "# Requirements\n"
    yield (
        f"Of the {len(requirements)} requirements of the domain, {verdicts['proved']} are proved by tests, "
        f"{verdicts['none needed']} need none, and {verdicts['open']} are open.\n"
    )
    yield from _row("Group", "All", "Proved", "None needed", "Open")
    yield from _row(*["---"] * 5)
    for group, title in GROUPS.items():
        counts = Counter(requirement.verdict for requirement in requirements if requirement.group == group)
        numbers = (counts.total(), counts["proved"], counts["none needed"], counts["open"])
        yield from _row(f"{title} ({group})", *map(str, numbers))
    yield f"\n{INTRODUCTION}"
    for group, title in GROUPS.items():
        yield f"## {title}\n"
        yield from _row("Id", "Requirement", "Proof")
        yield from _row(*["---"] * 3)
        for requirement in requirements:
            if requirement.group == group:
                yield from _row(requirement.id, requirement.sentence, _proof(requirement))
        yield ""


def _row(*cells: str) -> Iterator[str]:
    yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _proof(requirement: Requirement) -> str:
    files = _list_files(requirement.tests)
    if requirement.open_because:
        return f"**Open**: {requirement.open_because}" + (f" Tested so far: {files}" if files else "")
    return f"None needed: {requirement.needs_none_because}" if requirement.needs_none_because else files


def _list_files(tests: Iterable[str]) -> str:
    counts = Counter(test.partition("::")[0].rpartition("/")[2] for test in tests)
    return ", ".join(f"`{name}`" + (f" ({count} tests)" if count > 1 else "") for name, count in counts.items())


if __name__ == "__main__":
    PAGE.write_text(render_page(load_requirements()), "utf-8")
