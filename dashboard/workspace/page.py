"""The page of a step: the call in the tab that is open, and, unless only the tab is asked for, the list beside it.

The tabs In context and Replay have a second form, about the whole run, which may name the step that it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse

from dashboard.calls.call_detail import CallPage, load_call_page
from dashboard.calls.call_variants import RIGHT
from dashboard.calls.cut_bar import CutBar
from dashboard.calls.stages import WIRE
from dashboard.evidence.argument_labels import show_label
from dashboard.evidence.call_evidence import CallEvidence
from dashboard.evidence.fidelity import describe_seen_lines
from dashboard.models import Call, Observation, Project, Run
from dashboard.models.runs import step_url
from dashboard.models.sources import SourceSlice, load_lines
from dashboard.runs.receipt_presence import ReceiptPresence, load_presence
from dashboard.runs.replay import ReplayTotals
from dashboard.runs.waterfall import describe_answer
from dashboard.text.chart_markup import Chart, ChartSeries
from dashboard.text.params import Params
from dashboard.text.text_markup import TextChunk, text_chunk
from dashboard.workspace.context import ContextTab, load_context
from dashboard.workspace.steps import (
    TABS,
    WHOLE_RUN_TABS,
    RunPosition,
    StepLink,
    StepList,
    Tab,
    build_run_tabs,
    build_tabs,
    load_place,
    load_step_list,
    shown_tab,
)
from envelopes.transports import TRANSPORTS

WITHOUT_HALVES = ("context", "raw")  # tabs
RAW_CHARS = 16 * 1024  # of a line, on the page
PLOTTED = 60  # calls of a plot, evenly spaced; the table below it has every call


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
    """`label` is what was asked, in a line, `answer` what came back, as its row has it.

    `seen` says which lines or bytes the model got of an output that was cut.
    `steps` is None where only the open step is asked for. `context` and `raw` belong to their tabs. `run_url` is the
    form of the tab for the whole run, empty where it has none.
    """

    place: RunPosition
    tab: Tab
    tabs: tuple[StepLink, ...]
    call: CallPage
    label: str
    answer: str
    seen: str
    presence: ReceiptPresence | None
    steps: StepList | None
    context: ContextTab | None
    raw: tuple[RawLine, ...]
    run_url: str

    @property
    def has_lines(self) -> bool:
        """True for the form of Both halves that lays them out line by line."""
        return self.tab == "halves" and self.call.lines is not None

    @property
    def cut(self) -> CutBar | None:
        """The cut that the head draws: one that leads to what was not seen, or can be drawn, before any other."""
        cuts = [bar for bar in self.call.cuts if bar.is_cut]
        return max(cuts, key=lambda bar: (bar.has_key, bool(bar.stretches)), default=None)


def load_workspace(
    project: Project, call: Call, place: RunPosition, tab: str, query: QueryDict, *, with_steps: bool
) -> WorkspacePage:
    shown = shown_tab(tab, query)
    if shown == "wire" and not query.get("right", "").startswith(WIRE):
        query = query.copy()
        query["right"] = WIRE + TRANSPORTS[0].name
    page = load_call_page(project, call, place.run, query, with_halves=shown not in WITHOUT_HALVES)
    receipt = page.receipt_row if shown == "halves" else None
    preview = page.evidence.halves.preview
    size = next((bar.size for bar in page.cuts if bar.size), "")
    return WorkspacePage(
        place=place,
        tab=shown,
        tabs=build_tabs(place, shown, query) if place.position else (),
        call=page,
        label=show_label(call.asked, call.run.cwd),
        answer=describe_answer(call, call.run.cwd),
        seen=(size or describe_seen_lines(call)) if call.is_cut else "",
        presence=load_presence(page.other_run or place.run, receipt, preview) if receipt else None,
        steps=load_step_list(place.run, place, shown, query) if with_steps and place.position else None,
        context=load_context(place, query.get("before", "")) if shown == "context" else None,
        raw=_build_raw_lines(page.evidence) if shown == "raw" else (),
        run_url=_whole_run_url(place, shown, query) if place.position and shown in WHOLE_RUN_TABS else "",
    )


def _whole_run_url(place: RunPosition, tab: str, query: QueryDict) -> str:
    """The history opens at the line of the step, the replay with the variant that is open."""
    params = {"position": str(place.position)}
    right = query.get("right", "")
    if tab == "context":
        params["after"] = f"{place.line}-0-{'0' * 32}"
    elif right.startswith(RIGHT):
        params["with"] = right.removeprefix(RIGHT)
    return f"{reverse(f'run-{tab}', args=[place.run.pk])}?{urlencode(params)}"


@dataclass(frozen=True, kw_only=True)
class WholeRunPage:
    """The form of a tab for a whole run. `place` is the step that `position` names, which `step_url` leads back to.

    Without one `step_url` is the last step, and empty in a run without calls.
    """

    run: Run
    tab: str
    tabs: tuple[StepLink, ...]
    place: RunPosition | None
    steps: StepList | None
    step_url: str

    @property
    def step_words(self) -> str:
        return f"call {self.place.position:,}" if self.place else "the last call"


def load_whole_run(run: Run, tab: str, query: QueryDict, *, with_steps: bool) -> WholeRunPage:
    """The list beside it leads to steps in the same tab, or in Both halves where steps have none of that name."""
    step_tab = tab if tab in TABS else "halves"
    position = Params(query).integer("position", default=0)
    place = load_place(run, position, step_tab, query) if position else None
    last = place.position if place else run.members.count()
    return WholeRunPage(
        run=run,
        tab=tab,
        tabs=build_run_tabs(run, tab, query),
        place=place,
        steps=load_step_list(run, place, step_tab, query, is_whole=True) if with_steps else None,
        step_url=step_url(run.pk, last, step_tab) if last else "",
    )


def build_replay_chart(run: Run, name: str, totals: ReplayTotals) -> Chart:
    """The tokens of the history after each call, as recorded and under the variant `name`, and the limit."""
    step = -(-len(totals.calls) // PLOTTED) or 1
    numbers = sorted({*range(0, len(totals.calls), step), *([len(totals.calls) - 1] if totals.calls else [])})
    calls = [totals.calls[number] for number in numbers]
    return Chart(
        id="replay",
        title="Tokens of the history after each call",
        head="Call",
        labels=[f"{number + 1:,}" for number in numbers],
        kind="line",
        series=[
            ChartSeries(name="as recorded", ink="baseline", values=[call.before_running for call in calls]),
            ChartSeries(name=name, ink="accent", values=[call.after_running for call in calls]),
            ChartSeries(name="limit", ink="cut", values=[totals.limit for _ in calls]),
        ],
        urls=[step_url(run.pk, number + 1, "replay") for number in numbers],
        note="" if step == 1 else f"One call in {step:,} is drawn; the table below has all.",
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
