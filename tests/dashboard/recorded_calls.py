"""Calls as an import leaves them, and the Call page parsed: for the tests of everything that shows a call."""

from __future__ import annotations

from typing import Any

from django.test import Client

from dashboard.evidence.call_evidence import load_evidence
from dashboard.ingest.derive import RecordedCall, derive
from dashboard.models import Call, Run
from dashboard.variants.fingerprints import envelope_sha256
from dashboard.variants.render_call import render_call
from tests.dashboard.factories import create_call, create_observation
from tests.dashboard.page_text import Element, Page, parse_page

HOSTILE = '<script>alert(1)</script><b hx-post="/runs/" hx-trigger="load">\u202egnp\x1b[31m\x00 \\'


def recorded(run: Run, tool: str, args: Any, result: Any, receipt: Any, **fields: Any) -> Call:
    """A call as an import leaves it: read by its agent's family, with its projection and artifacts."""
    call = create_call(run, args=args, receipt=receipt, tool=tool, **fields)
    if result is not None:
        create_observation(call, "result", result)
    call.namespace = "claude-code"
    derived = derive(RecordedCall(call, list(call.observations.all()), list(call.receipts.all())))
    for column, content in (derived.columns | fields).items():
        setattr(call, column, content)
    call.save()
    derived.projection.save(force_insert=True)
    for artifact in derived.artifacts:
        artifact.save(force_insert=True)
    return call


def bash(run: Run, stdout: str, receipt: Any = None, **fields: Any) -> Call:
    result = {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False}
    return recorded(run, "Bash", {"command": "make test"}, result, stdout if receipt is None else receipt, **fields)


def read_result(content: str, first: int, total: int) -> dict[str, Any]:
    lines = content.count("\n") + 1
    file = {"filePath": "/a", "content": content, "numLines": lines, "startLine": first, "totalLines": total}
    return {"type": "text", "file": file}


def load_call(client: Client, call: Call, query: str = "", **headers: str) -> Page:
    """The page of the call's step, to which its permanent address redirects."""
    response = client.get(f"/calls/{call.pk}/{query}", headers=headers)
    assert response.status_code == 200
    return parse_page(response)


def receipt_text(page: Element) -> str:
    """The exact text of all text parts of the receipt in view."""
    return "".join(part.exact for part in page.select("pre.exact[data-exact][dir=auto]"))


def receipt_record(call: Call, variant: str) -> dict[str, Any]:
    """The receipt of call `c1` of run `r` under a variant, as a runtime of ours records that it sent it."""
    evidence = load_evidence(call, {})
    sent = render_call(evidence, variant)
    return {
        "v": 1,
        "type": "receipt",
        "run": "r",
        "call": "c1",
        "seq": 1,
        "text": sent.receipt.text,
        "renderer": {"id": sent.variant.id, "version": str(sent.variant.version)},
        "canonical_sha256": envelope_sha256(evidence.canonical),
        "render_policy": sent.variant.policy.fingerprint,
    }
