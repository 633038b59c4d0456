"""Runs, their calls, messages and events. Payloads of calls are in `evidence`, so that lists never load them.

Ids are derived from what a row describes, so that another import of the same lines finds the stored rows. A call is
(project, namespace, external run, external call); a namespace whose call ids are globally unique leaves the run out,
so that the call is one row across files (D-4).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, timedelta
from typing import TypeAlias
from urllib.parse import urlencode
from uuid import UUID

from django.db import models
from django.db.models import F, OrderBy, Q
from django.urls import reverse
from django.utils import timezone

from dashboard.models.call_times import CallTimes, own_time
from dashboard.models.fields import CompactUUIDField, LoadedRow, ZstdField
from dashboard.models.outcomes import NOT_COUNTED, Outcome, describe_outcome
from dashboard.models.projects import Project
from dashboard.models.sources import SourceSlice
from envelopes.recordings.base import STANDING_KINDS

IDLE_BEFORE_ASSUMED_ENDED = timedelta(minutes=15)


class Run(LoadedRow):
    id = CompactUUIDField(primary_key=True, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="runs")
    namespace = models.CharField(max_length=64)
    external_id = models.CharField(max_length=300)
    parent = models.ForeignKey("self", models.SET_NULL, null=True, related_name="children")
    parent_call = CompactUUIDField(null=True)

    # as recorded:
    title = models.CharField(max_length=300, default="")
    agent = models.CharField(max_length=100, default="")
    model = models.CharField(max_length=100, default="")
    version = models.CharField(max_length=50, default="")
    cwd = models.CharField(max_length=500, default="")
    branch = models.CharField(max_length=300, default="")
    source_format = models.CharField(max_length=64)
    started_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField(null=True)  # the newest stamp seen
    ended_at = models.DateTimeField(null=True)  # only when the source recorded the end
    lease_until = models.DateTimeField(null=True)  # of a plan that a command runs here: renewed while that lives
    asks_until = models.DateTimeField(null=True)  # such a plan waits for its confirmation, at most until then
    plan = models.BinaryField(null=True)  # JSON
    is_reported = models.BooleanField(default=False)  # known only from progress lines of the run that started it
    has_rivals = models.BooleanField(default=False)  # another run's recording has calls of this one as its own
    document = ZstdField(null=True)  # JSON: run.json of an audit layout, with its policy and confirmation

    # derived, recomputable:
    sort_at = models.DateTimeField()  # started_at, or the time of the import
    duration_ms = models.BigIntegerField(default=0)
    call_count = models.IntegerField(default=0)  # its own and inherited ones
    own_call_count = models.IntegerField(default=0)
    progress_call_count = models.IntegerField(default=0)  # reported only by a parent's progress lines
    failed_count = models.IntegerField(default=0)  # with those that timed out
    refused_count = models.IntegerField(default=0)
    cut_count = models.IntegerField(default=0)
    unanswered_count = models.IntegerField(default=0)
    remark_count = models.IntegerField(default=0)
    drop_count = models.IntegerField(default=0)  # requests before which tokens left the context unexplained
    token_count = models.BigIntegerField(default=0)  # of the current receipts
    token_certainty = models.CharField(max_length=8, default="estimate")
    receipt_characters = models.BigIntegerField(default=0)
    strip = models.CharField(max_length=120, default="")  # one letter a call, see `ingest.run_stats.build_strip`
    revision = models.BigIntegerField(default=0)  # incremented with every change; the cursor of live pages

    class Meta:
        indexes = [
            models.Index(fields=["project", "-sort_at", "-id"]),  # newest first
            models.Index(fields=["project", "-call_count", "-id"]),
            models.Index(fields=["project", "-failed_count", "-id"]),
            models.Index(fields=["project", "-cut_count", "-id"]),
            models.Index(fields=["project", "-token_count", "-id"]),
            models.Index(fields=["project", "-duration_ms", "-id"]),
            models.Index(fields=["external_id"], name="runs_by_external_id"),  # an id that is pasted into the search
        ]

    def __str__(self) -> str:
        return self.title or self.external_id

    def count_waiting(self) -> int:
        """Its calls that are not counted yet, those that it copied too."""
        return Call.objects.waiting().filter(memberships__run=self).count()

    def get_absolute_url(self) -> str:
        return reverse("run-detail", args=[self.pk])

    @property
    def may_have_copies(self) -> bool:
        """False when all calls are the run's own: then their columns are those of its receipts."""
        return self.call_count > self.own_call_count + self.progress_call_count

    @property
    def is_live(self) -> bool:
        if self.ended_at is not None or self.last_at is None:
            return False
        return (self.lease_until or self.last_at + IDLE_BEFORE_ASSUMED_ENDED) >= timezone.now()

    @property
    def recorded_duration_ms(self) -> int | None:
        """None where at most the beginning has a time, for which the column is 0, and while nothing runs yet."""
        is_known = self.duration_ms or self.ended_at is not None
        return self.duration_ms if self.started_at and is_known and not self.is_asking else None

    @property
    def is_asking(self) -> bool:
        """True while the run waits for the confirmation of its plan."""
        return self.asks_until is not None and self.asks_until > timezone.now() and self.is_live

    @property
    def status(self) -> str:
        if self.ended_at is not None:
            return "ended"
        if self.is_live:
            return "waits for confirmation" if self.is_asking else "live"
        return "interrupted" if self.lease_until else "ended (no closing line)"


RunQuerySet: TypeAlias = "models.QuerySet[Run]"


class RunFacet(models.Model):
    """One value by which runs are filtered, with the run's sort stamp, so that an index gives a filtered list in order.

    Kinds: tool, family, outcome, error, risk, reason, author (of receipts), state (failed, cut, unanswered, retried,
    child, disagree), context (uncertain), remark, agent, source, model, branch; tag, assigned and note, of the run or
    one of its calls (`models.notes`).
    """

    run = models.ForeignKey(Run, models.CASCADE, related_name="facets")
    project = models.ForeignKey(Project, models.CASCADE, related_name="+")
    kind = models.CharField(max_length=16)
    value = models.CharField(max_length=200)
    sort_at = models.DateTimeField()
    count = models.IntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "kind", "value"], name="one_facet")]
        indexes = [models.Index(fields=["project", "kind", "value", "-sort_at", "-run"])]  # a filtered list

    def __str__(self) -> str:
        return f"{self.kind}={self.value}"


class ReceiptAuthor(models.TextChoices):
    """Who wrote the text that the model got (`evidence.hook_outputs`); empty for the tool."""

    HOOK = "hook", "written by a hook"
    UNCLEAR = "unclear", "a hook returned an output"  # from which the receipt may be made, or from the tool's own


class CallQuerySet(models.QuerySet["Call"]):
    def in_run(self, run: Run) -> CallQuerySet:
        """The calls of a run in its order, inherited ones included."""
        return self.filter(memberships__run=run).order_by("memberships__ordinal", "id")

    def in_run_with_ordinals(self, run: Run) -> CallQuerySet:
        """The same, each with its `ordinal` in that run and whether it is `inherited` there."""
        return self.in_run(run).annotate(**{name: F(f"memberships__{name}") for name in ("ordinal", "inherited")})

    def waiting(self) -> CallQuerySet:
        """Calls whose columns do not follow from their evidence yet."""
        return self.filter(derivation="")

    def with_own_time(self) -> CallQuerySet:
        """With `took_ms`, which is `Call.own_ms`, for queries that compare, sort or group by it."""
        return self.annotate(took_ms=own_time())

    def newest_first(self) -> CallQuerySet:
        """In an order that both databases have; calls without a time are last."""
        return self.order_by(F("started_at").desc(nulls_last=True), "-id")

    def find_last_days(self, most: int) -> date | None:
        """The first of the last days, in UTC, that have at most `most` of these calls; None where there are no more.

        The last day is one of them, however many calls it has.
        """
        times = self.filter(started_at__isnull=False).order_by("-started_at").values_list("started_at", flat=True)
        beyond = times[most : most + 1].first()
        newest = times.first() if beyond else None
        if newest is None or beyond is None:
            return None
        return min(beyond.astimezone(UTC).date() + timedelta(days=1), newest.astimezone(UTC).date())

    def unsearchable(self) -> CallQuerySet:
        """Calls whose payloads no search finds yet."""
        return self.filter(search_id=None)

    def with_run_and_source(self) -> CallQuerySet:
        """Joins both, without the documents of the run and the reader's state of the source, which may be large."""
        return self.select_related("run", "source").defer("run__plan", "run__document", "source__state", "source__seen")


# The columns of calls that filters compare and lists are sorted by, beside the time.
FILTERED_COLUMNS = (
    *("tool", "family", "outcome", "status", "exit_status", "source_error", "risk", "reason", "author", "attempt"),
    *("is_cut", "is_waiting", "is_disagreeing", "duration_ms", "tool_ms", "tokens"),
    *("output_lines", "seen_lines", "unseen_lines"),
    "search_id",
)


class Call(CallTimes, LoadedRow):
    """One tool call. `outcome` is the word for how it ended, `status` that of its envelope.

    Both follow from the recorded evidence; without an answer they are `unanswered` and `unknown`.
    """

    class Status(models.TextChoices):
        SUCCESS = "success"
        ERROR = "error"
        UNKNOWN = "unknown"

    id = CompactUUIDField(primary_key=True, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="calls", db_index=False)
    run = models.ForeignKey(Run, models.CASCADE, related_name="own_calls", db_index=False)
    namespace = models.CharField(max_length=64)
    external_id = models.CharField(max_length=300)
    tool = models.CharField(max_length=200)
    family = models.CharField(max_length=32)
    step = models.CharField(max_length=200, default="")
    attempt = models.IntegerField(default=1)
    iteration = models.IntegerField(null=True)  # the round of a foreach, from 0
    risk = models.CharField(max_length=12, default="")  # read-only, writes or commands, as an executor recorded it
    reason = models.CharField(max_length=40, default="")  # why it was stopped before it ran
    origin = models.CharField(max_length=8, default="message")  # message | progress | answer: its best record
    child_run = CompactUUIDField(null=True)
    source = models.ForeignKey("Source", models.SET_NULL, null=True, related_name="+")
    line = models.BigIntegerField(default=0)

    status = models.CharField(max_length=8, choices=Status.choices, default=Status.UNKNOWN)
    summary = models.CharField(max_length=200, default="")
    asked = models.CharField(max_length=500, default="")  # the argument that names it, `evidence.argument_labels`
    first_line = models.CharField(max_length=500, default="")  # of its first receipt; without one, of its output
    error_kind = models.CharField(max_length=100, default="")
    retryable = models.BooleanField(null=True)
    exit_status = models.IntegerField(null=True)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, default=Outcome.UNANSWERED)
    source_error = models.BooleanField(null=True)  # the source's own flag, never overwritten
    is_disagreeing = models.BooleanField(default=False)  # sources gave different content for one surface

    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    duration_ms = models.BigIntegerField(null=True)  # between the two stamps; a wait for permission included
    tool_ms = models.BigIntegerField(null=True)  # measured by the tool itself, if recorded
    is_waiting = models.BooleanField(default=False)  # waited for a person: a question, or a person's refusal

    args_bytes = models.BigIntegerField(default=0)
    result_bytes = models.BigIntegerField(default=0)
    result_fidelity = models.CharField(max_length=20, default="absent")
    receipt_fidelity = models.CharField(max_length=20, default="absent")
    receipt_characters = models.BigIntegerField(default=0)
    receipt_lines = models.BigIntegerField(default=0)
    receipt_count = models.IntegerField(default=0)  # in its own run
    tokens = models.BigIntegerField(default=0)
    token_certainty = models.CharField(max_length=8, default="estimate")
    output_lines = models.BigIntegerField(default=0)  # lines of the complete output
    seen_lines = models.BigIntegerField(default=0)  # of those, in the receipt, or in the one that it replaced later
    unseen_lines = models.BigIntegerField(default=0)  # the others, where the receipt is cut
    is_cut = models.BooleanField(default=False)
    author = models.CharField(max_length=8, choices=ReceiptAuthor.choices, default="")  # of its receipt
    revision = models.BigIntegerField(default=0)  # of its run, when it last changed

    # Evidence and what is derived from it are written apart (D-2):
    evidence_version = models.IntegerField(default=0)  # incremented with every change of the evidence
    derivation = models.CharField(max_length=40, default="")  # versions of what derived the columns; empty: nothing yet

    search_id = models.BigIntegerField(null=True)  # its entry in the index of payloads, `models.search`

    objects = CallQuerySet.as_manager()

    # Set by `in_run_with_ordinals`.
    ordinal: int
    inherited: bool
    is_superseded: bool  # set by lists of a run's calls: a receipt of it was replaced or removed there

    class Meta:
        indexes = [
            models.Index(fields=["run", "line"]),
            models.Index(fields=["project"], condition=Q(derivation=""), name="underived_calls"),
            models.Index(fields=["project"], condition=Q(search_id=None), name="unsearchable_calls"),
            # With what a page of found calls is sorted by, so that it is sorted without the wide rows.
            models.Index(fields=["search_id", "project", "started_at", "id"], name="calls_by_entry"),
            models.Index(fields=["external_id"], name="calls_by_external_id"),  # an id that is pasted into the search
            # All calls, newest first; with the columns of filters, so that a rare value is found without the wide rows.
            models.Index(fields=["project", "-started_at", "-id", *FILTERED_COLUMNS], name="calls_by_time"),
            models.Index("project", own_time().desc(), OrderBy(F("id"), descending=True), name="calls_by_own_time"),
            models.Index(fields=["project", "-tokens", "-id"], name="calls_by_tokens"),
            models.Index(fields=["project", "-unseen_lines", "-id"], name="calls_by_unseen_lines"),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.external_id}"

    def get_absolute_url(self) -> str:
        return reverse("call-detail", args=[self.pk])

    @property
    def has_failed(self) -> bool:
        return self.outcome in (Outcome.FAILED, Outcome.TIMED_OUT)

    @property
    def has_tokens(self) -> bool:
        """False without a recorded receipt, which is not one of no tokens."""
        return bool(self.tokens) or self.receipt_fidelity != "absent"

    @property
    def outcome_words(self) -> str:
        """The outcome with a command's exit status: "failed, exit 1"; nothing is claimed of a call that waits."""
        return describe_outcome(self.outcome, self.exit_status) if self.derivation else NOT_COUNTED


# The rules of Call.has_failed and ingest.run_stats.halves_disagree as database conditions.
_HAS_ERROR = Q(status=Call.Status.ERROR)
_RESULT_FAILED = _HAS_ERROR | Q(exit_status__lt=0) | Q(exit_status__gt=0)
FAILED = Q(outcome__in=(Outcome.FAILED, Outcome.TIMED_OUT))
UNANSWERED = Q(status=Call.Status.UNKNOWN)
HAS_RECEIPT = Q(tokens__gt=0) | ~Q(receipt_fidelity="absent")  # the rule of `Call.has_tokens`
HALVES_DISAGREE = ~UNANSWERED & ((Q(source_error=True) & ~_RESULT_FAILED) | (Q(source_error=False) & _HAS_ERROR))


def step_url(run: UUID, position: int | str, tab: str = "halves", params: Mapping[str, str] | None = None) -> str:
    """The address of a call's step in a run. To reverse 50 of them takes a list as long as its query."""
    return f"/runs/{run}/{position}/{tab}" + (f"?{urlencode(params)}" if params else "")


class RunCall(LoadedRow):
    """Lists a call in a run; `inherited` when the run copied it from the history of another.

    A call that several recordings list belongs to the run with the lowest `claim` (`ingest.merge_runs.choose_owner`).
    """

    class Claim(models.IntegerChoices):
        OWN = 0  # a message of the run
        PROGRESS = 1  # reported by the lines of the run's parent
        OTHER = 2  # its line is in the run's file and names another run
        COPIED = 3
        ANSWER = 4  # known from its answer alone; removed once the call itself is known

    run = models.ForeignKey(Run, models.CASCADE, related_name="members", db_index=False)
    call = models.ForeignKey(Call, models.CASCADE, related_name="memberships")
    ordinal = models.BigIntegerField()  # the line of the call in that run's source
    source = models.ForeignKey("Source", models.SET_NULL, null=True, related_name="+", db_index=False)
    claim = models.SmallIntegerField(choices=Claim.choices, default=Claim.OWN)
    inherited = models.BooleanField(default=False)

    has_receipt: bool  # set by the run's history

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "call"], name="one_run_call")]
        indexes = [
            models.Index(fields=["run", "ordinal", "call"]),  # the order of a run, by which its steps are counted
            models.Index(fields=["run"], condition=Q(inherited=True), name="inherited_calls"),
        ]

    def __str__(self) -> str:
        return f"{self.call_id} in {self.run_id}"


class Message(SourceSlice):
    """A message between the calls. `data` is JSON: a string, or a list of blocks."""

    class Delivery(models.TextChoices):
        """How it reached the model, see `MessageRecord`."""

        SENT = "sent"
        QUEUED = "queued"
        REWORDED = "reworded"
        WITHHELD = "withheld"
        UNCLEAR = "unclear"

    id = CompactUUIDField(primary_key=True, editable=False)
    run = models.ForeignKey(Run, models.CASCADE, related_name="messages", db_index=False)
    role = models.CharField(max_length=32)
    kind = models.CharField(max_length=64, default="")  # of what is no message, see `MessageRecord`
    step = models.CharField(max_length=200, default="")
    at = models.DateTimeField(null=True)
    line = models.BigIntegerField()
    tokens = models.BigIntegerField(default=0)
    delivery = models.CharField(max_length=8, choices=Delivery.choices, default=Delivery.SENT)
    search_id = models.BigIntegerField(null=True)  # its entry in the index of payloads, `models.search`

    class Meta:
        indexes = [
            models.Index(fields=["run", "line"]),
            models.Index(fields=["run"], condition=Q(search_id=None), name="unsearchable_messages"),
            models.Index(fields=["search_id"], name="messages_by_entry"),
        ]

    def __str__(self) -> str:
        return f"{self.heading} at place {self.line}"

    @property
    def heading(self) -> str:
        return self.kind or self.role

    @property
    def is_standing(self) -> bool:
        """Part of every request from its line on, until the next one of its kind."""
        return self.kind in STANDING_KINDS


class Event(SourceSlice):
    """A note of a recording beside its messages and calls. `data` is JSON: its payload, or a plan executor's event."""

    id = CompactUUIDField(primary_key=True, editable=False)
    run = models.ForeignKey(Run, models.CASCADE, related_name="events", db_index=False)
    call = CompactUUIDField(null=True)
    kind = models.CharField(max_length=100)
    level = models.CharField(max_length=8, default="info")
    message = models.CharField(max_length=500, default="")
    at = models.DateTimeField(null=True)
    line = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["run", "line"]), models.Index(fields=["call"])]

    def __str__(self) -> str:
        return f"{self.kind} at place {self.line}"
