"""Notifications to an operator: records that the runtime owns (RFC-103, TOOLS-009).

No model calls this family: it defines no tool, so nothing of it is in the registry of tools or in the
inventory (TOOLS-010, E-16). The runtime writes such a record itself and may show its
receipt to the model. A delivery that failed is a verdict inside a success: the notification is recorded.
"""

from __future__ import annotations

from pathlib import Path

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.base import Family, project_by_type
from envelopes.families.notification.receipts import receipt
from envelopes.families.notification.results import PROJECTIONS

FAMILY = Family(
    name="notification",
    title="Notifications to operators",
    results=(*PROJECTIONS, RecordedText),
    project=project_by_type(PROJECTIONS),
    renderers={"receipt": receipt},
    versions={"receipt": 5},
    examples=Path(__file__).with_name("examples.json"),
)
