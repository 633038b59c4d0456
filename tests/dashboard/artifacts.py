"""Artifacts for the tests: a field of a recorded result, or a file in the store; and what their pages show."""

from __future__ import annotations

import hashlib
import io
import re
from typing import Any

from django.test import Client

from dashboard.artifacts.files import artifact_files
from dashboard.intake.identity import derived
from dashboard.models import Artifact, Call
from tests.dashboard.factories import create_observation
from tests.dashboard.page_text import text_of


def field_artifact(call: Call, text: str, **fields: Any) -> Artifact:
    observation = create_observation(call, "result", {"stdout": text, "stderr": "", "interrupted": False})
    raw = text.encode()
    fields = {
        "role": "stdout",
        "path": "calls/x/stdout.txt",
        "pointer": "/stdout",
        "sha256": hashlib.sha256(raw).hexdigest(),
        "size": len(raw),
        "lines": text.count("\n"),
    } | fields
    return Artifact.objects.create(
        id=derived("artifact", call.pk.bytes), project=call.project, call=call, observation=observation, **fields
    )


def stored(call: Call, content: bytes, **fields: Any) -> Artifact:
    """In the store of the settings, as an import takes it in."""
    kept = artifact_files().put(io.BytesIO(content))
    fields = {"role": "log", "path": "/home/x/log.txt"} | fields
    return Artifact.objects.create(
        id=derived("artifact", call.pk.bytes, kept.sha256),
        project=call.project,
        call=call,
        sha256=kept.sha256,
        size=kept.size,
        lines=kept.lines,
        **fields,
    )


def body(client: Client, artifact: Artifact, query: str = "") -> str:
    response = client.get(f"/artifacts/{artifact.pk}/{query}")
    assert response.status_code == 200
    return response.content.decode()


def rows_of(page: str) -> list[tuple[int, str]]:
    found = re.findall(r'<div id="L(\d+)".*?<pre data-exact>(.*?)</pre>', page, re.S)
    return [(int(number), text_of(line)) for number, line in found]
