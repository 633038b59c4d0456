"""What lint finds in a recorded receipt, each finding with the place that it means.

Both halves are looked at in part when they are long, and a rule that misses something cannot be sure then:
of a receipt that goes on behind what was looked at, only findings about what stands there are kept.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

import msgspec

from dashboard.artifacts.summaries import Glanced
from dashboard.evidence.call_evidence import Surfaces
from dashboard.text.chunks import FIRST_CHARS
from dashboard.text.receipt_markup import Links
from envelopes.halves import Halves, lint_recorded
from envelopes.lint.model import Finding
from envelopes.schema.receipt import Part, Receipt, TextPart, text_part
from envelopes.schema.result import JsonValue

LOOKED_AT = 64 * 1024  # characters of the receipt, and of the texts of the result
AT_FIRST = FIRST_CHARS  # what a page that shows them looks at, unless `?lint=more` asks it for more
WHEN_ASKED = 256 * 1024
MEMBER = 64  # what each member takes of that room beside its text: the rules look at members one by one
FINDINGS_SHOWN = 12
SIGNS = {"error": ("cross", "bad"), "warning": ("warning", "warn"), "note": ("info", "accent")}


@dataclass(frozen=True, kw_only=True)
class FindingLine:
    """`span` are characters `start-end` of the receipt; the pointers name the field in each document."""

    rule: str
    severity: str
    icon: str
    tone: str
    sentence: str
    span: str
    canonical: str
    recorded: str
    args: str

    @property
    def field(self) -> str:
        return self.canonical or self.recorded or self.args


@dataclass(frozen=True, kw_only=True)
class LintPane:
    """`left` findings are not listed. `looked_at` is 0 where all of the receipt was looked at.

    `further`: so many characters will be looked at when asked for. `is_asked`: they were.
    """

    lines: tuple[FindingLine, ...]
    left: int
    looked_at: int
    further: int
    is_asked: bool

    @property
    def says_something(self) -> bool:
        return bool(self.lines or self.looked_at or self.is_asked)


def lint_reach(query: Mapping[str, str]) -> int:
    """How many characters of the receipt the address asks the rules to look at."""
    return WHEN_ASKED if query.get("lint") == "more" else AT_FIRST


def lint_pane(surfaces: Surfaces, artifacts: Iterable[Glanced], reach: int = LOOKED_AT) -> LintPane | None:
    """None without a receipt. `artifacts` are the call's own: one that nobody has listed may still be there."""
    if surfaces.halves.receipt is None:
        return None
    missing = {one.artifact.path for one in artifacts if one.is_lost}
    kept, is_long = recorded_findings(surfaces.halves, missing, reach)
    links = Links(surfaces.halves.reading.links)
    return LintPane(
        lines=tuple(_line(one, links) for one in kept[:FINDINGS_SHOWN]),
        left=max(0, len(kept) - FINDINGS_SHOWN),
        looked_at=reach if is_long else 0,
        further=min(WHEN_ASKED, len(surfaces.receipt_text)) if is_long and reach < WHEN_ASKED else 0,
        is_asked=reach == WHEN_ASKED,
    )


def recorded_findings(halves: Halves, missing: Container[str], reach: int = LOOKED_AT) -> tuple[list[Finding], bool]:
    """What is kept of the findings, and whether the receipt was looked at only in part; nothing without one.

    `missing` are paths of artifacts whose content is not there. `reach`: so many characters are looked at.
    """
    if halves.receipt is None:
        return [], False
    is_long = len(halves.receipt.text) > reach
    beginning = msgspec.structs.replace(
        halves,
        receipt=_first_of(halves.receipt, reach) if is_long else halves.receipt,
        evidence=msgspec.structs.replace(halves.evidence, result=_Room(reach).bounded(halves.evidence.result)),
    )
    found = lint_recorded(beginning, has_artifact=lambda path: path not in missing, is_whole=not is_long)
    return list(found), is_long


def _line(finding: Finding, links: Links) -> FindingLine:
    is_recorded = finding.document == "complete"
    canonical = links.canonical(finding.pointer) if is_recorded and finding.pointer else finding.pointer
    return finding_line(
        finding,
        canonical="" if finding.document == "args" else canonical or "",
        recorded=finding.pointer if is_recorded else "",
        args=finding.pointer if finding.document == "args" else "",
    )


def finding_line(finding: Finding, *, canonical: str = "", recorded: str = "", args: str = "") -> FindingLine:
    """With the pointer into each document that it names a field of."""
    icon, tone = SIGNS[finding.severity]
    return FindingLine(
        rule=finding.rule,
        severity=finding.severity,
        icon=icon,
        tone=tone,
        sentence=finding.sentence,
        span=f"{finding.span[0]}-{finding.span[1]}" if finding.span else "",
        canonical=canonical,
        recorded=recorded,
        args=args,
    )


def _first_of(receipt: Receipt, room: int) -> Receipt:
    """Its beginning; parts that are no text stand where they stood."""
    return Receipt(tuple(_first_parts(receipt, room)))


def _first_parts(receipt: Receipt, room: int) -> Iterator[Part]:
    for part in receipt.parts:
        if not isinstance(part, TextPart):
            yield part
            continue
        yield text_part(part.text[:room], tuple(part.within(0, room)))
        room = max(0, room - len(part.text))


class _Room:
    """Copies a JSON value as long as there is room; what comes after is empty, so that pointers still hold."""

    def __init__(self, characters: int) -> None:
        self.left = characters

    def bounded(self, value: JsonValue) -> JsonValue:
        match value:
            case str():
                kept = value[: max(0, self.left)]
                self.left -= len(value)
                return kept
            case dict():
                return {key: self.bounded(child) for key, child in takewhile(self._has_room, value.items())}
            case list():
                return [self.bounded(child) for child in takewhile(self._has_room, value)]
        return value

    def _has_room(self, _member: object) -> bool:
        self.left -= MEMBER
        return self.left > 0
