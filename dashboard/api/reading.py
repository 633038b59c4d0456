"""Runs, calls, halves, context, artifacts and experiments as data for programs; the same for the API and for MCP.

Every answer is bounded: a list has a cursor (`next`), a text is a window with the character where the next one begins.
Text is masked by the rules of the project before it is cut. The structs are in `answers`.

Of a call that waits to be derived, a list has what was recorded and a note, and what is asked of the call itself is
computed; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs
from uuid import UUID

from django.db.models import Count
from django.http import Http404, QueryDict

from dashboard.api.answers import (
    ArtifactItem,
    ArtifactText,
    CallHalves,
    CallItem,
    ContextItem,
    ExperimentItem,
    ItemPage,
    OutputGaps,
    RenderedVariant,
    RunItem,
    StepContext,
    TextWindow,
)
from dashboard.artifacts.content import NoContent, open_content
from dashboard.calls.call_table import CallTableParams, load_call_table
from dashboard.calls.cut_bar import describe_source_cuts
from dashboard.evidence.call_evidence import CallEvidence, load_evidence
from dashboard.ingest.compute_derived import count_calls
from dashboard.models import Artifact, Call, Comparison, Project, Run
from dashboard.models.outcomes import NOT_COUNTED
from dashboard.runs.run_list import RunListParams, build_run_list, describe_waiting
from dashboard.text.masks import mask_around, mask_text
from dashboard.text.params import Params, UnusableAddress
from dashboard.variants.render_call import CannotRender, RenderFailed, render_call
from dashboard.workspace.context import load_context
from dashboard.workspace.steps import RunPosition, load_place
from envelopes.text.pointer import text_at

WINDOW_CHARACTERS, MOST_CHARACTERS = 20_000, 200_000
PAGE_ITEMS, MOST_ITEMS = 50, 200
MOST_ENTRIES = 50
MOST_GAPS = 200
PARTS = ("args", "canonical", "receipt")


class NotAnswered(ValueError):
    """A question that has no answer; the sentence gives its reason."""


class NoSuchStep(Http404):
    """The sentence has the position, and how many calls the run has."""


def list_runs(project: Project, query: Mapping[str, str]) -> ItemPage[RunItem]:
    """Runs that meet the filter `q`, in the order of `sort`, behind the cursor `after`."""
    own = Params(query)
    page = build_run_list(project, RunListParams.from_query(_list_query(query)), _page_size(own))
    keys = [UUID(row["id"]) for row in page.rows]
    runs = Run.objects.defer("plan", "document").in_bulk(keys)
    waiting = _count_waiting(keys) if page.waiting else {}
    notes = [describe_waiting(page.waiting) if page.waiting else "", page.unsearchable]
    return ItemPage(
        items=[describe_run(runs[key], waiting.get(key, 0)) for key in keys if key in runs],
        next=_cursor(page.next_url),
        problems=[*page.problems, *page.hints, *own.problems],
        notes=[note for note in notes if note],
    )


def _count_waiting(runs: Sequence[UUID]) -> dict[UUID, int]:
    """The calls of each run that are not counted yet, those that it copied too; runs without any are left out."""
    rows = Call.objects.waiting().filter(memberships__run__in=runs).order_by().values_list("memberships__run")
    return dict(rows.annotate(n=Count("pk")))


def list_calls(project: Project, query: Mapping[str, str]) -> ItemPage[CallItem]:
    """Calls that meet the filter `q`, in the order of `sort`, behind the cursor `after`."""
    values, own = QueryDict(mutable=True), Params(query)
    values.update(_list_query(query))
    page = load_call_table(project, CallTableParams(values), size=_page_size(own))
    keys = [UUID(row["key"]) for row in page.rows]
    calls = Call.objects.in_bulk(keys)
    return ItemPage(
        items=[describe_call(calls[key]) for key in keys if key in calls],
        next=_cursor(page.next_url),
        problems=[*page.problems, *page.hints, *own.problems],
        notes=list(page.notes),
    )


def _list_query(query: Mapping[str, str]) -> dict[str, str]:
    """A program names no saved view."""
    return {name: query[name] for name in ("q", "sort", "after") if name in query}


def _page_size(params: Params) -> int:
    return params.integer("limit", default=PAGE_ITEMS, least=1, most=MOST_ITEMS)


def _cursor(url: str) -> str | None:
    values = parse_qs(url.partition("?")[2]).get("after")
    return values[0] if values else None


def find_run(project: Project, key: UUID) -> RunItem:
    """Raises Http404."""
    run = _get_run(project, key)
    return describe_run(run, run.count_waiting())


def load_halves(project: Project, key: UUID, query: Mapping[str, str]) -> CallHalves:
    """Windows of `limit` characters from `offset` on, of the halves or of `part` alone.

    Raises Http404 and UnusableAddress.
    """
    evidence, params = _load_evidence(project, key, query), Params(query)
    part = params.choice("part", PARTS, default="")
    offset, limit = _window_params(params)

    def window(name: str, text: str) -> TextWindow:
        return cut_window(text, offset if part in ("", name) else 0, limit if part in ("", name) else 0)

    receipt, has_envelope = evidence.halves.receipt, evidence.has_canonical
    return CallHalves(
        call=describe_call(evidence.call),
        args=window("args", _decode(evidence.args)),
        canonical=window("canonical", _decode(evidence.complete_json)) if has_envelope else None,
        is_bounded=has_envelope and evidence.is_bounded,
        receipt=window("receipt", receipt.text) if receipt is not None else None,
        outputs=_output_gaps(evidence),
        left_out=describe_source_cuts(evidence.halves.reading.source_cuts),
    )


def load_halves_at(project: Project, key: UUID, position: int, query: Mapping[str, str]) -> CallHalves:
    """Those of the call at that position, from 1, of the run. Raises as `load_halves`."""
    return load_halves(project, _find_place(_get_run(project, key), position, "halves").call, query)


def _output_gaps(evidence: CallEvidence) -> list[OutputGaps]:
    gaps: list[OutputGaps] = []
    if evidence.halves.receipt is None:  # what the model got is not known
        return gaps
    for output in evidence.halves.known_outputs:
        cut, first = output.recorded, output.field.first_line
        ranges = [(start + first, end + first - 1) for start, end in cut.gaps]
        pointer = output.field.pointer
        shown = ranges[:MOST_GAPS]
        omitted = len(ranges) - len(shown)
        gaps.append(
            OutputGaps(pointer=pointer, lines=cut.total, seen_lines=cut.shown_count, unseen=shown, omitted=omitted)
        )
    return gaps


def load_unseen(project: Project, key: UUID, query: Mapping[str, str]) -> TextWindow:
    """A window of the output that the model did not see, from its first unseen line, or from `offset`, on.

    Characters are those of the recorded output at `pointer`. Raises Http404, NotAnswered and UnusableAddress.
    """
    evidence, params = _load_evidence(project, key, query), Params(query)
    if evidence.halves.receipt is None:
        raise NotAnswered("Of this call no receipt was recorded: what the model saw of its output is not known.")
    outputs = {output.field.pointer: output for output in evidence.halves.known_outputs}
    pointer = params.text("pointer", default=next(iter(outputs), ""))
    output = outputs.get(pointer)
    if output is None:
        raise NotAnswered("The call has no recorded output at this pointer that can be compared with its receipt.")
    if not output.cut.gaps:
        raise NotAnswered("No line of this output is missing from the receipt.")
    text = text_at(evidence.halves.evidence.result, pointer) or ""
    start = 0
    for _ in range(output.cut.gaps[0][0]):
        start = text.find("\n", start) + 1
    offset, limit = _window_params(params, start)
    return cut_window(text, offset, limit, pointer.rpartition("/")[2])


def load_step_context(project: Project, key: UUID, position: int) -> StepContext:
    """The context at the call of that position, from 1, in the run. Raises Http404."""
    run = _get_run(project, key)
    tab = load_context(_find_place(run, position, "context"))
    return StepContext(
        run=str(run.pk),
        position=position,
        tokens=tab.tokens,
        recorded=tab.step.weight,
        kinds={kind.label: kind.tokens for kind in tab.kinds},
        changes=list(tab.changes),
        items=[
            ContextItem(
                kind=entry.kind,
                heading=mask_text(entry.heading),
                line=entry.line,
                tokens=entry.tokens,
                notes=[note.text for note in entry.notes],
            )
            for entry in tab.entries[:MOST_ENTRIES]
        ],
        earlier=tab.earlier + max(0, len(tab.entries) - MOST_ENTRIES),
        waiting=run.count_waiting(),
    )


def list_artifacts(project: Project, query: Mapping[str, str]) -> ItemPage[ArtifactItem]:
    """Those of `call`, or all of the project in the order of their ids behind `after`.

    None for an id that cannot be read: all of them, or the first page again, would answer another question.
    """
    params = Params(query)
    call, after = params.uuid("call"), params.uuid("after")
    if params.problems:
        return ItemPage(items=[], problems=params.problems)
    waiting = project.calls.waiting().count()  # whose artifacts are not made yet
    rows = project.artifacts.order_by("pk")
    rows = rows.filter(call=call) if call else rows
    size = _page_size(params)
    rows = rows.filter(pk__gt=after) if after else rows
    found = list(rows[: size + 1])
    next_key = str(found[size - 1].pk) if len(found) > size else None
    notes = [describe_waiting(waiting)] if waiting else []
    items = [describe_artifact(row) for row in found[:size]]
    return ItemPage(items=items, next=next_key, problems=params.problems, notes=notes)


def load_artifact(project: Project, key: UUID, query: Mapping[str, str]) -> ArtifactText:
    """A window of the content. Raises Http404, UnusableAddress, and NotAnswered where there is none."""
    artifact = project.artifacts.with_call().filter(pk=key).first()
    if artifact is None:
        raise Http404
    offset, limit = _window_params(Params(query))
    try:
        with open_content(artifact) as content:
            start = min(offset, content.size)
            content.stream.seek(start)
            data = content.stream.read(limit)
            encoding = content.encoding.name or "latin-1"
    except NoContent as absent:
        raise NotAnswered(str(absent)) from None
    end = start + len(data)
    return ArtifactText(
        artifact=describe_artifact(artifact),
        text=data.decode(encoding, "replace"),
        start=start,
        end=end,
        next=end if end < content.size else None,
    )


def list_experiments(project: Project, query: Mapping[str, str]) -> ItemPage[ExperimentItem]:
    """Comparisons, the newest first, behind the cursor `after`; none behind a cursor that is no comparison."""
    params = Params(query)
    rows = project.comparisons.defer("summary").order_by("-created_at", "-pk")
    after = params.uuid("after")
    before = rows.filter(pk=after).first() if after else None
    if after and before is None:
        params.problems.append(f"after={after} is no experiment of the project")
    if params.problems:
        return ItemPage(items=[], problems=params.problems)
    if before is not None:
        rows = rows.filter(created_at__lte=before.created_at).exclude(pk=before.pk)
    size = _page_size(params)
    found = list(rows[: size + 1])
    next_key = str(found[size - 1].pk) if len(found) > size else None
    items = [describe_experiment(row) for row in found[:size]]
    return ItemPage(items=items, next=next_key, problems=params.problems)


def render_variant(project: Project, key: UUID, name: str, query: Mapping[str, str]) -> RenderedVariant:
    """Raises Http404, UnusableAddress, and NotAnswered where the variant cannot write a receipt of this call."""
    evidence = _load_evidence(project, key, {})
    offset, limit = _window_params(Params(query))
    if evidence.is_answered and not evidence.has_canonical:
        raise NotAnswered("No result of this call was recorded: there is none that a variant could write.")
    try:
        rendered = render_call(evidence, name)
    except (CannotRender, RenderFailed) as refusal:
        raise NotAnswered(str(refusal)) from None
    return RenderedVariant(
        call=str(key), variant=rendered.variant.id, text=cut_window(rendered.receipt.text, offset, limit)
    )


def cut_window(text: str, offset: int, limit: int, name: str = "") -> TextWindow:
    """The characters from `offset` on, masked before they are cut. `name` is that of a text in a document."""
    start = min(max(0, offset), len(text))
    end = min(len(text), start + limit)
    shown = mask_around(text, start, end, name)[start:end]
    return TextWindow(text=shown, start=start, end=end, total=len(text), next=end if end < len(text) else None)


def _window_params(params: Params, start: int = 0) -> tuple[int, int]:
    """`offset`, `start` unless given, and `limit`. Raises UnusableAddress for a parameter that cannot be read.

    An answer with a default would look like the window that was asked for.
    """
    limit = params.integer("limit", default=WINDOW_CHARACTERS, least=1, most=MOST_CHARACTERS)
    offset = params.integer("offset", default=start)
    if params.problems:
        raise UnusableAddress(f"{'; '.join(params.problems)}.")
    return offset, limit


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _get_run(project: Project, key: UUID) -> Run:
    run = project.runs.filter(pk=key).first()
    if run is None:
        raise Http404
    return run


def _find_place(run: Run, position: int, tab: str) -> RunPosition:
    place = load_place(run, position, tab, {})
    if place is None:
        number = run.members.count()
        raise NoSuchStep(f"No call has position {position}: the run has {number:,} call{'' if number == 1 else 's'}.")
    return place


def _load_evidence(project: Project, key: UUID, query: Mapping[str, str]) -> CallEvidence:
    """The evidence in view of a call that is counted, here where it waits. Raises Http404."""
    call: Call | None = project.calls.with_run_and_source().filter(pk=key).first()
    if call is None:
        raise Http404
    waits = not call.derivation
    count_calls([call])
    evidence = load_evidence(call, query)
    if waits and any(receipt.run_id != call.run_id for receipt in evidence.receipts):
        call.derivation = ""  # the columns are now those of another run's receipt, and nothing has counted that
    return evidence


def describe_run(run: Run, waiting: int) -> RunItem:
    return RunItem(
        run=str(run.pk),
        external_id=run.external_id,
        title=mask_text(run.title),
        agent=run.agent,
        model=run.model,
        parent=str(run.parent_id) if run.parent_id else None,
        started_at=run.started_at,
        ended_at=run.ended_at,
        calls=run.call_count,
        failed=run.failed_count,
        refused=run.refused_count,
        cut=run.cut_count,
        tokens=run.token_count,
        waiting=waiting,
        url=run.get_absolute_url(),
    )


def describe_call(call: Call) -> CallItem:
    """Without what follows from the evidence, where that waits: the defaults of its columns would be wrong claims.

    The same holds for what follows from a receipt, where none was recorded.
    """
    is_counted = bool(call.derivation)
    has_receipt = is_counted and call.has_tokens
    return CallItem(
        call=str(call.pk),
        external_id=call.external_id,
        run=str(call.run_id),
        tool=call.tool,
        family=call.family if is_counted else None,
        outcome=call.outcome if is_counted else NOT_COUNTED,
        exit_status=call.exit_status if is_counted else None,
        summary=mask_text(call.summary) if is_counted else None,
        started_at=call.started_at,
        duration_ms=call.duration_ms,
        tokens=call.tokens if has_receipt else None,
        is_cut=call.is_cut if has_receipt else None,
        output_lines=call.output_lines if is_counted else None,
        seen_lines=call.seen_lines if has_receipt else None,
        result_fidelity=call.result_fidelity if is_counted else None,
        receipt_fidelity=call.receipt_fidelity if is_counted else None,
        url=call.get_absolute_url(),
    )


def describe_artifact(artifact: Artifact) -> ArtifactItem:
    return ArtifactItem(
        artifact=str(artifact.pk),
        call=str(artifact.call_id),
        role=artifact.role,
        path=mask_text(artifact.path),
        state=artifact.state,
        sha256=artifact.sha256,
        size=artifact.size,
        lines=artifact.lines,
        url=artifact.get_absolute_url(),
    )


def describe_experiment(row: Comparison) -> ExperimentItem:
    return ExperimentItem(
        experiment=str(row.pk),
        name=row.name,
        query=row.query,
        family=row.family,
        state=row.state,
        calls=row.call_count,
        created_at=row.created_at,
        url=row.get_absolute_url(),
    )
