"""The contract of a family: how one kind of tool is projected, spoken to the model, and read.

A family is one module with a `FAMILY` and one line in `families.FAMILIES`. It owns

    results     its typed complete results (msgspec structs), for our own tools and foreign ones
    project     complete result -> bounded JSON, large fields into the sink, cuts as records
    renderers   canonical -> segments; `receipt` first, then the family's own variants
    mappings    the `(agent, tool)` rows that it reads, each with `read` and `align`
    tools       the definitions of its built-in tools
    lint        rules of its own for a receipt, before those that serve every family
    examples    complete outputs that show it, for galleries and contract tests (`families.examples`)

Families import the core and never each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.alignment.mapping import ToolMapping
from envelopes.families.examples import Examples, load_examples
from envelopes.lint.model import Rule
from envelopes.schema.budget import ProjectionPolicy, RenderPolicy
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.schema.result import ArtifactRef, CanonicalResult, CompleteOutput, JsonValue
from envelopes.schema.tool import ToolDefinition
from envelopes.schema.variant import Renderer
from envelopes.storage.file_store import ArtifactSink
from envelopes.text.fit_receipt import count_fitting, fit
from envelopes.text.outline import scalar_text
from envelopes.text.pointer import join, resolve
from envelopes.text.preview import Cut, FileText, clip, head_tail

Item = TypeVar("Item")


class FieldCut(msgspec.Struct, frozen=True):
    """`pointer` is the canonical preview that was cut."""

    pointer: str
    cut: Cut


class Projected(msgspec.Struct, frozen=True, kw_only=True):
    """The bounded `result` of the envelope, and what became of what did not fit.

    `sealed` are pointers of texts that are whole or not there at all: a cut would take away what guards them.
    """

    result: JsonValue
    artifacts: tuple[ArtifactRef, ...] = ()
    cuts: tuple[FieldCut, ...] = ()
    sealed: tuple[str, ...] = ()


class Family(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """`versions` holds the version of each renderer that has one above 1: raise it when it writes something new.

    `examples` is the family's `examples.json`; it is read when `samples` or `gallery` is first used.
    """

    name: str
    title: str
    results: tuple[type[msgspec.Struct], ...]
    project: Callable[[msgspec.Struct, ProjectionPolicy, ArtifactSink], Projected]
    renderers: dict[str, Renderer]
    mappings: tuple[ToolMapping, ...] = ()
    tools: tuple[ToolDefinition, ...] = ()
    examples: Path | None = None
    projection: ProjectionPolicy = ProjectionPolicy()
    rendering: RenderPolicy = RenderPolicy()
    versions: dict[str, int] = {}
    lint: tuple[Rule, ...] = ()

    @cached_property
    def gallery(self) -> dict[str, CompleteOutput]:
        """Examples of the built-in tools, by `<tool>/<sort>`."""
        return self._examples.gallery

    @cached_property
    def samples(self) -> tuple[CompleteOutput, ...]:
        """All examples: those recorded by foreign agents, then the gallery."""
        return (*self._examples.samples, *self.gallery.values())

    @cached_property
    def _examples(self) -> Examples:
        return load_examples(self.examples, self.results) if self.examples else Examples()


class Projector:
    """Collects previews, cuts and artifacts while a family builds its bounded result.

    `preview`, `excerpt`, `line` and lists are the only ways to shorten something, so no family can cut a
    field without recording it (RFC-079 to RFC-083, RFC-090).
    """

    def __init__(self, sink: ArtifactSink) -> None:
        self._sink = sink
        self.artifacts: list[ArtifactRef] = []
        self.cuts: list[FieldCut] = []
        self._sealed: list[str] = []

    def seal(self, field: str) -> None:
        """The text at `/result/<field>` must not be cut once more."""
        self._sealed.append(f"/result/{field}")

    def preview(self, field: str, text: str, budget: int, *, role: str) -> tuple[str, int | None]:
        """The preview for `/result/<field>`, and the index of its artifact when it was cut."""
        shown = head_tail(text, budget)
        if shown.cut is None:
            return shown.text, None
        self.cuts.append(FieldCut(f"/result/{field}", shown.cut))
        return shown.text, self.keep(role, text)

    def preview_of_kept(self, field: str, text: str | FileText, budget: int, *, path: str) -> tuple[str, int]:
        """As `preview`, for a text that stands whole at `path`: referenced, not written again (RFC-079)."""
        shown, _ = self.excerpt(field, text, budget)
        self.artifacts.append(ArtifactRef(path))
        return shown, len(self.artifacts) - 1

    def line(self, field: str, text: str, budget: int) -> str:
        """The beginning of a short text, ended by an ellipsis where it was cut; nothing is written."""
        if len(text) <= budget:
            return text
        shown, cut = clip(text, budget, len(text))
        self.cuts.append(FieldCut(f"/result/{field}", cut))
        return shown

    def keep(self, role: str, text: str) -> int:
        """Writes `text` whole; the index of its artifact."""
        self.artifacts.append(self._sink.write(role, text))
        return len(self.artifacts) - 1

    def excerpt(self, field: str, text: str | FileText, budget: int) -> tuple[str, bool]:
        """The preview for `/result/<field>`, and whether it is complete.

        For a text that stays whole elsewhere, in a file or behind another tool: nothing is written twice.
        """
        shown = text.preview(budget) if isinstance(text, FileText) else head_tail(text, budget)
        if shown.cut is not None:
            self.cuts.append(FieldCut(f"/result/{field}", shown.cut))
        return shown.text, shown.cut is None

    def rows(self, field: str, items: list[JsonValue], limit: int) -> list[JsonValue]:
        """The first `limit` items of `/result/<field>`."""
        if len(items) > limit:
            self.cuts.append(FieldCut(f"/result/{field}", Cut("lines", len(items), ((0, limit),))))
        return items[:limit]

    def text(self, field: str, text: str, budget: int, *, role: str) -> dict[str, JsonValue]:
        """`field` with its preview, and `<field>_artifact` with its index when it was cut."""
        shown, artifact = self.preview(field, text, budget, role=role)
        return {field: shown} if artifact is None else {field: shown, f"{field}_artifact": artifact}

    def listed(self, field: str, items: list[JsonValue], policy: ProjectionPolicy) -> dict[str, JsonValue]:
        """`field` with the items that fit by number and by size, and `<field>_omitted` when some did not."""
        limit = count_fitting((text_size(item) for item in items), rows=policy.rows, characters=policy.preview)
        shown = self.rows(field, items, limit)
        return {field: shown} if len(shown) == len(items) else {field: shown, f"{field}_omitted": len(items) - limit}

    def each(
        self, field: str, items: Sequence[Item], policy: ProjectionPolicy, build: Callable[[Item, str], JsonValue]
    ) -> dict[str, JsonValue]:
        """As `listed`, for items that `build(item, its field)` shortens in parts. What is left out leaves no cuts."""
        before = len(self.cuts)
        built = [build(item, f"{field}/{index}") for index, item in enumerate(items[: policy.rows])]
        limit = count_fitting((text_size(item) for item in built), rows=policy.rows, characters=policy.preview)
        start = len(f"/result/{field}/")
        self.cuts[before:] = [cut for cut in self.cuts[before:] if int(cut.pointer[start:].partition("/")[0]) < limit]
        if limit == len(items):
            return {field: built}
        self.cuts.append(FieldCut(f"/result/{field}", Cut("lines", len(items), ((0, limit),))))
        return {field: built[:limit], f"{field}_omitted": len(items) - limit}

    def done(self, result: JsonValue) -> Projected:
        return Projected(
            result=result, artifacts=tuple(self.artifacts), cuts=tuple(self.cuts), sealed=tuple(self._sealed)
        )


ResultMembers: TypeAlias = dict[str, JsonValue]
Projection: TypeAlias = Callable[[Any, Projector, ProjectionPolicy], ResultMembers]


def project_by_type(
    table: dict[type[msgspec.Struct], Projection],
) -> Callable[[msgspec.Struct, ProjectionPolicy, ArtifactSink], Projected]:
    """A family's `project`: one function for each of its result structs, RecordedText included.

    RecordedObject that are None are left out: the source did not say them.
    """
    known: dict[type[msgspec.Struct], Projection] = {RecordedText: _recorded_text, **table}

    def project(result: msgspec.Struct, policy: ProjectionPolicy, sink: ArtifactSink) -> Projected:
        projector = Projector(sink)
        members = known[type(result)](result, projector, policy)
        return projector.done({name: member for name, member in members.items() if member is not None})

    return project


def bounded(
    body: Callable[[CanonicalResult], Iterable[Segment]],
    *,
    tail: Callable[[CanonicalResult], Iterable[Segment]] | None = None,
    details: tuple[tuple[str, str], ...] = (),
) -> Renderer:
    """A renderer: `body` for a success, the error receipt for an error, both within the policy.

    `tail` and the artifacts stay whole however short the body has to be. `details` are the members of
    the error's details that this family names, each with its title.
    """

    def render(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
        if canonical.error is not None:
            body_of_error = error_receipt(canonical, policy, details=details)
            return fit(body_of_error, policy, tail=artifact_lines(canonical))
        last = () if tail is None else tail(canonical)
        return fit(body(canonical), policy, tail=(*last, *artifact_lines(canonical)))

    return render


def headline(text: str, pointer: str = "/summary_text") -> Segment:
    """The first line of a receipt: the outcome (RFC-128)."""
    return Segment(text, "headline", SegmentSource("canonical", pointer))


def label(text: str) -> Segment:
    return Segment(text, "label")


def line_break(count: int = 1) -> Segment:
    return Segment("\n" * count, "break")


def value(canonical: CanonicalResult, pointer: str, text: str | None = None) -> Segment:
    """The field at `pointer`; `text` when the renderer words it in its own way."""
    found = _string_at(canonical, pointer)
    if text is None and found is not None:
        return Segment(found, "value", SegmentSource("canonical", pointer, 0, len(found)))
    return Segment(
        text if text is not None else _plain(canonical, pointer), "value", SegmentSource("canonical", pointer)
    )


def preview(canonical: CanonicalResult, pointer: str) -> Segment:
    """A large text field, verbatim."""
    found = _string_at(canonical, pointer) or ""
    return Segment(found, "preview", SegmentSource("canonical", pointer, 0, len(found)))


def member_line(canonical: CanonicalResult, title: str, pointer: str) -> Iterable[Segment]:
    """`title: value` on a line of its own; nothing when the source did not say it."""
    found = _at(canonical, pointer)
    if found is None or found == "":
        return
    yield line_break()
    yield label(f"{title}: ")
    yield value(canonical, pointer, None if isinstance(found, str) else scalar_text(found))


def text_block(canonical: CanonicalResult, pointer: str, title: str = "") -> Iterable[Segment]:
    """A blank line, the title, and a large text; nothing when it is blank or is the headline already (RFC-107)."""
    if (_string_at(canonical, pointer) or "").strip() in ("", canonical.summary_text):
        return
    yield line_break(2)
    if title:
        yield label(f"{title}:\n")
    yield preview(canonical, pointer)


def item_lines(
    canonical: CanonicalResult, pointer: str, item: Callable[[JsonValue, str], Iterable[Segment]]
) -> Iterable[Segment]:
    """`item(element, its pointer)` on a line each, and how many the projection left out."""
    found = _at(canonical, pointer)
    for index, element in enumerate(found if isinstance(found, list) else ()):
        yield line_break()
        yield from item(element, join(pointer, index))
    yield from omitted_line(canonical, pointer)


def omitted_line(canonical: CanonicalResult, pointer: str) -> Iterable[Segment]:
    """How many items of the list at `pointer` the projection left out; nothing when it left none out."""
    omitted = _at(canonical, f"{pointer}_omitted")
    if isinstance(omitted, int):
        found = _at(canonical, pointer)
        shown = len(found) if isinstance(found, list) else 0
        yield line_break()
        yield Segment(f"[showing first {shown} of {shown + omitted}]", "marker")


def sliced(text: str, pointer: str) -> Segment:
    """A whole string of the canonical envelope, when the caller already has it."""
    return Segment(text, "value", SegmentSource("canonical", pointer, 0, len(text)))


def indented(text: str, pointer: str, indent: str = "   ") -> Iterable[Segment]:
    """A whole string whose further lines are indented, so that none of them can pass for a line of the receipt."""
    at = 0
    for index, line in enumerate(text.split("\n")):
        if index:
            yield line_break()
            yield label(indent)
        yield Segment(line, "value", SegmentSource("canonical", pointer, at, at + len(line)))
        at += len(line) + 1


def artifact_lines(canonical: CanonicalResult) -> Iterable[Segment]:
    """`Artifacts:` and one path a line; nothing when there are none (RFC-129).

    Before them, where the result as a whole passed the ceiling, how much of it there is.
    """
    if not canonical.artifacts:
        return
    yield from shortened_line(canonical)
    yield line_break()
    yield label("Artifacts:")
    for index in range(len(canonical.artifacts)):
        yield line_break()
        yield value(canonical, f"/artifacts/{index}/path")


def shortened_line(canonical: CanonicalResult) -> Iterable[Segment]:
    """Where the result as a whole passed the ceiling: how much of it there is, and under which path."""
    halves = (("result", "/result"), ("error", "/error/details")) if canonical.artifacts else ()
    for half, pointer in halves:
        size, index = _at(canonical, f"{pointer}/{half}_characters"), _at(canonical, f"{pointer}/{half}_artifact")
        if isinstance(size, int) and isinstance(index, int) and 0 <= index < len(canonical.artifacts):
            path = canonical.artifacts[index].path
            yield line_break()
            yield Segment(f"[{half} shortened: all {size} characters are in {path}]", "marker")


def render_stub(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
    """The receipt of a result of which the ceiling left nothing: a family would take it for an empty one."""
    return fit([headline(canonical.summary_text)], policy, tail=artifact_lines(canonical))


def error_receipt(
    canonical: CanonicalResult, _policy: RenderPolicy, *, details: tuple[tuple[str, str], ...] = ()
) -> Iterable[Segment]:
    """Outcome, kind, the details that the family names, hint, retryable. Raises ValueError for a success."""
    error = canonical.error
    if error is None:
        raise ValueError("error_receipt needs an envelope with an error")
    yield value(canonical, "/tool_name")
    yield label(" failed: ")
    yield Segment(error.message, "headline", SegmentSource("canonical", "/error/message", 0, len(error.message)))
    yield line_break()
    yield label("Kind: ")
    yield value(canonical, "/error/kind")
    for title, member in details:
        yield from member_line(canonical, title, f"/error/details/{member}")
    yield from reason_line(canonical)
    if error.recovery_hint:
        yield line_break()
        yield label("Hint: ")
        yield Segment(
            error.recovery_hint, "hint", SegmentSource("canonical", "/error/recovery_hint", 0, len(error.recovery_hint))
        )
    yield line_break()
    yield label("Retryable: ")
    yield value(canonical, "/error/retryable", "yes" if error.retryable else "no")


def reason_line(canonical: CanonicalResult) -> Iterable[Segment]:
    """What the RFC's `invalid_tool_input` keeps in its details, unless the message says it as well."""
    reason = _string_at(canonical, "/error/details/parse_error")
    if canonical.error is not None and reason and reason not in canonical.error.message:
        yield from member_line(canonical, "Reason", "/error/details/parse_error")


def _recorded_text(result: RecordedText, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return projector.text("text", result.text, policy.preview, role="recorded")


def text_size(item: JsonValue) -> int:
    """Characters of the names and values, without the punctuation of JSON."""
    match item:
        case str():
            return len(item)
        case dict():
            return sum(len(str(key)) + text_size(child) for key, child in item.items())
        case list():
            return sum(text_size(child) for child in item)
        case _:
            return len(str(item))


def _string_at(canonical: CanonicalResult, pointer: str) -> str | None:
    found = _at(canonical, pointer)
    return found if isinstance(found, str) else None


def _plain(canonical: CanonicalResult, pointer: str) -> str:
    found = _at(canonical, pointer)
    return "" if found is None else msgspec.json.encode(found).decode()


def _at(canonical: CanonicalResult, pointer: str) -> JsonValue:
    try:
        return resolve(canonical.to_json(), pointer)
    except KeyError:
        return None
