"""Rules for a receipt beside the result that it reports.

The two halves of a call are not equal and need not be: a receipt may be shorter, be prose, leave fields out. So
nothing here compares them. Each rule looks for one thing that misleads a model or keeps it from the whole result,
and reports nothing where it cannot be sure.

    escaped_json          a text is in the receipt as a JSON string, with \\n and \\"
    exit_status_missing   a command failed and its exit status is not in the receipt
    cut_without_marker    a part is missing and the receipt does not mention it
    marker_without_size   a marker tells that a part is missing, but not how much
    artifact_missing      an artifact that is referred to is not stored
    secret_present        a credential
    success_said          the receipt reports success of a call that failed
    empty_receipt         the receipt is empty and the result is not
    repeated_text         a long text is in the receipt twice
    preview_differs       a preview is no part of the output that it claims to show

and for receipts of this library's renderers only, because others were never meant to follow these:

    headline_late         the outcome is not in the first line
    artifact_unnamed      an artifact that the receipt does not name
    error_incomplete      the kind of an error or its recovery hint is not in the receipt
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.lint.model import Finding, LintInput, Rule, Shortened, Sighting, is_own
from envelopes.schema.receipt import Document, Segment, TextPart
from envelopes.text.credentials import find_secrets
from envelopes.text.outline import scalar_text
from envelopes.text.pointer import is_within, text_at
from envelopes.text.preview import split_lines

DISTINCTIVE = 12  # characters of a line or a text that is not somewhere by chance
REPEATED = 200
AROUND = 24  # characters on each side of an escape that are compared
BEFORE = 6  # characters by which an escape in a receipt is first recognized
ESCAPE = re.compile(r'\\[n"]')
BREAK_OR_QUOTE = re.compile(r'[\n"]')
MENTIONS_CUT = re.compile(
    r"truncat|omitted|shortened|\bcut\b|dropped|too (?:large|long|big)|showing|\bmore\b|limit|exceed|"
    r"\bfirst \d|\blast \d|saved to|persisted|partial|\.\.\.|…",
    re.IGNORECASE,
)
CUT_WORDS = ("truncated", "omitted", "shortened", "cut off", "dropped")
MARKER = re.compile(
    rf"^[ \t]*(?:\.{{3}}|…|[\[(])[^\n]{{0,160}}?\b(?:{'|'.join(CUT_WORDS)})\b[^\n]{{0,160}}$",
    re.MULTILINE | re.IGNORECASE,
)
MARKED_UP = re.compile(r'["\\\n&<>]')  # what a variant writes as an escape
SUCCESS = re.compile(
    r"\b(?:success(?:ful(?:ly)?)?|succeeded|completed|has been (?:created|updated)|ok)\b", re.IGNORECASE
)
FAILURE = re.compile(
    r"error|fail|den(?:y|ied)|reject|refus|declin|invalid|cannot|can't|could not|couldn't|unable|cancel|interrupt|"
    r"time[d]?[ -]?out|block|not |n't |\bno\b|missing|unknown|exception|abort|wrong|exit code|must|require",
    re.IGNORECASE,
)


def lint(call: LintInput, own: tuple[Rule, ...] = ()) -> tuple[Finding, ...]:
    """Findings of a family's own rules, then of the shared ones; an own rule replaces the shared one of its name.

    For a receipt of which only the beginning is here, only findings with a span.
    """
    names = {rule.name for rule in own}
    rules = (*own, *(rule for rule in SHARED if rule.name not in names))
    return tuple(
        Finding(
            rule=rule.name,
            severity=rule.severity,
            sentence=sighting.sentence,
            pointer=sighting.pointer,
            document=sighting.document,
            span=sighting.span,
        )
        for rule in rules
        if call.is_whole or not rule.needs_all
        for sighting in rule.find(call)
        if call.is_whole or sighting.span is not None
    )


def must_mention(name: str, what: str, *pointers: str) -> Rule:
    """A rule of a family: the scalar at each of `pointers` is in the receipt.

    `*` in a pointer is any one step; the items of a list that a marker shortens may be left out.
    """
    matchers: list[Callable[[str], object]] = [
        re.compile(re.escape(pointer).replace(r"\*", "[^/]*")).fullmatch if "*" in pointer else pointer.__eq__
        for pointer in pointers
    ]

    def find(call: LintInput) -> Iterator[Sighting]:
        for pointer, matches in zip(pointers, matchers, strict=True):
            if "*" in pointer and call.has_marker:
                continue
            missing = [
                (at, scalar_text(value))
                for at, value in call.scalars
                if matches(at) and value not in (None, "") and not _mentions(call, scalar_text(value))
            ]
            if missing:
                at, text = missing[0]
                more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
                yield Sighting(sentence=f"The receipt does not mention {what}: {text}{more}.", pointer=at)

    return Rule(name=name, severity="warning", find=find, needs_all=True)


def _escaped_json(call: LintInput) -> Iterator[Sighting]:
    escapes = _escapes(call.receipt.text)
    for document, pointer, value in _distinctive_strings(call) if escapes else ():
        span = next((span for probe in _escaped(value, escapes) if (span := _span(call, probe))), None)
        if span is not None:
            yield Sighting(
                sentence="A text with line breaks or quotes is escaped here, as a string of JSON.",
                pointer=pointer,
                document=document,
                span=span,
            )


def _escapes(text: str) -> frozenset[str]:
    """Each escaped line break or quote with what precedes it: looking one up is faster than a search in the text."""
    if "\\" not in text:
        return frozenset()
    return frozenset(text[escape.start() - BEFORE : escape.end()] for escape in ESCAPE.finditer(text, BEFORE))


def _escaped(value: str, escapes: frozenset[str]) -> Iterator[str]:
    """The first line break or quote with its surroundings, as JSON writes it, when that is unmistakable."""
    end = 0
    for match in BREAK_OR_QUOTE.finditer(value):
        before, after = value[max(end, match.start() - AROUND) : match.start()], value[match.end() :][:AROUND]
        after, end = after.partition("\n")[0], match.end()
        if len(before) < DISTINCTIVE or len(after) < BEFORE:
            continue
        for is_ascii in (False, True):
            beginning = json.dumps(before + match[0], ensure_ascii=is_ascii)[1:-1]
            if beginning[-BEFORE - 2 :] in escapes:
                yield beginning + json.dumps(after, ensure_ascii=is_ascii)[1:-1]
        return


def _exit_status_missing(call: LintInput) -> Iterator[Sighting]:
    for pointer, value in call.scalars:
        is_code = pointer.endswith("/exit_status") and isinstance(value, int) and not isinstance(value, bool)
        if is_code and value and not _mentions(call, str(value)):
            yield Sighting(
                sentence=f"The command ended with {value}; the receipt does not mention it.", pointer=pointer
            )


def _cut_without_marker(call: LintInput) -> Iterator[Sighting]:
    for field in call.cuts:
        # How many items there are shows none of them, so only a slice counts.
        is_shown = any(
            segment.source is not None and segment.source.start is not None and _is_from(segment, field)
            for _, segment in call.segment_starts
        )
        if is_shown and field.cut.shown_count and not field.cut.is_whole and not _is_marked(call, field):
            yield Sighting(
                sentence=f"{field.cut.dropped_count:,} of {field.cut.total:,} {field.cut.unit} are missing, "
                "and the receipt does not mention it.",
                pointer=field.pointer,
                document=field.document,
            )


def _is_from(segment: Segment, field: Shortened) -> bool:
    source = segment.source
    return source is not None and source.document == field.document and is_within(source.pointer, field.pointer)


def _is_marked(call: LintInput, field: Shortened) -> bool:
    text = call.receipt.text
    if field.cut.marker() in text or any(MENTIONS_CUT.search(segment.text) for segment in call.own_segments):
        return True
    for _, segment in call.segment_starts:
        # How many items were left out, or a line that `Projector.line` shortened.
        counts = segment.source is not None and segment.source.pointer == f"{field.pointer}_omitted"
        if counts or _is_from(segment, field) and segment.text.rstrip('"').endswith(("…", "\\u2026")):
            return True
    if not call.is_recorded:
        return False
    # A line of the gap that is in the receipt was not cut, only not aligned.
    lines = split_lines(text_at(call.complete, field.pointer) or "")
    missing = [line.strip() for start, end in field.cut.gaps for line in lines[start:end]]
    return not any(len(line) >= DISTINCTIVE and line not in text for line in missing)


def _marker_without_size(call: LintInput) -> Iterator[Sighting]:
    # Few texts have such a word, and looking for words is cheaper than for the pattern.
    words = "\n".join([segment.text for segment in call.own_segments])
    lowered = words.lower()
    if not any(word in lowered for word in CUT_WORDS) or not MARKER.search(words):
        return
    for at, segment in call.segment_starts:
        for marker in MARKER.finditer(segment.text) if is_own(segment) else ():
            if not re.search(r"\d", marker[0]):
                yield Sighting(
                    sentence="This marks a cut without its size.", span=(at + marker.start(), at + marker.end())
                )


def _artifact_missing(call: LintInput) -> Iterator[Sighting]:
    if call.has_artifact is None:
        return
    for index, artifact in enumerate(call.canonical.artifacts):
        if not call.has_artifact(artifact.path):
            yield Sighting(
                sentence=f"The result refers to {artifact.path}, which is not stored.",
                pointer=f"/artifacts/{index}/path",
                span=_span(call, artifact.path),
            )


def _secret_present(call: LintInput) -> Iterator[Sighting]:
    for secret in find_secrets(call.receipt.text):
        yield Sighting(sentence=f"The receipt contains {secret.kind}.", span=(secret.start, secret.end))


def _success_said(call: LintInput) -> Iterator[Sighting]:
    if call.canonical.error is None:
        return
    text = call.receipt.text
    line = text.strip().partition("\n")[0]
    if SUCCESS.search(line) and not FAILURE.search(text):
        sentence = f"The call failed ({call.canonical.error.kind}), and the receipt reports a success."
        yield Sighting(sentence=sentence, pointer="/error/kind", span=_span(call, line))


def _empty_receipt(call: LintInput) -> Iterator[Sighting]:
    text = call.receipt.text
    has_text = bool(text) and not text.isspace()  # isspace ends at the first character of most texts
    if has_text or any(not isinstance(part, TextPart) for part in call.receipt.parts):
        return
    lost = next((field for field in call.cuts if text_at(call.complete, field.pointer) or not call.is_recorded), None)
    if call.canonical.error is not None:
        yield Sighting(sentence="The call failed, and the receipt is empty.", pointer="/error/message")
    elif lost is not None:
        yield Sighting(
            sentence=f"The result has {lost.cut.total:,} {lost.cut.unit}, and the receipt is empty.",
            pointer=lost.pointer,
            document=lost.document,
        )
    elif not call.is_recorded:
        yield Sighting(sentence="The receipt is empty.", pointer="/summary_text")


def _repeated_text(call: LintInput) -> Iterator[Sighting]:
    """Two fields with the same text may both be shown: items of a batch often have the same."""
    text = call.receipt.text
    strings = list(_distinctive_strings(call))
    for document, pointer, value in strings:
        if REPEATED <= len(value) <= len(text) // 2 and text.count(value) > sum(
            value in other for _, _, other in strings
        ):
            second = text.index(value, text.index(value) + len(value))
            yield Sighting(
                sentence=f"This text of {len(value):,} characters is in the receipt twice.",
                pointer=pointer,
                document=document,
                span=(second, second + len(value)),
            )


def _preview_differs(call: LintInput) -> Iterator[Sighting]:
    """Compares a recorded preview with the recorded outputs, and one of a renderer with the field that it names."""
    if call.is_recorded:
        yield from _recorded_preview_differs(call)
        return
    strings = dict(call.strings)
    for at, segment in call.segment_starts:
        source = segment.source
        if segment.role != "preview" or source is None or source.document != "canonical" or source.start is None:
            continue
        text = strings.get(source.pointer)
        if text is not None and segment.text not in text and not _is_escaped(segment.text, text):
            sentence = "This preview is no part of the field that it names."
            yield Sighting(sentence=sentence, pointer=source.pointer, span=(at, at + len(segment.text)))


def _is_escaped(shown: str, text: str) -> bool:
    """Checks whether a variant may have written a text with escapes, which is compared by its words alone."""
    return all(piece.strip() in text for piece in re.split(r'\\.|&\w+;|["<>&\n]', shown))


def _recorded_preview_differs(call: LintInput) -> Iterator[Sighting]:
    preview = find_output_preview(call.receipt.text)
    outputs = [(field, text_at(call.complete, field.pointer) or "") for field in call.cuts]
    if preview is None or not outputs or any(len(split_lines(text)) < field.cut.total for field, text in outputs):
        return
    span = preview.start, preview.end
    is_linked = any(segment.source is not None and span[0] <= at < span[1] for at, segment in call.segment_starts)
    shown = call.receipt.text[slice(*span)].strip()
    if shown and not is_linked and not any(shown in value for _, value in call.strings):
        sentence = "This preview is no part of the recorded output that it claims to show."
        yield Sighting(sentence=sentence, pointer=outputs[0][0].pointer, document="complete", span=span)


def _headline_late(call: LintInput) -> Iterator[Sighting]:
    """Lines of tags or a name may precede the headline; lines of the result may not."""
    is_behind_results = False
    for at, segment in call.segment_starts:
        if segment.role == "headline":
            if is_behind_results and "\n" in call.receipt.text[:at]:
                span = (at, at + len(segment.text))
                yield Sighting(sentence="The outcome comes after parts of the result.", span=span)
            return
        is_behind_results |= segment.source is not None and is_within(segment.source.pointer, "/result")


def _artifact_unnamed(call: LintInput) -> Iterator[Sighting]:
    for index, artifact in enumerate(call.canonical.artifacts):
        if artifact.path not in call.receipt.text:
            yield Sighting(
                sentence=f"The model cannot open {artifact.path}: the receipt does not name it.",
                pointer=f"/artifacts/{index}/path",
            )


def _error_incomplete(call: LintInput) -> Iterator[Sighting]:
    error = call.canonical.error
    if error is None:
        return
    for name, value in (("kind", error.kind), ("recovery_hint", error.recovery_hint)):
        if value and MARKED_UP.split(value[:80])[0] not in call.receipt.text:
            yield Sighting(sentence=f"The error's {name} is not in the receipt.", pointer=f"/error/{name}")


def _unless_recorded(find: Callable[[LintInput], Iterable[Sighting]]) -> Callable[[LintInput], Iterable[Sighting]]:
    return lambda call: () if call.is_recorded else find(call)


def _distinctive_strings(call: LintInput) -> Iterator[tuple[Document, str, str]]:
    document: Document = "complete" if call.is_recorded else "canonical"
    for pointer, value in call.strings:
        if len(value) > DISTINCTIVE * 2:
            yield document, pointer, value


def _mentions(call: LintInput, text: str) -> bool:
    """True for a text that is in the receipt as a word of its own.

    A regular expression would have to be compiled for each value, and is slower to search for.
    """
    receipt = call.receipt.text
    at = receipt.find(text)
    while at >= 0:
        if not _is_word(receipt[at - 1 : at]) and not _is_word(receipt[at + len(text) : at + len(text) + 1]):
            return True
        at = receipt.find(text, at + 1)
    return False


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _span(call: LintInput, text: str) -> tuple[int, int] | None:
    at = call.receipt.text.find(text)
    return (at, at + len(text)) if text and at >= 0 else None


SHARED: tuple[Rule, ...] = (
    Rule(name="success_said", severity="error", find=_success_said),
    Rule(name="exit_status_missing", severity="error", find=_exit_status_missing, needs_all=True),
    Rule(name="cut_without_marker", severity="error", find=_cut_without_marker, needs_all=True),
    Rule(name="empty_receipt", severity="error", find=_empty_receipt, needs_all=True),
    Rule(name="secret_present", severity="error", find=_secret_present),
    Rule(name="artifact_missing", severity="error", find=_artifact_missing),
    Rule(name="marker_without_size", severity="warning", find=_marker_without_size),
    Rule(name="escaped_json", severity="warning", find=_escaped_json),
    Rule(name="repeated_text", severity="warning", find=_repeated_text),
    Rule(name="preview_differs", severity="error", find=_preview_differs),
    Rule(name="headline_late", severity="warning", find=_unless_recorded(_headline_late)),
    Rule(name="artifact_unnamed", severity="warning", find=_unless_recorded(_artifact_unnamed), needs_all=True),
    Rule(name="error_incomplete", severity="warning", find=_unless_recorded(_error_incomplete), needs_all=True),
)
