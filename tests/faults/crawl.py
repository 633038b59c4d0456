"""Opens every page of a project and lists their faults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from django.test import Client

from dashboard.models import Project
from tests.faults.hostile import CANARY

LARGEST = 1_000_000
RAW = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
CALL_PAGES = (
    "",
    "?spaces",
    "half/args/",
    "half/canonical/",
    "half/recorded/",
    "half/receipt/",
    "half/receipt/?offset=7",
    "half/canonical/?offset=32768",
    "raw/args",
    "raw/result",
    "raw/receipt",
    "raw/canonical",
    "raw/receipt?part=1",
    "raw/receipt?part=2",
    "?as=text",
    "?as=json",
    "?as=markdown",
    "?as=json&what=receipt",
    "?as=text&what=receipt",
)
BRIEFLY = ("", "half/canonical/", "half/receipt/", "raw/receipt?part=1", "?as=markdown")
ARTIFACT_PAGES = ("", "?tail", "?line=99999", "?offset=7", "?at=50", "raw")


def faults_of_pages(client: Client, project: Project, *, is_brief: bool = False) -> list[str]:
    """`is_brief` leaves out what differs from another page only in its window."""
    pages = BRIEFLY if is_brief else CALL_PAGES
    return [fault for address in addresses(project, pages) if (fault := _fault(client, address))]


def addresses(project: Project, pages: Sequence[str] = CALL_PAGES) -> Iterator[str]:
    yield from ("/runs/", "/problems/", "/runs/?sort=-calls")
    for run in project.runs.all():
        yield from (f"/runs/{run.pk}/", f"/runs/{run.pk}/context", f"/runs/{run.pk}/context?at=end")
    for call in project.calls.values_list("pk", flat=True):
        yield from (f"/calls/{call}/{page}" for page in pages)
    for artifact in project.artifacts.values_list("pk", flat=True):
        yield from (f"/artifacts/{artifact}/{page}" for page in ARTIFACT_PAGES)
    for problem in project.problems.values_list("pk", flat=True):
        yield f"/problems/{problem}/raw"


def _fault(client: Client, address: str) -> str:
    """404 is an answer (a receipt without pictures has no part 1); a crash reaches us as the exception."""
    try:
        response = client.get(address)
        content = b"".join(response.streaming_content) if response.streaming else response.content  # type: ignore[attr-defined]
    except Exception as error:
        return f"{address}: {type(error).__name__}: {str(error)[:300]}"
    if response.status_code >= 500:
        return f"{address}: {response.status_code}"
    if not response.headers["Content-Type"].startswith("text/html"):
        return ""
    return _fault_of_markup(address, content)


def _fault_of_markup(address: str, content: bytes) -> str:
    if len(content) > LARGEST:
        return f"{address}: {len(content)} bytes"
    markup = content.decode()
    if CANARY[:10] in markup:
        return f"{address}: markup from the recording"
    match = RAW.search(markup)
    return f"{address}: the character {match[0]!r}" if match else ""
