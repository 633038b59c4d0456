"""Rules that a receipt keeps towards the result that it speaks for.

The two halves of a call are not equal and need not be: a receipt may be shorter, be prose, leave
fields out. So nothing here compares them. Each rule names one thing that misleads a model or takes
its way back, looks for that alone, and stays silent where it cannot be sure.

    escaped_json          a text stands in the receipt as a JSON string, with \\n and \\"
    exit_status_missing   a command failed and its exit status is nowhere
    cut_without_marker    a part is missing and nothing says so
    marker_without_size   something says that a part is missing, and not how much
    artifact_missing      an artifact is referred to that is not there
    secret_present        a credential
    success_said          the receipt reports success of a call that failed
    empty_receipt         nothing was said about something
    repeated_text         a long text stands there twice

and about receipts of our own renderers only, for the others were never meant to follow them

    headline_late         the outcome is not in the first line
    artifact_unnamed      an artifact that the receipt does not name
    error_incomplete      the kind of an error or its recovery hint is not there
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

from envelopes.lint.model import Finding, LintInput, Rule, Shortened, Sighting, is_own
from envelopes.schema.receipt import Document, Segment, TextPart
from envelopes.text.credentials import find_secrets
from envelopes.text.outline import scalar_text
from envelopes.text.pointer import is_within, text_at
from envelopes.text.preview import split_lines

TELLING = 12  # characters of a line or a text that stand nowhere by chance
REPEATED = 200
BEFORE = 6  # characters by which an escape in a receipt is first recognized
ESCAPE = re.compile(r'\\[n"]')
BREAK_OR_QUOTE = re.compile(r'[\n"]')
SAYS_CUT = re.compile(
    r"truncat|omitted|shortened|\bcut\b|dropped|too (?:large|long|big)|showing|\bmore\b|limit|exceed|"
    r"\bfirst \d|\blast \d|saved to|persisted|partial|\.\.\.|…",
    re.IGNORECASE,
)
LOST = ("truncated", "omitted", "shortened", "cut off", "dropped")
MARKER = re.compile(
    rf"^[ \t]*(?:\.{{3}}|…|[\[(])[^\n]{{0,160}}?\b(?:{'|'.join(LOST)})\b[^\n]{{0,160}}$",
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


def lint(pair: LintInput, own: tuple[Rule, ...] = ()) -> tuple[Finding, ...]:
    """Findings by a family's own rules, then by the shared ones; an own rule replaces the shared one of its name.

    Of a receipt of which only the beginning is here, those that stand at a place in it.
    """
    named = {rule.name for rule in own}
    rules = (*own, *(rule for rule in SHARED if rule.name not in named))
    return tuple(
        Finding(
            rule=rule.name,
            severity=rule.severity,
            sentence=found.sentence,
            pointer=found.pointer,
            document=found.document,
            span=found.span,
        )
        for rule in rules
        if pair.is_whole or not rule.needs_all
        for found in rule.finds(pair)
        if pair.is_whole or found.span is not None
    )


def must_mention(name: str, what: str, *pointers: str) -> Rule:
    """A family's own rule: the scalar at each of `pointers` stands in the receipt.

    `*` in a pointer is any one step; the items of a list that a marker shortens may be left out.
    """

    matching = [_matches(one) for one in pointers]

    def finds(pair: LintInput) -> Iterator[Sighting]:
        for pointer, is_one in zip(pointers, matching, strict=True):
            unsaid = list(_unsaid(pair, is_one)) if not ("*" in pointer and pair.has_marker) else []
            if unsaid:
                pointer, text = unsaid[0]
                more = f" and {len(unsaid) - 1} more" if len(unsaid) > 1 else ""
                yield Sighting(sentence=f"The receipt does not say {what}: {text}{more}.", pointer=pointer)

    return Rule(name=name, severity="warning", finds=finds, needs_all=True)


def _matches(pointer: str) -> Callable[[str], object]:
    if "*" not in pointer:
        return pointer.__eq__
    return re.compile(re.escape(pointer).replace(r"\*", "[^/]*")).fullmatch


def _unsaid(pair: LintInput, is_one: Callable[[str], object]) -> Iterator[tuple[str, str]]:
    for pointer, value in pair.scalars:
        if is_one(pointer) and value not in (None, "") and not _says(pair, scalar_text(value)):
            yield pointer, scalar_text(value)


def _escaped_json(pair: LintInput) -> Iterator[Sighting]:
    escapes = _escapes(pair.receipt.text)
    for document, pointer, value in _strings(pair) if escapes else ():
        span = next((found for probe in _escaped(value, escapes) if (found := _span_of(pair, probe))), None)
        if span is not None:
            yield Sighting(
                sentence="A text with line breaks or quotes stands here escaped, as a string of JSON.",
                pointer=pointer,
                document=document,
                span=span,
            )


def _escapes(text: str) -> frozenset[str]:
    """Each escaped line break or quote with what stands before it: to look one up is nothing, to search is much."""
    if "\\" not in text:
        return frozenset()
    return frozenset(text[found.start() - BEFORE : found.end()] for found in ESCAPE.finditer(text, BEFORE))


def _escaped(value: str, escapes: frozenset[str]) -> Iterator[str]:
    """The first line break or quote with its surroundings, as JSON writes it, when that is unmistakable."""
    end = 0
    for found in BREAK_OR_QUOTE.finditer(value):
        before, after = value[max(end, found.start() - 24) : found.start()], value[found.end() : found.end() + 24]
        after, end = after.partition("\n")[0], found.end()
        if len(before) < TELLING or len(after) < BEFORE:
            continue
        for is_ascii in (False, True):
            told = json.dumps(before + found[0], ensure_ascii=is_ascii)[1:-1]
            if told[-BEFORE - 2 :] in escapes:
                yield told + json.dumps(after, ensure_ascii=is_ascii)[1:-1]
        return


def _exit_status_missing(pair: LintInput) -> Iterator[Sighting]:
    for pointer, value in pair.scalars:
        is_code = pointer.endswith("/exit_status") and isinstance(value, int) and not isinstance(value, bool)
        if is_code and value and not _says(pair, str(value)):
            yield Sighting(sentence=f"The command ended with {value}; the receipt does not say so.", pointer=pointer)


def _cut_without_marker(pair: LintInput) -> Iterator[Sighting]:
    for one in pair.cuts:
        is_shown = any(_is_slice(segment, one) for _, segment in pair.placed)
        if is_shown and one.cut.shown_count and not one.cut.is_whole and _is_silent(pair, one):
            yield Sighting(
                sentence=f"{one.cut.dropped_count:,} of {one.cut.total:,} {one.cut.unit} are missing, "
                "and nothing in the receipt says so.",
                pointer=one.pointer,
                document=one.document,
            )


def _is_from(segment: Segment, one: Shortened) -> bool:
    source = segment.source
    return source is not None and source.document == one.document and is_within(source.pointer, one.pointer)


def _is_slice(segment: Segment, one: Shortened) -> bool:
    """Characters of that text, or of an item of that list: how many items there are shows none of them."""
    return _is_from(segment, one) and segment.source is not None and segment.source.start is not None


def _is_silent(pair: LintInput, one: Shortened) -> bool:
    text = pair.receipt.text
    if one.cut.marker() in text or any(SAYS_CUT.search(segment.text) for segment in pair.own_words):
        return False
    if any(_is_sign(segment, one) for _, segment in pair.placed):
        return False
    return not pair.is_recorded or _is_lost(pair, one)


def _is_sign(segment: Segment, one: Shortened) -> bool:
    """How many items were left out, or a line that `Projector.line` shortened."""
    counts = segment.source is not None and segment.source.pointer == f"{one.pointer}_omitted"
    return counts or _is_from(segment, one) and segment.text.rstrip('"').endswith(("…", "\\u2026"))


def _is_lost(pair: LintInput, one: Shortened) -> bool:
    """Whether a telling line of the gap stands nowhere: where it does, it was not cut, only not traced."""
    lines = split_lines(text_at(pair.complete, one.pointer) or "")
    gone = [line.strip() for start, end in one.cut.gaps for line in lines[start:end]]
    return any(len(line) >= TELLING and line not in pair.receipt.text for line in gone)


def _marker_without_size(pair: LintInput) -> Iterator[Sighting]:
    # Few texts say it at all, and to look for words is cheaper than for the form.
    words = "\n".join([segment.text for segment in pair.own_words])
    lowered = words.lower()
    if not any(word in lowered for word in LOST) or not MARKER.search(words):
        return
    for at, segment in pair.placed:
        for found in MARKER.finditer(segment.text) if is_own(segment) else ():
            if not re.search(r"\d", found[0]):
                yield Sighting(
                    sentence="This says that something is missing, and not how much.",
                    span=(at + found.start(), at + found.end()),
                )


def _artifact_missing(pair: LintInput) -> Iterator[Sighting]:
    if pair.has_artifact is None:
        return
    for index, artifact in enumerate(pair.canonical.artifacts):
        if not pair.has_artifact(artifact.path):
            yield Sighting(
                sentence=f"The result refers to {artifact.path}, which is not there.",
                pointer=f"/artifacts/{index}/path",
                span=_span_of(pair, artifact.path),
            )


def _secret_present(pair: LintInput) -> Iterator[Sighting]:
    for secret in find_secrets(pair.receipt.text):
        yield Sighting(sentence=f"The receipt holds {secret.kind}.", span=(secret.start, secret.end))


def _success_said(pair: LintInput) -> Iterator[Sighting]:
    if pair.canonical.error is None:
        return
    text = pair.receipt.text
    line = text.strip().partition("\n")[0]
    if SUCCESS.search(line) and not FAILURE.search(text):
        sentence = f"The call failed ({pair.canonical.error.kind}), and the receipt reports a success."
        yield Sighting(sentence=sentence, pointer="/error/kind", span=_span_of(pair, line))


def _empty_receipt(pair: LintInput) -> Iterator[Sighting]:
    text = pair.receipt.text
    has_text = bool(text) and not text.isspace()  # which ends at the first character of most texts
    if has_text or any(not isinstance(part, TextPart) for part in pair.receipt.parts):
        return
    lost = next((one for one in pair.cuts if text_at(pair.complete, one.pointer) or not pair.is_recorded), None)
    if pair.canonical.error is not None:
        yield Sighting(sentence="The call failed, and the receipt is empty.", pointer="/error/message")
    elif lost is not None:
        yield Sighting(
            sentence=f"The result has {lost.cut.total:,} {lost.cut.unit}, and the receipt is empty.",
            pointer=lost.pointer,
            document=lost.document,
        )
    elif not pair.is_recorded:
        yield Sighting(sentence="The receipt is empty.", pointer="/summary_text")


def _repeated_text(pair: LintInput) -> Iterator[Sighting]:
    """Two fields of one text may both be shown: items of a batch often say the same."""
    text = pair.receipt.text
    fields = list(_strings(pair))
    for document, pointer, value in [one for one in fields if REPEATED <= len(one[2]) <= len(text) // 2]:
        if text.count(value) > sum(value in other for _, _, other in fields):
            second = text.index(value, text.index(value) + len(value))
            yield Sighting(
                sentence=f"This text of {len(value):,} characters stands in the receipt twice.",
                pointer=pointer,
                document=document,
                span=(second, second + len(value)),
            )


def _headline_late(pair: LintInput) -> Iterator[Sighting]:
    """Lines of tags or a name before it are no harm; lines of the result are."""
    is_behind_results, at = False, 0
    for one in pair.receipt.segments:
        if one.role == "headline":
            if is_behind_results and "\n" in pair.receipt.text[:at]:
                yield Sighting(sentence="The outcome comes after parts of the result.", span=(at, at + len(one.text)))
            return
        is_behind_results = is_behind_results or bool(one.source and is_within(one.source.pointer, "/result"))
        at += len(one.text)


def _artifact_unnamed(pair: LintInput) -> Iterator[Sighting]:
    for index, artifact in enumerate(pair.canonical.artifacts):
        if artifact.path not in pair.receipt.text:
            yield Sighting(
                sentence=f"The model cannot open {artifact.path}: the receipt does not name it.",
                pointer=f"/artifacts/{index}/path",
            )


def _error_incomplete(pair: LintInput) -> Iterator[Sighting]:
    error = pair.canonical.error
    if error is None:
        return
    for name, value in (("kind", error.kind), ("recovery_hint", error.recovery_hint)):
        if value and MARKED_UP.split(value[:80])[0] not in pair.receipt.text:
            yield Sighting(sentence=f"The error's {name} is not in the receipt.", pointer=f"/error/{name}")


def _of_ours(finds: Callable[[LintInput], Iterable[Sighting]]) -> Callable[[LintInput], Iterable[Sighting]]:
    return lambda pair: () if pair.is_recorded else finds(pair)


def _strings(pair: LintInput) -> Iterator[tuple[Document, str, str]]:
    document: Document = "complete" if pair.is_recorded else "canonical"
    for pointer, one in pair.strings:
        if len(one) > TELLING * 2:
            yield document, pointer, one


def _says(pair: LintInput, text: str) -> bool:
    """As a word of its own. An expression of it would be compiled for each value, and is slower to look for."""
    receipt = pair.receipt.text
    at = receipt.find(text)
    while at >= 0:
        if not _is_word(receipt[at - 1 : at]) and not _is_word(receipt[at + len(text) : at + len(text) + 1]):
            return True
        at = receipt.find(text, at + 1)
    return False


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _span_of(pair: LintInput, text: str) -> tuple[int, int] | None:
    at = pair.receipt.text.find(text)
    return (at, at + len(text)) if text and at >= 0 else None


SHARED: tuple[Rule, ...] = (
    Rule(name="success_said", severity="error", finds=_success_said),
    Rule(name="exit_status_missing", severity="error", finds=_exit_status_missing, needs_all=True),
    Rule(name="cut_without_marker", severity="error", finds=_cut_without_marker, needs_all=True),
    Rule(name="empty_receipt", severity="error", finds=_empty_receipt, needs_all=True),
    Rule(name="secret_present", severity="error", finds=_secret_present),
    Rule(name="artifact_missing", severity="error", finds=_artifact_missing),
    Rule(name="marker_without_size", severity="warning", finds=_marker_without_size),
    Rule(name="escaped_json", severity="warning", finds=_escaped_json),
    Rule(name="repeated_text", severity="warning", finds=_repeated_text),
    Rule(name="headline_late", severity="warning", finds=_of_ours(_headline_late)),
    Rule(name="artifact_unnamed", severity="warning", finds=_of_ours(_artifact_unnamed), needs_all=True),
    Rule(name="error_incomplete", severity="warning", finds=_of_ours(_error_incomplete), needs_all=True),
)
