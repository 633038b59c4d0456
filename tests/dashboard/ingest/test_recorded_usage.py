"""Compares the requests and drops of the real sessions with those that an independent reader of 30 lines finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from pytest_django import DjangoDbBlocker

from dashboard.accounts import get_or_create_project
from dashboard.evidence.context_changes import load_changes, load_drops
from dashboard.ingest.importer import import_paths
from dashboard.models import Run
from envelopes.pipeline.context_usage import ContextChange
from envelopes.text.tokens import count_tokens

pytestmark = pytest.mark.django_db


def independent_drops(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Requests, explained and unexplained drops of each agent; a drop is explained where the history does not go on.

    Reads the files without the reader and without its rules: what explains a drop is here that the line of the request
    does not descend from that of the request before it, or that a line between them states how much it removed.
    """
    agents: dict[str, dict[str, list[Any]]] = {}
    for path in sorted(folder.rglob("*.jsonl"), key=lambda path: (not path.stem.startswith("agent-"), str(path))):
        parents: dict[str, str | None] = {}
        saved: list[tuple[int, int]] = []
        for number, raw in enumerate(path.read_bytes().split(b"\n"), 1):
            line = json.loads(raw) if raw.strip() else {}
            parents[line.get("uuid") or ""] = line.get("parentUuid")
            saved.append((number, (line.get("microcompactMetadata") or {}).get("tokensSaved", 0)))
            agent = line.get("agentId") or (line.get("data") or {}).get("agentId") or ""
            inner = (line.get("data") or {}).get("message") or {} if line.get("type") == "progress" else line
            message = inner.get("message") or {}
            usage = message.get("usage") or {}
            tokens = sum(usage.get(name) or 0 for name in usage if name.endswith("input_tokens"))
            if inner.get("type") == "assistant" and tokens:
                requests = agents.setdefault(f"{line['sessionId']}/{agent}", {})
                requests.setdefault(message["id"], [number, tokens, line["uuid"], parents, saved])
    return {agent: (len(requests), *_count_drops(list(requests.values()))) for agent, requests in agents.items()}


def _count_drops(requests: list[list[Any]]) -> tuple[int, int]:
    explained = unexplained = 0
    for (start, before, ancestor, _, _), (end, after, uuid, parents, saved) in zip(
        requests, requests[1:], strict=False
    ):
        if before - after > 5_000 and before - after > before / 5:
            while uuid and uuid != ancestor:
                uuid = parents.get(uuid)
            stated = sum(tokens for line, tokens in saved if start < line <= end)
            is_explained = uuid is None or 2 * stated >= before - after
            explained, unexplained = explained + is_explained, unexplained + (not is_explained)
    return explained, unexplained


@pytest.fixture(scope="module")
def changes(
    folder: Path, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[dict[str, list[ContextChange]]]:
    """Of every run that has requests, by its own name, as they are read from the store."""
    del django_db_setup
    count_tokens("")
    with django_db_blocker.unblock(), transaction.atomic():
        import_paths(get_or_create_project(), [folder])
        yield {run.external_id: load_changes(run) for run in Run.objects.all() if run.requests.exists()}
        transaction.set_rollback(True)


def test_requests_and_drops_are_those_of_an_independent_reader(
    folder: Path, changes: dict[str, list[ContextChange]]
) -> None:
    counted = {}
    for name, of_run in changes.items():
        drops = [change for change in of_run if change.is_drop]
        unexplained = sum(bool(change.unexplained) for change in drops)
        key = name if "/" in name else f"{name}/"
        counted[key] = (Run.objects.get(external_id=name).requests.count(), len(drops) - unexplained, unexplained)
    assert counted == independent_drops(folder)
    assert sum(unexplained for _, _, unexplained in counted.values()) == 1


def test_the_drop_of_the_bundled_session_is_the_one_at_line_154(changes: dict[str, list[ContextChange]]) -> None:
    run = Run.objects.get(drop_count__gt=0)
    assert run.external_id == "fdd24234-3c2a-4958-91ed-59c63b12ba1e"
    [drop] = load_drops(run)
    assert (drop.line, drop.before, drop.tokens) == (154, 147, 42_531)
    [change] = [change for change in changes[run.external_id] if change.unexplained]
    assert change.before is not None
    assert (change.before.tokens, change.request.tokens) == (138_395, 95_864)
