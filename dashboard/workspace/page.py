"""The page of a step: the call in the tab that is open, and, unless only the tab is asked for, the list beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.http import QueryDict

from dashboard.calls.call_detail import CallPage, load_call_page
from dashboard.calls.stages import WIRE
from dashboard.evidence.argument_labels import show_label
from dashboard.evidence.call_evidence import CallEvidence
from dashboard.evidence.fidelity import describe_seen_lines
from dashboard.models import Call, Observation, Project
from dashboard.models.sources import SourceSlice, load_lines
from dashboard.runs.receipt_presence import ReceiptPresence, load_presence
from dashboard.text.text_markup import TextChunk, text_chunk
from dashboard.workspace.context import ContextTab, load_context
from dashboard.workspace.steps import RunPosition, StepLink, StepList, Tab, build_tabs, load_step_list, shown_tab
from envelopes.transports import TRANSPORTS

WITHOUT_HALVES = ("context", "raw")  # tabs
RAW_CHARS = 16 * 1024  # of a line, on the page


@dataclass(frozen=True, kw_only=True)
class RawLine:
    """One line of a source, or the bytes of an observation that is no slice of one (`is_line` is false).

    `surfaces` names what was read from it, each with its fidelity. `bytes` is the size of all of it.
    """

    source: str
    path: str
    line: int
    surfaces: tuple[str, ...]
    bytes: int
    is_line: bool
    window: TextChunk


@dataclass(frozen=True, kw_only=True)
class WorkspacePage:
    """`label` is what was asked, in a line; `seen` which lines the model got of an output that was cut.

    `steps` is None where only the open step is asked for. `context` and `raw` belong to their tabs.
    """

    place: RunPosition
    tab: Tab
    tabs: tuple[StepLink, ...]
    call: CallPage
    label: str
    seen: str
    presence: ReceiptPresence | None
    steps: StepList | None
    context: ContextTab | None
    raw: tuple[RawLine, ...]


def load_workspace(
    project: Project, call: Call, place: RunPosition, tab: str, query: QueryDict, *, with_steps: bool
) -> WorkspacePage:
    shown = shown_tab(tab, query)
    if shown == "wire" and not query.get("right", "").startswith(WIRE):
        query = query.copy()
        query["right"] = WIRE + TRANSPORTS[0].name
    page = load_call_page(project, call, place.run, query, with_halves=shown not in WITHOUT_HALVES)
    receipt = page.receipt_row
    return WorkspacePage(
        place=place,
        tab=shown,
        tabs=build_tabs(place, shown, query) if place.position else (),
        call=page,
        label=show_label(call.asked, call.run.cwd),
        seen=describe_seen_lines(call) if call.is_cut else "",
        presence=load_presence(page.other_run or place.run, receipt) if receipt and shown == "halves" else None,
        steps=load_step_list(place, shown, query) if with_steps and place.position else None,
        context=load_context(place) if shown == "context" else None,
        raw=_build_raw_lines(page.evidence) if shown == "raw" else (),
    )


def _build_raw_lines(evidence: CallEvidence) -> tuple[RawLine, ...]:
    """The lines of the sources that a call was read from, as they were recorded."""
    observations = evidence.observations
    lines = load_lines(observations)
    groups: dict[tuple[object, ...], list[Observation]] = {}
    for observation in observations:
        key: tuple[object, ...] = (observation.pk,)
        if observation in lines and observation.start is not None:
            key = (observation.source_id, observation.start - lines[observation][1])
        groups.setdefault(key, []).append(observation)
    rows = [_build_raw_line(group, lines) for group in groups.values()]
    return tuple(sorted(rows, key=lambda row: (row.path, row.line)))


def _build_raw_line(observations: Iterable[Observation], lines: Mapping[SourceSlice, tuple[bytes, int]]) -> RawLine:
    first, *others = observations
    data = lines[first][0] if first in lines else bytes(first.data)
    text = data.decode("utf-8", "backslashreplace")
    return RawLine(
        source=first.source.name if first.source else "a deleted source",
        path=first.source.path if first.source else "",
        line=first.line,
        surfaces=tuple(_describe(observation) for observation in (first, *others)),
        bytes=len(data),
        is_line=first in lines,
        window=text_chunk(text, 0, RAW_CHARS),
    )


def _describe(observation: Observation) -> str:
    chosen = "" if observation.selected else ", not selected"
    return f"{observation.surface} ({observation.fidelity or 'recorded'}{chosen})"
