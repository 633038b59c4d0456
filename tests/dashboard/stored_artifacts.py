"""Artifacts for the tests: a field of a recorded result, or a file in the store; and parts of their pages."""

from __future__ import annotations

import hashlib
import io
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import Client

from dashboard.artifacts.bucket import SCHEME, bucket_at
from dashboard.artifacts.stores import configured_store
from dashboard.models import Artifact, Call
from dashboard.models.identity import derive_id
from tests.dashboard.factories import create_observation
from tests.dashboard.page_text import Page, parse_page


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
        id=derive_id("artifact", call.pk.bytes), project=call.project, call=call, observation=observation, **fields
    )


def stored(call: Call, content: bytes, **fields: Any) -> Artifact:
    """A file in the configured store, as an import stores it."""
    file = configured_store().put(io.BytesIO(content))
    fields = {"role": "log", "path": "/home/x/log.txt"} | fields
    return Artifact.objects.create(
        id=derive_id("artifact", call.pk.bytes, file.sha256),
        project=call.project,
        call=call,
        sha256=file.sha256,
        size=file.size,
        lines=file.lines,
        **fields,
    )


def names_in_store() -> list[str]:
    """Every file or object of the store, whatever it is."""
    address = str(settings.ARTIFACTS)
    if address.startswith(SCHEME):
        return [name for name, _ in bucket_at(address).sizes()]
    return sorted(path.relative_to(address).as_posix() for path in Path(address).rglob("*") if path.is_file())


def replace_stored(name: str, content: bytes) -> None:
    """Replaces a file or object of the store from outside of the dashboard."""
    address = str(settings.ARTIFACTS)
    if not address.startswith(SCHEME):
        (Path(address) / name).parent.mkdir(parents=True, exist_ok=True)
        (Path(address) / name).write_bytes(content)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        bucket_at(address).put(name, Path(file.name))


def remove_stored(name: str) -> None:
    address = str(settings.ARTIFACTS)
    if address.startswith(SCHEME):
        bucket_at(address).remove([name])
    else:
        (Path(address) / name).unlink()


def read_stored(name: str) -> bytes:
    address = str(settings.ARTIFACTS)
    if not address.startswith(SCHEME):
        return (Path(address) / name).read_bytes()
    target = io.BytesIO()
    bucket_at(address).fetch(name, target)
    return target.getvalue()


def open_page(client: Client, artifact: Artifact, query: str = "") -> Page:
    response = client.get(f"/artifacts/{artifact.pk}/{query}")
    assert response.status_code == 200
    return parse_page(response)  # type: ignore[arg-type]


def rows_of(page: Page) -> list[tuple[int, str]]:
    """The lines of a window, each with its number."""
    return [(int(row["id"][1:]), row.select_one("pre").exact) for row in page.select('.line[id^="L"]')]


def highlighted_lines(page: Page) -> list[int]:
    return [int(row["id"][1:]) for row in page.select("[data-highlighted]")]


def key_link(page: Page, key: str) -> str:
    """The address that the link with a keyboard shortcut opens."""
    return page.select_one(f'a[data-key="{key}"]')["href"]
