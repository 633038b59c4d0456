"""Reads a run as steps for used-line recall, and scores receipts of its outputs: cuts and variants at each budget.

Messages, arguments and receipts stand in the order of their lines; what a rewind left is not read. The output of a
call is its recorded receipt, which is the complete output because receipts that were cut are not scored. Where the
model polled a command, its receipts are one output, which is complete with the last of them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from dashboard.evidence.call_inputs import load_call_inputs
from dashboard.evidence.context_changes import WHOLE
from dashboard.models import Event, Message, Observation, RecordedReceipt, Run, load_slices
from dashboard.models.sources import SourceSlice
from dashboard.runs.run_marks import load_branches, outermost
from dashboard.variants.variant_list import VariantColumn
from envelopes.alignment.receipt_parts import parse_parts
from envelopes.pipeline.render import render
from envelopes.recall import (
    BASELINES,
    BaselineQuery,
    ItemUse,
    OutputPiece,
    RunStep,
    StepKind,
    UsedItem,
    collect_strings,
    keeps,
    pick_pieces,
    split_pieces,
    walk,
)
from envelopes.recordings.base import CLIENT_MESSAGES
from envelopes.schema.budget import RECEIPT_CHARACTERS
from envelopes.text.tokens import CHARACTERS_PER_TOKEN
from envelopes.text.untrusted_json import Untrusted, parse_json

BUDGETS = (256, 1_000, 4_000)  # tokens, of CHARACTERS_PER_TOKEN characters each
MOST_BYTES = 40_000_000  # of a run's texts; a longer run is left out, and counted
# Lists of names are quoted by chance, and echoes repeat what the model wrote. Names in lower case.
NAME_LISTS = frozenset({"glob", "ls", "list_directory"})
ECHOES = frozenset({"edit", "write", "multiedit", "notebookedit", "todowrite", "replace", "write_file", "apply_patch"})
UNKNOWN_REQUESTS = -1
Output: TypeAlias = Sequence[RecordedReceipt]  # of one call; more than one where the model polled it


class RunTooLong(ValueError):
    """The texts of a run pass MOST_BYTES."""


class StepPlace(msgspec.Struct, frozen=True, array_like=True, order=True):
    """The row of a step: a message, or a call for its arguments and its receipt; `line` is the one of the source."""

    kind: str
    key: UUID
    line: int


class RecallScore(msgspec.Struct, frozen=True, array_like=True):
    """The size in characters of a receipt, and a bit for each item that it keeps."""

    characters: int
    kept: int


class ReceiptShape(msgspec.Struct, frozen=True, array_like=True):
    """The lines of a call's recorded receipt, as lengths, and how many later requests carried it.

    `requests` end at the first compaction, clear or replacement; UNKNOWN_REQUESTS where the run has no usage. Quoted
    lines are looked for only in those that are scored.
    """

    call: bytes
    run: bytes
    tool: str
    tokens: int
    lengths: bytes  # unsigned integers of 4 bytes: characters of each line
    requests: int
    is_scored: bool = False

    @property
    def line_lengths(self) -> array[int]:
        return array("I", self.lengths)


@dataclass(frozen=True, kw_only=True)
class RunSteps:
    """`not_scored` counts the selected calls that are left out, by reason."""

    run: Run
    steps: Sequence[RunStep]
    places: Sequence[StepPlace]
    tools: Mapping[UUID, str]
    shapes: Sequence[ReceiptShape]
    not_scored: Counter[str] = field(default_factory=Counter)

    @property
    def uses(self) -> list[ItemUse]:
        return list(walk(self.steps, cwd=self.run.cwd))

    def pieces(self, output: int) -> list[OutputPiece]:
        return split_pieces(self.steps[output].text, self.run.cwd)

    def query(self, output: int) -> str:
        """The call's arguments and the last message of the user before it."""
        key = self.places[output].key
        before = range(output - 1, -1, -1)
        args = (
            self.steps[index].text
            for index in before
            if self.steps[index].kind == "call" and self.places[index].key == key
        )
        messages = (self.steps[index].text for index in before if self.steps[index].kind == "user")
        return f"{next(args, '')}\n{next(messages, '')}"


def load_steps(run: Run, selected: Collection[UUID]) -> RunSteps:
    """`selected` are the calls that may be scored. Raises RunTooLong, and DamagedEvidence of lost bytes."""
    branches = outermost(load_branches(run))
    # What the client added beside the messages is no use of an output, even where it repeats one.
    messages = list(run.messages.filter(kind__in=("", *CLIENT_MESSAGES)).exclude(delivery=Message.Delivery.WITHHELD))
    arguments = list(Observation.objects.filter(surface="args", selected=True, call__memberships__run=run))
    outputs = load_outputs(run)
    recorded = [receipt.observation for output in outputs for receipt in output if receipt.observation is not None]
    slices: list[SourceSlice] = [*messages, *arguments, *recorded]
    if sum(row.size for row in slices) > MOST_BYTES:
        raise RunTooLong
    load_slices(slices)
    members = {
        call: (line, inherited) for call, line, inherited in run.members.values_list("call_id", "ordinal", "inherited")
    }
    rows: list[tuple[int, int, str, StepPlace, RunStep]] = []
    not_scored: Counter[str] = Counter()
    for message in messages:
        kind: StepKind = "assistant" if message.role == "assistant" else "user"
        step = RunStep(kind, message.pk.hex, read_text(message.data))
        rows.append((message.line, 0, step.key, StepPlace("message", message.pk, message.line), step))
    for row in arguments:
        line = members[row.call_id][0]
        step = RunStep("call", row.call_id.hex, "\n".join(collect_strings(_parse(row.data))))
        rows.append((line, 1, step.key, StepPlace("call", row.call_id, line), step))
    for output in outputs:
        receipt, text = output[-1], join_texts(output)
        is_own = receipt.call_id in selected and not members.get(receipt.call_id, (0, True))[1]
        reason = _find_reason(output, text) if is_own else ""
        if reason:
            not_scored[reason] += 1
        step = RunStep("output", receipt.call_id.hex, text, is_own and not reason)
        rows.append((receipt.line, 2, step.key, StepPlace("receipt", receipt.call_id, receipt.line), step))
    rows = sorted(row for row in rows if not any(branch.has(row[0]) for branch in branches))
    texts = {place.key: step.text for *_, place, step in rows if step.kind == "output"}
    own = [output for output in outputs if output[0].call_id in selected and not members[output[0].call_id][1]]
    return RunSteps(
        run=run,
        steps=[row[4] for row in rows],
        places=[row[3] for row in rows],
        tools={output[0].call_id: output[0].call.tool for output in outputs},
        shapes=list(_build_shapes(run, [output for output in own if output[0].call_id in texts], texts)),
        not_scored=not_scored,
    )


def load_outputs(run: Run | UUID, **calls: Any) -> list[Output]:
    """The first receipt of each call, with those that the model got behind it and had beside it."""
    rows = RecordedReceipt.objects.filter(run=run, observation__isnull=False, **calls)
    outputs: dict[UUID, list[RecordedReceipt]] = defaultdict(list)
    for receipt in rows.select_related("observation", "call").order_by("seq"):
        output = outputs[receipt.call_id]
        end = output[0].superseded_line if output else None
        if not output or (receipt.superseded_line == end and (end is None or receipt.line < end)):
            output.append(receipt)
    return list(outputs.values())


def join_texts(output: Output) -> str:
    return "\n".join(read_text(receipt.observation.data) for receipt in output if receipt.observation is not None)


def read_text(content: bytes) -> str:
    """The texts of a message or a receipt; reasoning and images are other parts."""
    return "\n".join(part for part in parse_parts(_parse(content)) if isinstance(part, str))


def _parse(raw: bytes) -> Any:
    try:
        return parse_json(raw)
    except Untrusted:
        return ""


def _find_reason(output: Output, text: str) -> str:
    """The reason why an output is not scored, empty where it is."""
    call = output[0].call
    tool = call.tool.lower()
    if not text.strip():
        return "no text"
    if tool in NAME_LISTS or tool in ECHOES:
        return "a list of names" if tool in NAME_LISTS else "an echo of its arguments"
    if any(receipt.author for receipt in output):
        return "rewritten by a hook"
    is_cut = output[0].is_cut if len(output) == 1 else call.is_cut
    return "the recorded receipt was cut" if is_cut else ""


def _build_shapes(run: Run, outputs: Iterable[Output], texts: Mapping[UUID, str]) -> Iterator[ReceiptShape]:
    requests = sorted(run.requests.filter(origin="message").values_list("line", flat=True))
    ends = sorted(Event.objects.filter(run=run, kind__in=WHOLE).values_list("line", flat=True))
    for output in outputs:
        last, receipt = len(requests), output[-1]
        for end in (*ends, receipt.superseded_line):
            if end is not None and end > receipt.line:
                last = min(last, bisect_left(requests, end))
        carried = max(0, last - bisect_right(requests, receipt.line)) if requests else UNKNOWN_REQUESTS
        text, tool = texts[receipt.call_id], receipt.call.tool
        lengths = array("I", [len(line) for line in text.split("\n")]).tobytes()
        is_scored, tokens = not _find_reason(output, text), sum(part.tokens for part in output)
        yield ReceiptShape(receipt.call_id.bytes, run.pk.bytes, tool, tokens, lengths, carried, is_scored)


class ScoreInput(NamedTuple):
    """An output with items, and what its cuts depend on."""

    call: UUID
    pieces: Sequence[OutputPiece]
    query: BaselineQuery
    items: Sequence[UsedItem]
    cwd: str

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    def budgets(self) -> tuple[int, ...]:
        """The budgets, in tokens, that the output passes."""
        return tuple(budget for budget in BUDGETS if self.size > budget * CHARACTERS_PER_TOKEN)


def score_baselines(subject: ScoreInput, budget: int) -> Iterator[tuple[str, RecallScore]]:
    for baseline in BASELINES:
        kept = pick_pieces(subject.pieces, baseline, budget * CHARACTERS_PER_TOKEN, subject.query)
        bits = (bool(kept.intersection(item.carriers)) << number for number, item in enumerate(subject.items))
        yield baseline, RecallScore(sum(subject.pieces[index].size for index in kept), sum(bits))


def score_variants(
    subjects: Sequence[ScoreInput], columns: Sequence[VariantColumn], *, on_receipt: Callable[[], None]
) -> Iterator[tuple[UUID, int, str, RecallScore]]:
    """The call, the budget, the variant and its score; nothing where a family lacks the variant, or it fails.

    `on_receipt` is called before each receipt, which may take a process of its own.
    """
    by_call = {subject.call: subject for subject in subjects}
    for call in load_call_inputs(list(by_call), with_recorded=False):
        subject = by_call[call.key]
        for column in columns:
            variant = column.variants.get(call.family.name)
            if variant is None:
                continue
            for budget in subject.budgets():
                on_receipt()
                limit = min(budget * CHARACTERS_PER_TOKEN, RECEIPT_CHARACTERS)
                policy = msgspec.structs.replace(variant.policy, characters=limit)
                try:
                    text = render(call.canonical, call.family, policy, variant=variant).text
                except Exception:  # noqa: S112 - a variant may be anybody's: the page counts the calls of each column
                    continue
                carriers = [[subject.pieces[index] for index in item.carriers] for item in subject.items]
                bits = (keeps(text, places, cwd=subject.cwd) << number for number, places in enumerate(carriers))
                yield call.key, budget, column.name, RecallScore(len(text), sum(bits))
