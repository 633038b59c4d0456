"""Builds the segments of receipts from the fields of a canonical result, and keeps them within their policy.

Each function gives one segment or the segments of a few lines; every character of a value keeps the pointer and the
range of the field that it comes from. `receipt_renderer` makes a renderer of a function that writes the body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial

import msgspec

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.fitting import INDENT, bound_lines, fit, indent_lines, place_folded, slice_segment
from envelopes.schema.budget import HINT_CHARACTERS, MESSAGE_CHARACTERS, RenderPolicy
from envelopes.schema.conversion import MISSING, UNKNOWN, word_members
from envelopes.schema.receipt import Renderer, Role, Segment, SegmentSource
from envelopes.schema.result import CanonicalResult, JsonValue, ToolError
from envelopes.schema.settlement import envelope_situation
from envelopes.schema.tool import ToolDefinition
from envelopes.text.outline import scalar_text
from envelopes.text.pointer import join, resolve
from envelopes.text.preview import find_cut
from envelopes.text.terminal import fold_terminal

MISFIT = "input for {} does not match the tool schema"
# A path outside of the workspace is refused before anything is done, by the sandbox or by the tool itself.
_NOT_EXPOSED = {"unsupported_agent_profile_capability", "tool_not_exposed_for_round"}
NEVER_RAN = frozenset(_NOT_EXPOSED | {"execution_root_violation", "path_escape"})
END_OF_MARKER = "...\n"
# Until when the same call fails, where that is not for ever: else it would contradict the hint.
UNTIL = {
    "deadline_expired": " now",
    "non_retryable_tool_failure": " in this turn",
    "write_denied": " without an approval",
}
INLINE_CHARACTERS = 200  # a longer string gets a block of its own, which can be shortened
_PHRASE = re.compile(r"(\{[\w/]+\}|\n+)")


def receipt_renderer(
    body: Callable[[CanonicalResult], Iterable[Segment]],
    *,
    tail: Callable[[CanonicalResult], Iterable[Segment]] | None = None,
    details: tuple[tuple[str, str], ...] = (),
    tools: tuple[ToolDefinition, ...] = (),
) -> Renderer:
    """A renderer that writes `body` for a success and the error receipt for an error, both within the policy.

    `tail` and the artifacts stay whole however short the body has to be. `details` are the members of
    the error's details that this family names, each with its title. `tools` have the examples of arguments.
    """

    def render(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
        if canonical.error is not None:
            return fit(error_receipt(canonical, details, tools=tools), policy, tail=artifact_lines(canonical, policy))
        last = () if tail is None else tail(canonical)
        whole = fit(body(canonical), policy, tail=(*last, *artifact_lines(canonical, policy)))
        return with_ways_to_read(whole, canonical, policy)

    return render


def headline(text: str, pointer: str = "/summary_text") -> Segment:
    """The first line of a receipt: the outcome (RFC-128)."""
    return Segment(text, "headline", SegmentSource("canonical", pointer))


def label(text: str) -> Segment:
    """Words of the renderer's own."""
    return Segment(text, "label")


def marker(text: str) -> Segment:
    """A statement of what was left out."""
    return Segment(text, "marker")


def line_break(count: int = 1) -> Segment:
    return Segment("\n" * count, "break")


def value(canonical: CanonicalResult, pointer: str, text: str | None = None) -> Segment:
    """The field at `pointer`; with `text` for a renderer that words it in its own way."""
    if text is None:
        field = _field(canonical, pointer)
        if isinstance(field, str):
            return text_value(field, pointer)
        text = "" if field is None else msgspec.json.encode(field).decode()
    return Segment(text, "value", SegmentSource("canonical", pointer))


def text_value(text: str, pointer: str, start: int = 0, *, role: Role = "value") -> Segment:
    """`text` as characters of the canonical string at `pointer`, from `start`; for a caller that has the string."""
    return Segment(text, role, SegmentSource("canonical", pointer, start, start + len(text)))


def preview(canonical: CanonicalResult, pointer: str) -> Segment:
    """A large text field, verbatim."""
    return text_value(_string(canonical, pointer), pointer, role="preview")


def phrase(canonical: CanonicalResult, words: str, pointer: str = "/result") -> Iterable[Segment]:
    r"""Labels, with the field `<pointer>/name` in place of `{name}`: `phrase(canonical, "\n[{index}] {cmd}", …)`."""
    for part in _split_phrase(words):
        if part.startswith("{"):
            yield from indent_lines(value(canonical, f"{pointer}/{part[1:-1]}"))
        elif part.startswith("\n"):
            yield line_break(len(part))
        elif part:
            yield label(part)


def item_phrase(item: RecordedObject, pointer: str, words: str) -> Iterable[Segment]:
    """A `phrase` of the fields of `item`, which the caller has read from `pointer`. Missing fields are empty."""
    for part in _split_phrase(words):
        if part.startswith("\n"):
            yield line_break(len(part))
        elif not part.startswith("{"):
            yield from [label(part)] if part else []
        elif (number := item.number(part[1:-1])) is not None:
            yield Segment(str(number), "value", SegmentSource("canonical", f"{pointer}/{part[1:-1]}"))
        else:
            yield from indented(item.text(part[1:-1]) or "", f"{pointer}/{part[1:-1]}")


@lru_cache(256)
def _split_phrase(words: str) -> list[str]:
    return _PHRASE.split(words)


def marked_values(record: RecordedObject, pointer: str, marks: Iterable[tuple[str, str]]) -> Iterable[Segment]:
    """The texts that `record`, the object at `pointer`, has under these names; before each the mark beside its name."""
    for mark, name in marks:
        if text := record.text(name):
            if mark:
                yield label(mark)
            yield from indented(text, f"{pointer}/{name}")


def member_line(canonical: CanonicalResult, title: str, pointer: str) -> Iterable[Segment]:
    """`title: value` on a line of its own; nothing when the field is missing or empty."""
    field = _field(canonical, pointer)
    if field is None or field == "":
        return
    yield line_break()
    yield label(f"{title}: ")
    yield from indent_lines(field_segment(field, pointer))


def member_lines(
    canonical: CanonicalResult, titles: Iterable[tuple[str, str]], pointer: str = "/result"
) -> Iterable[Segment]:
    """A `member_line` for each title and the name of its field below `pointer`."""
    for title, name in titles:
        yield from member_line(canonical, title, f"{pointer}/{name}")


def text_block(canonical: CanonicalResult, pointer: str, title: str = "") -> Iterable[Segment]:
    """A blank line, the title, and a large text; nothing when it is blank or is the headline already (RFC-107)."""
    if _string(canonical, pointer).strip() in ("", canonical.summary_text):
        return
    yield line_break(2)
    if title:
        yield label(f"{title}:\n")
    yield preview(canonical, pointer)


def output_segment(text: str, pointer: str, start: int = 0) -> tuple[Segment, str]:
    """A program's output as a terminal shows it, and a note of what was left out.

    Text that was changed points at its field without a range, until `with_ways_to_read` has found it.
    """
    folded = fold_terminal(text)
    if folded.text == text:
        return text_value(text, pointer, start, role="preview"), ""
    return Segment(folded.text, "preview", SegmentSource("canonical", pointer)), folded.note


def output_block(canonical: CanonicalResult, pointer: str, title: str) -> Iterable[Segment]:
    """A `text_block` of a program's output."""
    segment, note = output_segment(_string(canonical, pointer), pointer)
    yield from (segment if part.role == "preview" else part for part in text_block(canonical, pointer, title + note))


def item_lines(
    canonical: CanonicalResult, pointer: str, item: Callable[[JsonValue, str], Iterable[Segment]]
) -> Iterable[Segment]:
    """`item(element, its pointer)` on a line each, and how many the projection left out."""
    elements = _field(canonical, pointer)
    for index, element in enumerate(elements if isinstance(elements, list) else ()):
        yield line_break()
        yield from item(element, join(pointer, index))
    yield from omitted_line(canonical, pointer)


def omitted_line(canonical: CanonicalResult, pointer: str) -> Iterable[Segment]:
    """How many items of the list at `pointer` the projection left out; nothing when it left none out."""
    omitted = _field(canonical, f"{pointer}_omitted")
    if isinstance(omitted, int):
        elements = _field(canonical, pointer)
        shown = len(elements) if isinstance(elements, list) else 0
        yield line_break()
        yield marker(f"[showing first {shown} of {shown + omitted}]")


def field_segment(field: JsonValue, pointer: str, role: Role = "value") -> Segment:
    """The string at `pointer` of the envelope, verbatim; any other scalar as JSON writes it."""
    if isinstance(field, str):
        return text_value(field, pointer, role=role)
    return Segment(scalar_text(field), role, SegmentSource("canonical", pointer))


def is_block(field: JsonValue) -> bool:
    return isinstance(field, str) and ("\n" in field or len(field) > INLINE_CHARACTERS)


def result_or_error(canonical: CanonicalResult) -> tuple[str, JsonValue]:
    """The name and the value of the result or of the error; an error without its empty fields."""
    if canonical.error is None:
        return "result", canonical.result
    fields = msgspec.structs.asdict(canonical.error)
    return "error", {name: value for name, value in fields.items() if value is not None}


def artifact_paths(canonical: CanonicalResult, policy: RenderPolicy) -> Iterator[Segment]:
    """No path where the model has no tool that reads it (E-27)."""
    for index, artifact in enumerate(canonical.artifacts if policy.read_tool is not None else ()):
        yield field_segment(artifact.path, f"/artifacts/{index}/path")


def indented(text: str, pointer: str, indent: str = INDENT) -> Iterable[Segment]:
    """A whole string whose further lines are indented, so that none of them can pass for a line of the receipt."""
    return indent_lines(text_value(text, pointer), indent)


def artifact_lines(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
    """The tool that reads artifacts, and one path a line (RFC-129, E-27); nothing where the model has no such tool.

    Before them, where the result as a whole passed the ceiling, how much of it there is.
    """
    yield from shortened_line(canonical, policy)
    if canonical.artifacts and policy.read_tool is not None:
        yield line_break()
        yield artifacts_title(policy)
        for index in range(len(canonical.artifacts)):
            yield line_break()
            yield value(canonical, f"/artifacts/{index}/path")


def artifacts_title(policy: RenderPolicy) -> Segment:
    """The line above the paths: what to call with one of them."""
    return label(f"Artifacts, for {policy.read_tool} path=…:")


def shortened_line(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
    """How large the whole result is, and how to read it, when it passed the ceiling."""
    halves = (("result", "/result"), ("error", "/error/details")) if canonical.artifacts else ()
    for half, pointer in halves:
        size = _field(canonical, f"{pointer}/{half}_characters")
        index = _field(canonical, f"{pointer}/{half}_artifact")
        if isinstance(size, int) and isinstance(index, int) and 0 <= index < len(canonical.artifacts):
            path = canonical.artifacts[index].path
            rest = "" if policy.read_tool is None else f"; all of it: {policy.read_tool} path={path}"
            yield line_break()
            yield marker(f"[{half} shortened: it has {size} characters{rest}]")


def with_ways_to_read(segments: list[Segment], canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
    """Adds to each marker of a cut preview the call that reads what is left out, as far as the policy has room (E-27).

    A preview that the receipt shortened once more is in pieces; there the renderer's own marker stands between them.
    Of an output from which terminal codes were left out, each piece gets its own range.
    """
    room = policy.characters - sum(len(segment.text) for segment in segments)
    named: list[Segment] = []
    for segment in segments:
        pieces = _name_way_to_read(segment, canonical, policy) if segment.role == "preview" else [segment]
        added = sum(len(piece.text) for piece in pieces) - len(segment.text)
        if added > room:
            added, pieces = 0, [segment]
        room -= added
        named += place_folded(pieces, partial(_string, canonical))
    return named


def _name_way_to_read(segment: Segment, canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
    """Characters are counted in the field where codes were left out of the text, as in the stored output."""
    path = _path_of_whole(segment, canonical)
    if path is None or policy.read_tool is None or segment.source is None:
        return [segment]
    text, cut = segment.text, find_cut(segment.text)
    if cut is None:
        text = _string(canonical, segment.source.pointer)
        cut = find_cut(text)
    gap = "" if cut is None else text[cut.head_end : cut.tail_start]
    if cut is None or segment.text.count(gap) != 1:
        return [segment]
    if cut.unit == "lines":
        missing, place = f"lines {cut.first + 1} to {cut.total - cut.last}", f"line={cut.first + 1}"
    else:
        head = text[: cut.head_end]
        line, column = head.count("\n") + 1, cut.first - (head.rfind("\n") + 1) + 1
        missing, place = f"characters {cut.first + 1} to {cut.total - cut.last}", f"line={line} column={column}"
    at = segment.text.index(gap) + len(gap) - len(END_OF_MARKER)
    way = marker(f"[{missing}: {policy.read_tool} path={path} {place}]\n")
    return [slice_segment(segment, 0, at), way, slice_segment(segment, at, len(segment.text))]


def _path_of_whole(segment: Segment, canonical: CanonicalResult) -> str | None:
    """The path of the artifact with all of a preview's text: its index stands beside the preview."""
    pointer = "" if segment.source is None else segment.source.pointer
    index = _field(canonical, f"{pointer.removesuffix('_preview')}_artifact")
    if isinstance(index, int) and 0 <= index < len(canonical.artifacts):
        return canonical.artifacts[index].path
    return None


def render_stub(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
    """Renders a result of which the ceiling left nothing: a family would take it for an empty one."""
    return fit([headline(canonical.summary_text)], policy, tail=artifact_lines(canonical, policy))


def error_receipt(
    canonical: CanonicalResult,
    details: tuple[tuple[str, str], ...] = (),
    message: Callable[[str], Iterable[Segment]] | None = None,
    tools: tuple[ToolDefinition, ...] = (),
) -> Iterable[Segment]:
    """Outcome, kind, the details that the family names, hint, what the same call would give. ValueError for a success.

    A call that never ran is "not run", any other "failed". Message and hint are bounded; `message` writes the message
    of a family that bounds it in its own way. A detail that the message names already is not repeated.
    """
    error = canonical.error
    if error is None:
        raise ValueError("error_receipt needs an envelope with an error")
    yield from phrase(canonical, f"{{tool_name}} {_how_it_ended(error)}: ", "")
    if start := _refused_arguments(canonical, error):
        yield from _bounded_message(error.message, start)
    elif reason := _unsaid_reason(canonical, error):
        words = " ".join(word_members(reason).split())
        yield Segment(words, "headline", SegmentSource("canonical", "/error/details/parse_error"))
        yield from _example(canonical.tool_name, reason, error, tools)
    else:
        for segment in message(error.message) if message else ():
            yield from [segment] if segment.role == "marker" else indent_lines(segment)
        yield from () if message else _bounded_message(error.message, 0)
    yield from phrase(canonical, "\nKind: {kind}", "/error")
    for title, name in details:
        field = _field(canonical, f"/error/details/{name}")
        if field is not None and not re.search(rf"(?<!\w){re.escape(scalar_text(field))}(?!\w)", error.message):
            yield from member_line(canonical, title, f"/error/details/{name}")
    if error.recovery_hint:
        yield line_break()
        yield label("Hint: ")
        yield from bound_lines(text_value(error.recovery_hint, "/error/recovery_hint", role="hint"), HINT_CHARACTERS)
    yield line_break()
    yield label("Same call again: ")
    yield value(canonical, "/error/retryable", word_repetition(error))


def _bounded_message(message: str, start: int) -> Iterable[Segment]:
    """The message from the character `start`."""
    return bound_lines(text_value(message[start:], "/error/message", start, role="headline"), MESSAGE_CHARACTERS)


def word_repetition(error: ToolError) -> str:
    """The end that the same call has when it is made again."""
    return "may work" if error.retryable else f"will fail{UNTIL.get(error.kind, '')}"


def _how_it_ended(error: ToolError) -> str:
    if error.kind == "duplicate_tool_call":
        return "not run again"
    return "not run" if is_refusal(error) else "failed"


def _example(tool: str, reason: str, error: ToolError, tools: tuple[ToolDefinition, ...]) -> Iterable[Segment]:
    """The required members of an example after one that is missing, the known members after one that is not known.

    Nothing where the hint has an example already.
    """
    for definition in tools:
        if definition.name != tool:
            continue
        schema = definition.input_schema()
        if reason.startswith(MISSING) and definition.examples and "{" not in (error.recovery_hint or ""):
            required = {name: definition.examples[0].get(name) for name in schema.get("required", ())}
            yield label(f". Example: {json.dumps(required, ensure_ascii=False)}")
        elif reason.startswith(UNKNOWN) and schema.get("properties"):
            yield label(f"; the fields are: {', '.join(schema['properties'])}")


def is_refusal(error: ToolError) -> bool:
    """True for an error of a call that was settled before its tool ran."""
    row = envelope_situation("error", error.kind)
    return row.reason is not None or error.kind in NEVER_RAN


def _refused_arguments(canonical: CanonicalResult, error: ToolError) -> int:
    """The place at which the reason begins in the message about arguments that do not fit; 0 when it does not name one.

    The words before it name the tool once more, and a schema that the model cannot look up.
    """
    before = MISFIT.format(canonical.tool_name)
    return len(before) + 2 if error.message.startswith(f"{before}: ") else 0


def _unsaid_reason(canonical: CanonicalResult, error: ToolError) -> str:
    """The reason that the RFC's `invalid_tool_input` keeps in its details, where the message is the RFC's alone."""
    is_bare = error.message == MISFIT.format(canonical.tool_name)
    return _string(canonical, "/error/details/parse_error") if is_bare else ""


def _string(canonical: CanonicalResult, pointer: str) -> str:
    """The text at `pointer`; empty when there is none."""
    field = _field(canonical, pointer)
    return field if isinstance(field, str) else ""


def _field(canonical: CanonicalResult, pointer: str) -> JsonValue:
    try:
        return resolve(canonical.to_json(), pointer)
    except KeyError:
        return None
