"""Derives a call's columns, projection and artifacts from its evidence, and a run's counts from its calls' columns.

All of it can be computed again at any time. The counts, the outcome strip and the facets of a run read no payload:

store_stats(run, rows)       a run whose calls are all in memory
refresh_stats(run)           a stored run: its calls' metadata is read again
refresh_related(calls, ...)  other runs that list these calls: a fork whose copy was answered later
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from django.db.models import Q

from dashboard.ingest.bulk import bulk_insert, unsaved_row
from dashboard.models import Artifact, Call, CanonicalProjection, Observation, RecordedReceipt, Run, RunCall, RunFacet
from dashboard.models.runs import Outcome, decide_outcome, derive_id
from dashboard.text.formatting import column_int, column_text, milliseconds_between
from envelopes.families.registry import family
from envelopes.halves import Halves, read_halves
from envelopes.schema.result import ArtifactRef, JsonValue
from envelopes.text.pointer import join, text_at
from envelopes.text.untrusted_json import dump_json, parse_json

ASKING_TOOLS = frozenset({"AskUserQuestion", "ExitPlanMode", "EnterPlanMode", "exit_plan_mode"})
REFUSED_KINDS = frozenset({"write_denied"})
ARTIFACT_CHARACTERS = 8_000  # a longer output gets a page of its own
STRIP_LETTERS = 120
SEVERITY = "oswuckirtex"  # letters of a strip; in a long run each stands for many calls and shows the worst of them
STOPPED: dict[str, str] = {
    Outcome.UNANSWERED: "u",
    Outcome.SKIPPED: "s",
    Outcome.CANCELLED: "k",
    Outcome.INTERRUPTED: "i",
    Outcome.REFUSED: "r",
    Outcome.TIMED_OUT: "t",
}


class VirtualSink:
    """Gives what a projector cut a virtual path by role. The observation already contains the text itself."""

    def __init__(self, call: UUID) -> None:
        self._call = call
        self.texts: list[tuple[str, str, str]] = []  # role, path, text

    def write(self, role: str, text: str) -> ArtifactRef:
        path = f"calls/{self._call}/{role}.txt"
        self.texts.append((role, path, text))
        return ArtifactRef(path)


class DerivedReceipt(NamedTuple):
    """A receipt's text and the columns that follow from it and from the call's other evidence."""

    text: str
    columns: dict[str, Any]


@dataclass
class Derived:
    """Everything that follows from one call's evidence. The tokens of the receipts are counted for a whole batch."""

    columns: dict[str, Any]
    projection: CanonicalProjection
    artifacts: list[Artifact] = field(default_factory=list)
    receipts: dict[UUID, DerivedReceipt] = field(default_factory=dict)  # by observation; the call's own one is first
    note: str = ""  # the part of the evidence that no mapping could read, and that is shown only as recorded
    subject: Observation | None = None  # the observation that the projection is of

    @property
    def texts(self) -> list[str]:
        """The texts whose tokens are counted; an empty one for a call without a receipt."""
        return [receipt.text for receipt in self.receipts.values()] or [""]


def derive(call: Call, observations: dict[str, Observation], others: Iterable[Observation] = ()) -> Derived:
    """`observations` has the selected one of each surface, `others` are the call's receipts beside the selected one.

    Never raises on odd evidence.
    """
    sink = VirtualSink(call.pk)
    result, receipt = observations.get("result"), observations.get("receipt")
    halves = _read_halves(call, observations, sink)
    subject = result or receipt or observations.get("args")
    receipts = {receipt.pk: _derive_receipt(halves, observations)} if receipt else {}
    for other in others:
        replaced = observations | {"receipt": other}
        receipts[other.pk] = _derive_receipt(_read_halves(call, replaced, VirtualSink(call.pk)), replaced)
    own = receipts[receipt.pk] if receipt else DerivedReceipt("", _receipt_columns(halves, observations, ""))
    return Derived(
        columns=_columns(call, halves, observations, own),
        projection=_projection(call, halves, subject),
        artifacts=[] if result is None else _artifacts(call, halves, result, sink),
        receipts=receipts,
        note=halves.note,
        subject=subject,
    )


def _read_halves(call: Call, observations: dict[str, Observation], sink: VirtualSink) -> Halves:
    args, result, receipt = (observations.get(surface) for surface in ("args", "result", "receipt"))
    return read_halves(
        agent=call.namespace,
        tool=call.tool,
        args=bytes(args.data) if args else b"null",
        result=bytes(result.data) if result else None,
        content=bytes(receipt.data) if receipt else None,
        is_error=call.source_error,
        sink=sink,
        is_linked=False,
    )


def _derive_receipt(halves: Halves, observations: dict[str, Observation]) -> DerivedReceipt:
    text = halves.receipt.text if halves.receipt else ""
    return DerivedReceipt(text, _receipt_columns(halves, observations, text))


def _receipt_columns(halves: Halves, observations: dict[str, Observation], text: str) -> dict[str, Any]:
    total = sum(output.complete.total for output in halves.outputs)
    # Without a receipt nothing was seen and nothing was cut: the call is unanswered, or its receipt was not recorded.
    seen = sum(output.complete.shown_count for output in halves.outputs) if halves.receipt else 0
    is_bounded = _result_fidelity(halves, observations) == "bounded"
    is_inflated = "receipt" in observations and observations["receipt"].fidelity == "inflated"
    return {
        "characters": len(text),
        "lines": text.count("\n") + 1 if text else 0,
        "output_lines": total,
        "seen_lines": seen,
        # An output of which the source recorded only a part was cut, even when the receipt has all of that.
        # The log of an inflated receipt holds more than the model got.
        "is_cut": halves.is_cut or (halves.receipt is not None and (is_bounded or is_inflated)),
    }


def _columns(
    call: Call, halves: Halves, observations: dict[str, Observation], receipt: DerivedReceipt
) -> dict[str, Any]:
    canonical = halves.projection.canonical
    members = canonical.result if isinstance(canonical.result, dict) else {}
    is_answered = "result" in observations or "receipt" in observations or call.source_error is not None
    error = canonical.error
    own = receipt.columns
    exit_status = column_int(members.get("exit_status"))
    status = canonical.status if is_answered else Call.Status.UNKNOWN
    error_kind = column_text(error.kind, 100) if error and is_answered else ""
    return {
        "family": halves.family,
        "status": status,
        "outcome": decide_outcome(
            status=status,
            error_kind=error_kind,
            exit_status=exit_status,
            source_error=call.source_error,
            recorded_end=_recorded_end(observations.get("timing")),
            is_exit_an_answer=bool(exit_status and members.get("interpretation")),
            is_interrupted=members.get("interrupted") is True,
        ),
        "summary": column_text(canonical.summary_text, 200),
        "error_kind": error_kind,
        "retryable": error.retryable if error and is_answered else None,
        "exit_status": exit_status if exit_status is not None and abs(exit_status) < 2**31 else None,
        "is_waiting": call.tool in ASKING_TOOLS or bool(error and error.kind in REFUSED_KINDS),
        "args_bytes": observations["args"].size if "args" in observations else 0,
        "result_bytes": observations["result"].size if "result" in observations else 0,
        "result_fidelity": _result_fidelity(halves, observations),
        "receipt_fidelity": observations["receipt"].fidelity if "receipt" in observations else "absent",
        "receipt_characters": own["characters"],
        "receipt_lines": own["lines"],
        **{name: own[name] for name in ("output_lines", "seen_lines", "is_cut")},
    }


def _recorded_end(settlement: Observation | None) -> str:
    """The status word in the rest of a recorded settlement."""
    recorded = parse_json(bytes(settlement.data)) if settlement else None
    word = recorded.get("status") if isinstance(recorded, dict) else None
    return word if isinstance(word, str) else ""


def _result_fidelity(halves: Halves, observations: dict[str, Observation]) -> str:
    if "result" in observations:
        own = observations["result"].fidelity
        return halves.reading.fidelity if own == "structured" or halves.reading.fidelity == "bounded" else own
    return "parsed_from_receipt" if halves.reading.fidelity == "parsed_from_receipt" else "absent"


def _projection(call: Call, halves: Halves, observation: Observation | None) -> CanonicalProjection:
    policy = family(halves.family).projection.fingerprint
    data = dump_json(halves.projection.canonical.to_json())
    subject = observation.pk.bytes if observation else b""
    return unsaved_row(
        CanonicalProjection,
        id=derive_id("projection", call.pk.bytes, subject, halves.mapping, policy, hashlib.sha256(data).digest()),
        call_id=call.pk,
        observation_id=observation.pk if observation else None,
        mapping=halves.mapping,
        policy=policy,
        data=data,
        cuts=msgspec.json.encode(halves.projection.cuts),
        size=len(data),
    )


def _artifacts(call: Call, halves: Halves, result: Observation, sink: VirtualSink) -> list[Artifact]:
    """An artifact for every large output field, and for every field that the projection cut."""
    evidence = halves.evidence.result
    cut_texts = {text: (role, path) for role, path, text in sink.texts}
    pointers = [output.field.pointer for output in halves.outputs]
    for text in cut_texts:
        pointer = _find_text(evidence, text)
        if pointer is not None and pointer not in pointers:
            pointers.append(pointer)
    artifacts: list[Artifact] = []
    for pointer in pointers:
        text = text_at(evidence, pointer) or ""
        if text not in cut_texts and len(text) <= ARTIFACT_CHARACTERS:
            continue
        name = next((token for token in reversed(pointer.split("/")) if token and not token.isdigit()), "output")
        role, path = cut_texts.get(text) or (name, f"calls/{call.pk}/{name}.txt")
        artifacts.append(_field_artifact(call, result, pointer, role, path, text, ordinal=len(artifacts)))
    return artifacts


def _field_artifact(
    call: Call, result: Observation, pointer: str, role: str, path: str, text: str, *, ordinal: int
) -> Artifact:
    raw = text.encode("utf-8", "surrogatepass")
    return unsaved_row(
        Artifact,
        id=derive_id("artifact", call.pk.bytes, "field", result.sha256, pointer),
        project_id=call.project_id,
        call_id=call.pk,
        ordinal=ordinal,
        role=column_text(role, 64),
        path=path,
        observation_id=result.pk,
        pointer=column_text(pointer, 500),
        sha256=hashlib.sha256(raw).hexdigest(),
        size=len(raw),
        lines=text.count("\n") + (0 if text.endswith("\n") or not text else 1),
    )


def _find_text(document: JsonValue, text: str, pointer: str = "") -> str | None:
    """The pointer of exactly this string in the recorded result, of the first of several."""
    if isinstance(document, str):
        return pointer if document == text else None
    items: Any = ()
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
    matches = (_find_text(child, text, join(pointer, key)) for key, child in items)
    return next((match for match in matches if match is not None), None)


class CallKind(NamedTuple):
    """The columns that count. A run of thousands of calls has some dozens of kinds, so each is judged once."""

    inherited: bool
    tool: str
    family: str
    status: str
    outcome: str
    source_error: bool | None
    exit_status: int | None
    is_cut: bool
    is_waiting: bool
    is_disagreeing: bool
    attempt: int
    origin: str
    token_certainty: str

    @property
    def has_failed(self) -> bool:
        return self.outcome in (Outcome.FAILED, Outcome.TIMED_OUT)


STAT_COLUMNS = (*CallKind._fields[1:], "tokens", "receipt_characters")
RECEIPT_COLUMNS = [1 + STAT_COLUMNS.index(name) for name in ("is_cut", "tokens", "receipt_characters")]
stat_columns: Callable[[Call], tuple[Any, ...]] = attrgetter(*STAT_COLUMNS)


class RunStats(NamedTuple):
    """Columns of the run, and how many calls each facet (kind, value) has."""

    columns: dict[str, Any]
    facets: Counter[tuple[str, str]]


def store_stats(run: Run, rows: Iterable[tuple[Any, ...]]) -> None:
    _save(run, compute_stats(run, rows), stored_facets={})


def refresh_stats(run: Run) -> None:
    _save(run, _load_stats(run), stored_facets=_facets_by_key(run))


def refresh_related(calls: Collection[UUID], detached: Collection[UUID], *, but: Collection[UUID]) -> None:
    """Refreshes the runs that list these calls and those in `detached`, which listed one before, except `but`.

    A run whose counts do not change is not written, and its revision stays.
    """
    if not calls:
        return
    lists_one = Q(pk__in=RunCall.objects.filter(call__in=calls).values("run"))
    related = lists_one | Q(pk__in=detached) if detached else lists_one
    for run in Run.objects.select_for_update().filter(related).exclude(pk__in=but):
        stats = _load_stats(run)
        if any(getattr(run, column) != value for column, value in stats.columns.items()):
            run.revision += 1
            _save(run, stats, stored_facets=_facets_by_key(run))


def _load_stats(run: Run) -> RunStats:
    """Reads plain values instead of instances: every batch of a growing run repeats this."""
    members = RunCall.objects.filter(run=run).order_by("ordinal", "id")
    rows: Any = members.values_list("call_id", "inherited", *(f"call__{column}" for column in STAT_COLUMNS))
    copies = RecordedReceipt.objects.shown_in(run)
    return compute_stats(run, (_as_in_run(columns, copies.get(key)) for key, *columns in rows.iterator(2_000)))


def _as_in_run(columns: list[Any], receipt: RecordedReceipt | None) -> tuple[Any, ...]:
    """The columns of a call, those of its receipt as this run has it; None where they are the call's own."""
    if receipt is not None:
        columns[RECEIPT_COLUMNS[0]] = receipt.is_cut
        columns[RECEIPT_COLUMNS[1]], columns[RECEIPT_COLUMNS[2]] = receipt.tokens, receipt.characters
    return tuple(columns)


def _facets_by_key(run: Run) -> dict[tuple[str, str], RunFacet]:
    return {(facet.kind, facet.value): facet for facet in run.facets.all()}


def _save(run: Run, stats: RunStats, *, stored_facets: dict[tuple[str, str], RunFacet]) -> None:
    """Writes the run. Of its facets, only those that changed are replaced or deleted."""
    for column, value in stats.columns.items():
        setattr(run, column, value)
    run.duration_ms = milliseconds_between(run.started_at, run.ended_at or run.last_at) or 0
    run.save(force_update=True)
    unchanged = {
        key
        for key, facet in stored_facets.items()
        if key in stats.facets and (facet.count, facet.sort_at) == (stats.facets[key], run.sort_at)
    }
    if changed := stored_facets.keys() - unchanged:
        RunFacet.objects.filter(pk__in=[stored_facets[key].pk for key in changed]).delete()
    new_facets = [
        unsaved_row(
            RunFacet,
            run_id=run.pk,
            project_id=run.project_id,
            kind=kind,
            value=value,
            sort_at=run.sort_at,
            count=count,
        )
        for (kind, value), count in stats.facets.items()
        if (kind, value) not in unchanged
    ]
    bulk_insert(RunFacet, new_facets)


def compute_stats(run: Run, rows: Iterable[tuple[Any, ...]]) -> RunStats:
    """`rows` are `inherited` and STAT_COLUMNS of each call in run order; they are read once, as there may be many.

    An inherited call counts as an own call only in the run that it comes from.
    """
    amounts = {"token_count": 0, "receipt_characters": 0}
    letters: list[str] = []
    letter_by_key: dict[tuple[Any, ...], str] = {}
    counts: Counter[tuple[Any, ...]] = Counter()
    for *columns, tokens, characters in rows:
        key = tuple(columns)
        counts[key] += 1
        letters.append(letter_by_key.get(key) or letter_by_key.setdefault(key, outcome_letter(CallKind(*key))))
        amounts["token_count"] += tokens
        amounts["receipt_characters"] += characters
    kinds = [(CallKind(*key), count) for key, count in counts.items()]
    is_exact = bool(kinds) and all(kind.token_certainty == "exact" for kind, _ in kinds)
    certainty = "exact" if is_exact else "estimate"
    derived = {**_sum_kinds(kinds), **amounts, "token_certainty": certainty, "strip": build_strip(letters)}
    return RunStats(derived, _count_facets(run, kinds))


def _sum_kinds(kinds: Sequence[tuple[CallKind, int]]) -> dict[str, int]:
    def total(holds: Callable[[CallKind], bool]) -> int:
        return sum(count for kind, count in kinds if holds(kind))

    return {
        "call_count": sum(count for _, count in kinds),
        "own_call_count": total(lambda kind: not kind.inherited and kind.origin == "message"),
        "progress_call_count": total(lambda kind: kind.origin == "progress"),
        "failed_count": total(lambda kind: kind.has_failed),
        "refused_count": total(lambda kind: kind.outcome == Outcome.REFUSED),
        "cut_count": total(lambda kind: kind.is_cut),
        "unanswered_count": total(lambda kind: kind.status == Call.Status.UNKNOWN),
    }


def outcome_letter(call: Call | CallKind) -> str:
    """o succeeded, c cut, w waited for a person, e failed, x failed and cut, and the first of STOPPED otherwise."""
    if call.outcome in STOPPED:
        return STOPPED[call.outcome]
    if call.has_failed:
        return "x" if call.is_cut else "e"
    if call.is_cut:
        return "c"
    return "w" if call.is_waiting else "o"


def halves_disagree(call: Call | CallKind) -> bool:
    """True when the source flagged a failure that did not happen, or did not flag one that did.

    A source without an error flag cannot disagree. A command that exits with 1 has failed in both halves.
    """
    if call.source_error is None or call.status == Call.Status.UNKNOWN:
        return False
    return call.source_error != (call.status == Call.Status.ERROR or bool(call.exit_status))


def build_strip(letters: Sequence[str]) -> str:
    """One letter a call. A longer run has 120 letters, each the worst of an equal share of the calls."""
    if len(letters) <= STRIP_LETTERS:
        return "".join(letters)
    edges = [index * len(letters) // STRIP_LETTERS for index in range(STRIP_LETTERS + 1)]
    shares = [letters[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    return "".join(max(share, key=SEVERITY.index) for share in shares)


def _count_facets(run: Run, kinds: Sequence[tuple[CallKind, int]]) -> Counter[tuple[str, str]]:
    run_facets = (("agent", run.agent), ("source", run.source_format), ("model", run.model))
    facets = Counter({(kind, value): 1 for kind, value in run_facets if value})
    facets["state", "child" if run.parent_id else "top"] = 1
    if run.drop_count:
        facets["context", "uncertain"] = run.drop_count
    for call, count in kinds:
        states = {
            "failed": call.has_failed,
            "cut": call.is_cut,
            "unanswered": call.status == Call.Status.UNKNOWN,
            "retried": call.attempt > 1,
            "halves": halves_disagree(call),
            "disagree": call.is_disagreeing,
        }
        facets["outcome", call.outcome] += count
        facets["tool", column_text(call.tool, 200)] += count
        facets["family", call.family] += count
        facets.update({("state", state): count for state, holds in states.items() if holds})
    return facets
