"""The rows by which a command that runs a plan and the pages talk: its request, the decision, a cancel, the lease.

A decision names the hashes of the plan and the policy that were shown. Each is written by one conditional statement,
so that two operators who decide at once do not both succeed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from dashboard.accounts import OperatorRequest
from dashboard.audit import record_command, record_request
from dashboard.models import AuditEntry, PlanExecution, Project, Run
from envelopes.plan.confirmation import ConfirmationRequest, Decision

LEASE = timedelta(seconds=30)  # of a busy machine: a missed renewal shows a run as interrupted
REASON_CHARACTERS = 500
Choice = PlanExecution.Decision


# What the command writes and reads


def renew_lease(run: UUID) -> None:
    """The run counts as live until LEASE from now."""
    Run.objects.filter(pk=run, ended_at=None).update(lease_until=timezone.now() + LEASE)


def request_decision(run: UUID, request: ConfirmationRequest, expiry_s: float, *, is_on_terminal: bool) -> None:
    """Asks the operators, or shows them that the command asks on its terminal. Pages of the run load it again."""
    now = timezone.now()
    expires_at = now + timedelta(seconds=expiry_s)
    PlanExecution.objects.update_or_create(
        run_id=run,
        defaults={
            "plan_hash": request.plan_hash,
            "policy_hash": request.policy_hash,
            "risk": request.risk,
            "preview": request.preview,
            "requested_at": now,
            "expires_at": expires_at,
            "is_on_terminal": is_on_terminal,
        },
    )
    Run.objects.filter(pk=run).update(asks_until=expires_at)
    _renew_pages(run)


def load_decision(run: UUID) -> Decision | None:
    """The decision that an operator took on a page; None until then."""
    execution = PlanExecution.objects.filter(run=run, decision__in=(Choice.APPROVED, Choice.REJECTED)).first()
    if execution is None:
        return None
    return Decision(
        is_approved=execution.decision == Choice.APPROVED,
        actor=execution.actor,
        plan_hash=execution.plan_hash,
        policy_hash=execution.policy_hash,
        reason=execution.reason,
    )


def record_decision(project: Project, run: UUID, name: str, decision: Decision) -> None:
    """Stores a decision that was taken on the command line, also in the audit log; one of a page is there already."""
    waiting = PlanExecution.objects.filter(run=run)
    if _decide(run, waiting, is_approved=decision.is_approved, actor=decision.actor, reason=decision.reason):
        subject = _describe(name, decision.plan_hash, decision.policy_hash, is_approved=decision.is_approved)
        record_command(project, AuditEntry.Action.CONFIRMATION, subject)


def record_end(run: UUID) -> None:
    """A request that nobody answered before the end of the run has expired. The shortest run has a lease, too."""
    Run.objects.filter(pk=run, lease_until=None).update(lease_until=timezone.now())
    unanswered = PlanExecution.objects.filter(run=run, requested_at__isnull=False, decision="")
    unanswered.update(decision=Choice.EXPIRED, decided_at=timezone.now())
    _stop_asking(run)


def is_cancel_requested(run: UUID) -> bool:
    return PlanExecution.objects.filter(run=run, cancelled_at__isnull=False).exists()


# What a page writes


@dataclass(frozen=True)
class DecisionForm:
    """The answer of a form. The hashes are those of the page that was shown; `problem` is for the person."""

    is_approved: bool
    reason: str
    plan_hash: str
    policy_hash: str

    @property
    def problem(self) -> str:
        if len(self.reason) > REASON_CHARACTERS:
            return f"The reason has {len(self.reason):,} characters; at most {REASON_CHARACTERS} are stored."
        return "" if self.is_approved or self.reason else "Give a reason for the rejection."


def decide(request: OperatorRequest, run: Run, form: DecisionForm) -> str:
    """Stores the decision and adds it to the audit log; returns why it was refused, or nothing.

    The row is changed only while it waits, and only where it has the hashes of the form.
    """
    if form.problem:
        return form.problem
    if not run.is_live:
        return "The command that ran this plan has ended: nothing waits for a decision."
    waiting = PlanExecution.objects.filter(run=run, requested_at__isnull=False, cancelled_at=None, is_on_terminal=False)
    waiting = waiting.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
    same = waiting.filter(plan_hash=form.plan_hash, policy_hash=form.policy_hash)
    actor = request.user.get_username()
    if not _decide(run.pk, same, is_approved=form.is_approved, actor=actor, reason=form.reason):
        return _explain_refusal(run, form)
    subject = _describe(run.external_id, form.plan_hash, form.policy_hash, is_approved=form.is_approved)
    record_request(request, AuditEntry.Action.CONFIRMATION, subject)
    return ""


def _describe(name: str, plan_hash: str, policy_hash: str, *, is_approved: bool) -> str:
    word = "approved" if is_approved else "rejected"
    return f"{word} the plan of run {name}, {plan_hash} under policy {policy_hash}"


def _decide(run: UUID, waiting: QuerySet[PlanExecution], *, is_approved: bool, actor: str, reason: str) -> bool:
    """True where this decision is the first one."""
    changed = waiting.filter(decision="").update(
        decision=Choice.APPROVED if is_approved else Choice.REJECTED,
        actor=actor,
        decided_at=timezone.now(),
        reason=reason[:REASON_CHARACTERS],
    )
    if changed:
        _stop_asking(run)
    return bool(changed)


def _stop_asking(run: UUID) -> None:
    if Run.objects.filter(pk=run).exclude(asks_until=None).update(asks_until=None):
        _renew_pages(run)


def _renew_pages(run: UUID) -> None:
    """The pages of the run and of its parent load it again."""
    parents = Run.objects.filter(pk=run).values_list("parent_id", flat=True)
    Run.objects.filter(pk__in=[run, *parents]).update(revision=F("revision") + 1)


def _explain_refusal(run: Run, form: DecisionForm) -> str:
    execution = PlanExecution.objects.filter(run=run).first()
    if execution is None or execution.requested_at is None:
        return "This run asks for no confirmation."
    if execution.is_on_terminal:
        return "This run is confirmed on the terminal of its command, not on this page."
    if execution.decision in (Choice.APPROVED, Choice.REJECTED):
        return f"{execution.actor} has {execution.decision} this plan already."
    if (execution.plan_hash, execution.policy_hash) != (form.plan_hash, form.policy_hash):
        return "The plan or its policy has changed since the page showed it. Look at it again."
    return "The request has expired, or the run was cancelled."


def cancel(request: OperatorRequest, run: Run) -> bool:
    """Asks the command to cancel the run; False where it does not run any more. Only the first request is stored."""
    if not run.is_live:
        return False
    execution, _ = PlanExecution.objects.get_or_create(run=run)
    mine = PlanExecution.objects.filter(pk=execution.pk, cancelled_at=None)
    if mine.update(cancelled_at=timezone.now(), cancelled_by=request.user.get_username()):
        _stop_asking(run.pk)
        record_request(request, AuditEntry.Action.CANCELLATION, f"the plan of run {run.external_id}")
    return True
