"""Artifacts for the tests: a field of a recorded result, or a file in the store; and what their pages show."""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import Client

from dashboard.artifacts.bucket import SCHEME, bucket_at
from dashboard.artifacts.stores import configured_store
from dashboard.models import Artifact, Call
from dashboard.models.identity import derived
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
    kept = configured_store().put(io.BytesIO(content))
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


def names_in_store() -> list[str]:
    """Everything that lies there, whatever it is."""
    address = str(settings.ARTIFACTS)
    if address.startswith(SCHEME):
        return [name for name, _ in bucket_at(address).sizes()]
    return sorted(path.relative_to(address).as_posix() for path in Path(address).rglob("*") if path.is_file())


def put_beside(name: str, content: bytes) -> None:
    """As somebody does who is not the dashboard: another file or object in its place."""
    address = str(settings.ARTIFACTS)
    if not address.startswith(SCHEME):
        (Path(address) / name).parent.mkdir(parents=True, exist_ok=True)
        (Path(address) / name).write_bytes(content)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        bucket_at(address).put(name, Path(file.name))


def take_away(name: str) -> None:
    address = str(settings.ARTIFACTS)
    if address.startswith(SCHEME):
        bucket_at(address).remove([name])
    else:
        (Path(address) / name).unlink()


def content_beside(name: str) -> bytes:
    address = str(settings.ARTIFACTS)
    if not address.startswith(SCHEME):
        return (Path(address) / name).read_bytes()
    target = io.BytesIO()
    bucket_at(address).fetch(name, target)
    return target.getvalue()


def body(client: Client, artifact: Artifact, query: str = "") -> str:
    response = client.get(f"/artifacts/{artifact.pk}/{query}")
    assert response.status_code == 200
    return response.content.decode()


def rows_of(page: str) -> list[tuple[int, str]]:
    found = re.findall(r'<div id="L(\d+)".*?<pre data-exact>(.*?)</pre>', page, re.S)
    return [(int(number), text_of(line)) for number, line in found]
