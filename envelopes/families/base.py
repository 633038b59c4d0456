"""Defines what a family is: how one kind of tool is projected, rendered for the model, and read from recordings.

A family is a folder with a `FAMILY` in its `__init__` and one line in `families.FAMILIES`. Its files:

    results.py        the result structs and, in PROJECTIONS, a function for each that gives its bounded form
    receipts.py       the renderers: canonical result -> segments; `receipt` first, then the family's own variants
    tools.py          the definitions of its built-in tools; only in a family that has some
    <agent>.py        the mappings for the tools of one agent, each with `read` and `align`; `any_agent` for all
    examples.json     complete outputs for galleries and contract tests; `load_examples` has its form
    projection.py     PROJECTIONS, where results.py would pass 430 lines with them
    alignment.py      the `align` functions, where the agent's module would pass 430 lines with them

The inventory publishes the structs that a built-in tool takes and returns by their names and docstrings, so a change of
either raises its version. Families import the core and never each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.alignment.mapping import ToolMapping
from envelopes.lint.model import Rule
from envelopes.schema.budget import ProjectionPolicy, RenderPolicy
from envelopes.schema.receipt import Renderer
from envelopes.schema.result import ArtifactRef, CompleteOutput, JsonValue, ToolError, summarize, to_members
from envelopes.schema.tool import ToolDefinition
from envelopes.storage.sinks import ArtifactSink
from envelopes.text.preview import Cut, FileText, TextPreview, clip, head_tail
from envelopes.text.token_preview import preview_tokens

Item = TypeVar("Item")


class FieldCut(msgspec.Struct, frozen=True):
    """`pointer` is the canonical preview that was cut."""

    pointer: str
    cut: Cut


class Projected(msgspec.Struct, frozen=True, kw_only=True):
    """The bounded `result` of the envelope, its artifacts and its cuts.

    `sealed` are pointers of texts that are whole or not there at all: a cut would take away what guards them.
    `promised` are pointers of texts with a budget that the tool's definition promises; no ceiling shortens them.
    """

    result: JsonValue
    artifacts: tuple[ArtifactRef, ...] = ()
    cuts: tuple[FieldCut, ...] = ()
    sealed: tuple[str, ...] = ()
    promised: tuple[str, ...] = ()


class Family(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One kind of tool.

    `results` are the types that `project` accepts, `versions` the versions of renderers above 1: raise a renderer's
    when it writes something new. `lint` are the family's own rules; those that serve every family follow them.
    `examples` is its `examples.json`, which is read when `samples` or `gallery` is first used. `granted` gives the
    characters of output that a result of the family has from a promised budget, 0 for none. `outcomes` describe a
    result of the family's own tools in one sentence. `counts_tokens`: its previews have budgets in tokens, so they
    depend on the vocabulary that counts these.

    >>> class Answer(msgspec.Struct):
    ...     text: str
    >>> family = Family(
    ...     name="ask",
    ...     title="Questions",
    ...     results=(Answer,),
    ...     project=lambda result, policy, sink: Projected(result={"text": result.text}),
    ...     renderers={"receipt": lambda canonical, policy: [Segment(canonical.result["text"], "value")]},
    ... )
    >>> family.rendering.characters
    12000
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
    granted: Callable[[JsonValue], int] = lambda _result: 0
    outcomes: Mapping[type[msgspec.Struct], Callable[[Any], str]] = {}
    counts_tokens: bool = False

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
    field without recording it (RFC-079 to RFC-083, RFC-090). A field is a pointer below `/result/`; the methods
    that give members name them by its last part.
    """

    def __init__(self, sink: ArtifactSink) -> None:
        self._sink = sink
        self.artifacts: list[ArtifactRef] = []
        self.cuts: list[FieldCut] = []
        self._sealed: list[str] = []
        self._promised: list[str] = []

    def seal(self, field: str) -> None:
        """Forbids that the text of the field is cut once more."""
        self._sealed.append(f"/result/{field}")

    def promise(self, field: str) -> None:
        """Exempts the text of the field from the ceilings: the tool's definition promises it a budget of its own."""
        self._promised.append(f"/result/{field}")

    def store(self, role: str, text: str) -> int:
        """Writes `text` whole and gives the index of its artifact."""
        return self.refer(self._sink.write(role, text))

    def refer(self, artifact: ArtifactRef) -> int:
        """The index of an artifact that is stored already."""
        self.artifacts.append(artifact)
        return len(self.artifacts) - 1

    def preview(self, field: str, text: str, budget: int, *, role: str) -> tuple[str, int | None]:
        """The preview of at most `budget` characters, and the index of its artifact when it was cut."""
        preview, is_whole = self.excerpt(field, text, budget)
        return preview, None if is_whole else self.store(role, text)

    def preview_stored(self, field: str, text: str | FileText, budget: int, *, path: str) -> tuple[str, int]:
        """The preview of a text that is whole at `path`: it is referenced, not written again (RFC-079)."""
        preview, _ = self.excerpt(field, text, budget)
        return preview, self.refer(ArtifactRef(path))

    def preview_tokens(self, field: str, text: str | FileText, budget: int) -> tuple[str, bool]:
        """The preview of at most `budget` tokens that the tool's definition promises, and whether it is complete."""
        self.promise(field)
        return self._record(field, preview_tokens(text, budget))

    def excerpt(self, field: str, text: str | FileText, budget: int) -> tuple[str, bool]:
        """The preview, and whether it is complete, of a text that stays whole in a file or behind another tool."""
        return self._record(field, text.preview(budget) if isinstance(text, FileText) else head_tail(text, budget))

    def _record(self, field: str, preview: TextPreview) -> tuple[str, bool]:
        if preview.cut is not None:
            self.cuts.append(FieldCut(f"/result/{field}", preview.cut))
        return preview.text, preview.cut is None

    def line(self, field: str, text: str | None, budget: int) -> str | None:
        """The beginning of a short text, ended by an ellipsis where it was cut; nothing is written. None stays None."""
        if text is None or len(text) <= budget:
            return text
        beginning, cut = clip(text, budget, len(text))
        self.cuts.append(FieldCut(f"/result/{field}", cut))
        return beginning

    def one_line(self, field: str, text: str | None, budget: int) -> str | None:
        """A `line` without line breaks, so that it cannot pass for a line of the receipt's own."""
        return None if text is None else self.line(field, " ".join(text.split()), budget)

    def stored_line(self, field: str, text: str | None, budget: int, *, role: str) -> dict[str, JsonValue]:
        """A `one_line` with `<field>_artifact`, the index of the whole text, when it was cut. Nothing for None."""
        line = self.one_line(field, text, budget)
        if text is None or line is None:
            return {}
        name = field.rpartition("/")[2]
        is_cut = len(" ".join(text.split())) > budget
        return {name: line, f"{name}_artifact": self.store(role, text)} if is_cut else {name: line}

    def text(self, field: str, text: str | None, budget: int, *, role: str) -> dict[str, JsonValue]:
        """`field` with its preview, and `<field>_artifact` with its index when it was cut. Nothing for None."""
        if text is None:
            return {}
        preview, artifact = self.preview(field, text, budget, role=role)
        name = field.rpartition("/")[2]
        return {name: preview} if artifact is None else {name: preview, f"{name}_artifact": artifact}

    def rows(self, field: str, items: Sequence[JsonValue], limit: int) -> list[JsonValue]:
        """The first `limit` items of the field."""
        if len(items) > limit:
            self.cuts.append(FieldCut(f"/result/{field}", Cut("lines", len(items), ((0, limit),))))
        return list(items[:limit])

    def items(
        self, field: str, items: Sequence[JsonValue], policy: ProjectionPolicy, *, characters: int | None = None
    ) -> dict[str, JsonValue]:
        """`field` with the items that fit by number and by size, and `<field>_omitted` when some did not.

        `characters` is a budget of the field's own, where it is smaller than the policy's for a preview.
        """
        budget = policy.preview if characters is None else min(policy.preview, characters)
        limit = count_fitting((text_size(item) for item in items), rows=policy.rows, characters=budget)
        return _with_omitted(field, self.rows(field, items, limit), len(items))

    def store_items(
        self, field: str, items: Sequence[msgspec.Struct], members: Mapping[str, JsonValue]
    ) -> ResultMembers:
        """`<field>_artifact` with all items where `members` lack some: one a line, so that a slice is readable."""
        if f"{field}_omitted" not in members:
            return {}
        lines = "\n".join(json.dumps(to_members(item), ensure_ascii=False) for item in items)
        return {f"{field}_artifact": self.store(field, lines)}

    def build_items(
        self,
        field: str,
        items: Sequence[Item],
        policy: ProjectionPolicy,
        build: Callable[[Item, str], JsonValue],
        *,
        characters: int | None = None,
    ) -> dict[str, JsonValue]:
        """A list like that of `items`; `build(item, its field)` shortens each item. Omitted items leave no cuts."""
        budget = policy.preview if characters is None else min(policy.preview, characters)
        before = len(self.cuts)
        built = [build(item, f"{field}/{index}") for index, item in enumerate(items[: policy.rows])]
        limit = count_fitting((text_size(item) for item in built), rows=policy.rows, characters=budget)
        start = len(f"/result/{field}/")
        self.cuts[before:] = [cut for cut in self.cuts[before:] if int(cut.pointer[start:].partition("/")[0]) < limit]
        if limit < len(items):
            self.cuts.append(FieldCut(f"/result/{field}", Cut("lines", len(items), ((0, limit),))))
        return _with_omitted(field, built[:limit], len(items))

    def done(self, result: JsonValue) -> Projected:
        return Projected(
            result=result,
            artifacts=tuple(self.artifacts),
            cuts=tuple(self.cuts),
            sealed=tuple(self._sealed),
            promised=tuple(self._promised),
        )


ResultMembers: TypeAlias = dict[str, JsonValue]
Projection: TypeAlias = Callable[[Any, Projector, ProjectionPolicy], ResultMembers]


def project_by_type(
    projections: dict[type[msgspec.Struct], Projection], *, keeps_nulls: bool = False
) -> Callable[[msgspec.Struct, ProjectionPolicy, ArtifactSink], Projected]:
    """A family's `project` from one function for each of its result structs; one for RecordedText is added.

    Null members are left out: the source did not give them. With `keeps_nulls` they stay. Raises TypeError for a
    result of another family.
    """
    known: dict[type[msgspec.Struct], Projection] = {RecordedText: _project_recorded_text, **projections}

    def project(result: msgspec.Struct, policy: ProjectionPolicy, sink: ArtifactSink) -> Projected:
        if type(result) not in known:
            raise TypeError(f"{type(result).__name__} is no result of this family")
        projector = Projector(sink)
        members = known[type(result)](result, projector, policy)
        return projector.done(members if keeps_nulls else without_nulls(members))

    return project


def _project_recorded_text(result: RecordedText, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return projector.text("text", result.text, policy.preview, role="recorded")


def _with_omitted(field: str, shown: list[JsonValue], total: int) -> ResultMembers:
    name = field.rpartition("/")[2]
    return {name: shown} if len(shown) == total else {name: shown, f"{name}_omitted": total - len(shown)}


def count_fitting(sizes: Iterable[int], *, rows: int, characters: int) -> int:
    """How many of the first items fit into both limits."""
    count = used = 0
    for size in sizes:
        used += size
        if count == rows or used > characters:
            break
        count += 1
    return count


def count_noun(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def pick(result: msgspec.Struct, *names: str) -> ResultMembers:
    """The fields of a result that are bounded by their nature, as they are."""
    return {name: getattr(result, name) for name in names}


def without_nulls(members: ResultMembers) -> ResultMembers:
    """The members that are not null; nulls of nested objects stay."""
    return {name: member for name, member in members.items() if member is not None}


def text_size(item: JsonValue) -> int:
    """Characters of the names and values, without the punctuation of JSON."""
    match item:
        case str():
            return len(item)
        case dict():
            return sum(len(str(name)) + text_size(member) for name, member in item.items())
        case list():
            return sum(text_size(member) for member in item)
    return len(str(item))


_NUMBER = re.compile(r"\{(?P<name>[a-z]+)(?:%(?P<divisor>\d+))?(?::(?P<format>\d+))?\}")


class Examples(msgspec.Struct, frozen=True):
    samples: tuple[CompleteOutput, ...] = ()
    gallery: dict[str, CompleteOutput] = {}


def load_examples(path: Path, results: Iterable[type[msgspec.Struct]]) -> Examples:
    """The examples of one family; `results` are its result structs.

    Raises msgspec.ValidationError for an example that does not fit its struct, KeyError for an unknown struct or part.

        {"parts":   {name: any JSON},            what several examples share
         "samples": [example, …],                outputs as foreign agents record them
         "gallery": {"<tool>/<sort>": example}}  outputs of the built-in tools: success, error, large, empty, odd

    An example has `summary_text` and `result`, under the name of its struct, or `error`, whose message is the summary
    unless there is another; a sample also has `tool_name`:

        {"summary_text": "command exited with status 0", "result": {"CommandResult": {"exit_status": 0}}}

    Three objects stand for other JSON, so that long or similar outputs stay short:

        {"$use": "item", "state": "open"}           the part `item`; the other members replace members of it
        {"$join": ["head\\n", …]}                    texts, lists or objects, one after the other
        {"$repeat": "line {n:04}\\n", "n": [1, 40]}  the same of one that is repeated for each number from 1 to 40

    `{n}` becomes the number; `{n:04}` pads it with zeros, `{n:4}` with blanks, and `{n%3}` is the remainder.
    """
    document = json.loads(path.read_text("utf-8"))
    expander = _Expander(document.get("parts", {}))
    structs = {struct.__name__: struct for struct in results}
    return Examples(
        samples=tuple(_decode(expander.expand(example), structs) for example in document.get("samples", ())),
        gallery={
            name: _decode({"tool_name": name.partition("/")[0], **expander.expand(example)}, structs)
            for name, example in document.get("gallery", {}).items()
        },
    )


def _decode(example: dict[str, Any], structs: Mapping[str, type[msgspec.Struct]]) -> CompleteOutput:
    tool_name = example["tool_name"]
    if "error" in example:
        error = msgspec.convert(example["error"], ToolError)
        text = example.get("summary_text") or summarize(error.message)
        return CompleteOutput(tool_name=tool_name, status="error", summary_text=text, error=error)
    ((struct, members),) = example["result"].items()
    result = msgspec.convert(members, structs[struct])
    return CompleteOutput(tool_name=tool_name, status="success", summary_text=example["summary_text"], result=result)


class _Expander:
    def __init__(self, parts: dict[str, Any]) -> None:
        self._parts = parts
        self._expanded: dict[str, Any] = {}

    def expand(self, value: Any, numbers: Mapping[str, int] | None = None) -> Any:
        """`value` without the three notations; `numbers` are those of the repetitions around it."""
        match value:
            case str():
                return _NUMBER.sub(lambda match: _format(match, numbers), value) if numbers else value
            case list():
                return [self.expand(item, numbers) for item in value]
            case {"$use": name, **members}:
                return self._part(name) | self.expand(members, numbers) if members else self._part(name)
            case {"$join": values}:
                return _joined([self.expand(item, numbers) for item in values])
            case {"$repeat": item, **ranges}:
                return _joined([self.expand(item, {**(numbers or {}), **own}) for own in _counts(ranges)])
            case dict():
                return {self.expand(name, numbers): self.expand(member, numbers) for name, member in value.items()}
        return value

    def _part(self, name: str) -> Any:
        """Expanded once: a list of a hundred large items shares them until they are decoded."""
        if name not in self._expanded:
            self._expanded[name] = self.expand(self._parts[name])
        return self._expanded[name]


def _counts(ranges: Mapping[Any, Any]) -> Iterator[dict[str, int]]:
    ((name, (first, last)),) = ranges.items()
    for number in range(first, last + 1):
        yield {name: number}


def _format(match: re.Match[str], numbers: Mapping[str, int]) -> str:
    if match["name"] not in numbers:
        return match[0]
    number = numbers[match["name"]]
    return format(number % int(match["divisor"]) if match["divisor"] else number, match["format"] or "")


def _joined(values: Sequence[Any]) -> Any:
    match values[0]:
        case str():
            return "".join(values)
        case list():
            return list(chain.from_iterable(values))
    return dict(chain.from_iterable(value.items() for value in values))
