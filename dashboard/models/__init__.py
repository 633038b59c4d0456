"""The database models, a module for each subject. Recordings become rows only through `dashboard.ingest.write`."""

from __future__ import annotations

from dashboard.models.artifacts import Artifact
from dashboard.models.comparisons import (
    Comparison,
    ComparisonBaseline,
    ComparisonBatch,
    ComparisonColumn,
    RecallReport,
    ReceiptFingerprint,
    Review,
    Verdict,
)
from dashboard.models.evidence import (
    CanonicalProjection,
    Observation,
    ReceiptSupersession,
    RecordedReceipt,
    RequestUsage,
    current_receipts,
    find_replaced,
    receipts_in,
    select_receipt,
)
from dashboard.models.notes import Assignment, Note, ReviewMark, Tag
from dashboard.models.plans import PlanExecution
from dashboard.models.projects import (
    AccessToken,
    AuditEntry,
    Membership,
    Project,
    ProjectRule,
    SavedView,
    SignInFailure,
    SignInLink,
)
from dashboard.models.renderers import PastedEnvelope, RetiredTemplate, TemplateVariant
from dashboard.models.runs import Call, Event, Message, Run, RunCall, RunFacet
from dashboard.models.sources import (
    FollowedPath,
    Problem,
    ReceivedRecord,
    Remark,
    SentContent,
    Source,
    SourceFrame,
    SourceSlice,
    load_slices,
)

__all__ = [
    "AccessToken",
    "Artifact",
    "Assignment",
    "AuditEntry",
    "Call",
    "CanonicalProjection",
    "Comparison",
    "ComparisonBaseline",
    "ComparisonBatch",
    "ComparisonColumn",
    "Event",
    "FollowedPath",
    "Membership",
    "Message",
    "Note",
    "Observation",
    "PastedEnvelope",
    "PlanExecution",
    "Problem",
    "Project",
    "ProjectRule",
    "ReceiptSupersession",
    "RecallReport",
    "ReceivedRecord",
    "RecordedReceipt",
    "Remark",
    "ReceiptFingerprint",
    "RequestUsage",
    "RetiredTemplate",
    "Review",
    "ReviewMark",
    "Run",
    "RunCall",
    "RunFacet",
    "SavedView",
    "SignInFailure",
    "SignInLink",
    "SentContent",
    "Source",
    "SourceFrame",
    "SourceSlice",
    "Tag",
    "TemplateVariant",
    "Verdict",
    "load_slices",
    "current_receipts",
    "find_replaced",
    "receipts_in",
    "select_receipt",
]
