"""Lints recorded receipts, and formats findings as rows with the place that each one means.

Of long texts only the beginning is linted. A rule that looks for something missing cannot be sure then, so only
findings about text within the beginning are kept.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

import msgspec

from dashboard.evidence.call_evidence import CallEvidence
from dashboard.text.receipt_markup import FieldLinks
from dashboard.text.text_markup import FIRST_CHARS
from envelopes.halves import Halves, lint_recorded
from envelopes.lint.model import Finding
from envelopes.schema.receipt import Part, Receipt, TextPart, text_part
from envelopes.schema.result import JsonValue

REACH = 64 * 1024  # characters of the receipt, and of the texts of the result, that a comparison lints
FIRST_REACH = FIRST_CHARS  # the same for a page, unless `?lint=more` asks for more
LONG_REACH = 256 * 1024
MEMBER_COST = 64  # characters that each member of the result counts beside its text: rules visit members one by one
FINDINGS_SHOWN = 12
RULE_LABELS = {
    "success_said": "failure reported as success",
    "exit_status_missing": "exit status not mentioned",
    "cut_without_marker": "cut without a marker",
    "empty_receipt": "empty receipt",
    "secret_present": "contains a secret",
    "artifact_missing": "refers to a file that is not stored",
    "marker_without_size": "cut without its size",
    "escaped_json": "text escaped as JSON",
    "repeated_text": "repeats a text",
    "preview_differs": "preview of something else",
    "headline_late": "outcome after parts of the result",
    "artifact_unnamed": "file not mentioned",
    "error_incomplete": "error not mentioned in full",
    "agent_unsaid": "agent id not mentioned",
    "reference_unsaid": "reference not mentioned",
    "saved_output_unsaid": "saved file not mentioned",
    "task_unsaid": "task id not mentioned",
    "work_item_unsaid": "work item not mentioned",
}
SIGNS = {"error": ("cross", "bad"), "warning": ("warning", "warn"), "note": ("info", "accent")}


def rule_label(name: str) -> str:
    """A rule of a package has no label here: its name is shown with spaces."""
    return RULE_LABELS.get(name, name.replace("_", " "))


@dataclass(frozen=True, kw_only=True)
class FindingLine:
    """`span` is a range of characters of the receipt, `start-end`; the pointers name the field in each document."""

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
    """The findings in a recorded receipt; `unlisted` counts those beyond FINDINGS_SHOWN.

    `linted` is the number of characters that were linted, 0 where that was the whole receipt; `further` the number
    that `?lint=more` would lint, with `is_further_whole` where that is all of it. `is_asked` is true when the address
    asked for more.
    """

    lines: tuple[FindingLine, ...]
    unlisted: int
    linted: int
    further: int
    is_further_whole: bool
    is_asked: bool

    @property
    def has_content(self) -> bool:
        return bool(self.lines or self.linted or self.is_asked)


def lint_reach(query: Mapping[str, str]) -> int:
    """The number of characters of the receipt that are linted; `?lint=more` raises it."""
    return LONG_REACH if query.get("lint") == "more" else FIRST_REACH


def build_lint_pane(evidence: CallEvidence, missing: Container[str], reach: int = REACH) -> LintPane | None:
    """None without a receipt. `missing` are paths of the call's artifacts whose content is not stored."""
    if evidence.halves.receipt is None:
        return None
    findings, is_long = lint_recorded_receipt(evidence.halves, missing, reach)
    links = FieldLinks(evidence.halves.reading.links)
    return LintPane(
        lines=tuple(_recorded_line(finding, links) for finding in findings[:FINDINGS_SHOWN]),
        unlisted=max(0, len(findings) - FINDINGS_SHOWN),
        linted=reach if is_long else 0,
        further=min(LONG_REACH, len(evidence.receipt_text)) if is_long and reach < LONG_REACH else 0,
        is_further_whole=len(evidence.receipt_text) <= LONG_REACH,
        is_asked=reach == LONG_REACH,
    )


def lint_recorded_receipt(halves: Halves, missing: Container[str], reach: int = REACH) -> tuple[list[Finding], bool]:
    """The findings in the first `reach` characters, and whether the receipt is longer; nothing without a receipt."""
    if halves.receipt is None:
        return [], False
    is_long = len(halves.receipt.text) > reach
    beginning = msgspec.structs.replace(
        halves,
        receipt=Receipt(tuple(_first_parts(halves.receipt, reach))) if is_long else halves.receipt,
        evidence=msgspec.structs.replace(halves.evidence, result=_Room(reach).cut(halves.evidence.result)),
    )
    findings = lint_recorded(beginning, has_artifact=lambda path: path not in missing, is_whole=not is_long)
    return list(findings), is_long


def _recorded_line(finding: Finding, links: FieldLinks) -> FindingLine:
    is_recorded = finding.document == "complete"
    canonical = links.canonical(finding.pointer) if is_recorded and finding.pointer else finding.pointer
    return build_finding_line(
        finding,
        canonical="" if finding.document == "args" else canonical or "",
        recorded=finding.pointer if is_recorded else "",
        args=finding.pointer if finding.document == "args" else "",
    )


def build_finding_line(finding: Finding, *, canonical: str = "", recorded: str = "", args: str = "") -> FindingLine:
    """`canonical`, `recorded` and `args` are the pointers into each document that the finding names a field of."""
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


def _first_parts(receipt: Receipt, room: int) -> Iterator[Part]:
    """The parts with only the first `room` characters of text; images and files keep their positions."""
    for part in receipt.parts:
        if not isinstance(part, TextPart):
            yield part
            continue
        yield text_part(part.text[:room], tuple(part.within(0, room)))
        room = max(0, room - len(part.text))


class _Room:
    """Copies a JSON value while characters are left; what follows becomes empty, so that pointers stay valid."""

    def __init__(self, characters: int) -> None:
        self.remaining = characters

    def cut(self, value: JsonValue) -> JsonValue:
        match value:
            case str():
                text = value[: max(0, self.remaining)]
                self.remaining -= len(value)
                return text
            case dict():
                return {key: self.cut(child) for key, child in takewhile(self._has_room, value.items())}
            case list():
                return [self.cut(child) for child in takewhile(self._has_room, value)]
        return value

    def _has_room(self, _member: object) -> bool:
        self.remaining -= MEMBER_COST
        return self.remaining > 0
