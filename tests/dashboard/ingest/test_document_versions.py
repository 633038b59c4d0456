"""A document that its agent writes anew: each version is a source, and what versions have in common is stored once."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

import pytest
from django.db import connection

from dashboard.artifacts.retention import check_store
from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.ingest.rereading import read_outdated
from dashboard.models import Call, Message, Project, Run, Source
from dashboard.models.sources import FRAME_BYTES, FrameBlock
from tests.dashboard.ingest.test_deletion import evidence, exports, stored_values
from tests.envelopes.recordings.opencode_storage import Json, read_export

pytestmark = pytest.mark.django_db
WORDS = [f"{Random(number).getrandbits(40):x}" for number in range(3_000)]
SESSION = read_export("1.18.33")
CALLS_A_VERSION = 8
LAYOUTS = pytest.mark.parametrize("indent", [2, None], ids=["lines", "one line"])


@cache
def output(seed: object, size: int = 6_000) -> str:
    draw = Random(str(seed))
    return "\n".join(" ".join(draw.choices(WORDS, k=12)) for _ in range(size // 100))


def session(calls: int, name: str = "ses_a", texts: int = 0) -> Json:
    """A session with so many calls, of which a shorter one has the first; it begins with so many texts of a person."""
    document = copy.deepcopy(SESSION)
    document["info"] |= {"id": name, "title": f"{name} with {calls} calls"}
    document["info"]["time"]["updated"] += calls
    [asked, *_] = document["messages"]
    answered = next(message for message in document["messages"] if any("callID" in part for part in message["parts"]))
    part = next(part for part in answered["parts"] if "callID" in part)
    texts = [
        {"id": f"prt_t{number}", "type": "text", "text": output(("asked", number), 1_000)} for number in range(300)
    ]
    messages = [asked | {"parts": texts}]
    for number in range(calls):
        state = part["state"] | {"output": output(number), "metadata": {"output": f"{name} {number}"}}
        made = part | {"id": f"prt_{number}", "callID": f"call_{name}_{number}", "state": state}
        messages.append({"info": answered["info"] | {"id": f"msg_{number}"}, "parts": [made]})
    for message in messages:
        message["info"] = message["info"] | {"sessionID": name}
    return document | {"messages": messages}


def import_versions(project: Project, path: Path, versions: Sequence[bytes]) -> list[Source]:
    for version in versions:
        path.write_bytes(version)
        assert import_paths(project, [path]).problems == []
    return list(Source.objects.order_by("pk"))


def print_versions(count: int, indent: int | None) -> list[bytes]:
    return [json.dumps(session(CALLS_A_VERSION * number), indent=indent).encode() for number in range(6, 6 + count)]


def stored_bytes() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(sum(length(own_data)), 0) FROM dashboard_sourceframe")
        [frames] = cursor.fetchone()
        cursor.execute("SELECT coalesce(sum(length(data)), 0) FROM dashboard_frameblock")
        return int(frames + cursor.fetchone()[0])


def recorded(source: Source) -> bytes:
    return b"".join(frame.data for frame in source.frames.order_by("offset").with_blocks())


@pytest.mark.postgresql
@LAYOUTS
def test_versions_share_what_they_have_in_common(project: Project, tmp_path: Path, indent: int | None) -> None:
    versions = print_versions(4, indent)
    sources = import_versions(project, tmp_path / "session.json", versions[-1:])
    alone = stored_bytes()
    assert sources[0].frames.count() == (1 if indent is None else -(-len(versions[-1]) // FRAME_BYTES))
    delete_run(Run.objects.get())
    assert stored_bytes() == 0
    sources = import_versions(project, tmp_path / "session.json", versions)
    assert [recorded(source) for source in sources] == versions
    assert stored_bytes() < 2 * alone, "four versions, each with a tenth more than the one before"
    assert not check_store().findings


@pytest.mark.postgresql
def test_calls_that_a_version_repeats_are_not_derived_or_indexed_again(project: Project, tmp_path: Path) -> None:
    versions = print_versions(4, 2)
    import_versions(project, tmp_path / "session.json", versions)
    assert Call.objects.count() == len(json.loads(versions[-1])["messages"]) - 1
    assert set(Call.objects.values_list("evidence_version", flat=True)) == {1}
    assert not Call.objects.waiting().exists()
    entries = {*Call.objects.values_list("search_id", flat=True), *Message.objects.values_list("search_id", flat=True)}
    assert None not in entries
    assert max(entries) - min(entries) + 1 == len(entries), "between them is none that nothing names any more"
    run = Run.objects.get()
    assert (run.call_count, run.title) == (Call.objects.count(), f"ses_a with {Call.objects.count()} calls")


@LAYOUTS
def test_a_version_is_read_again_from_what_it_shares(project: Project, tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "session.json"
    versions = print_versions(2, indent)
    sources = import_versions(project, path, [*versions, versions[-1] + b"\n"])
    before = evidence()
    Source.objects.update(reader=1)
    [*changes] = read_outdated(project)
    assert [(change.calls_added, change.calls_changed, change.calls_gone) for change in changes] == [(0, 0, 0)]
    assert evidence() == before
    assert [recorded(source).rstrip() for source in sources] == versions
    assert not check_store().findings


@pytest.mark.postgresql
@LAYOUTS
def test_deleting_a_run_leaves_nothing_of_it_in_what_another_shared(
    project: Project, tmp_path: Path, indent: int | None
) -> None:
    path = tmp_path / "session.json"
    versions = [json.dumps(session(8, name, texts=50), indent=indent).encode() for name in ("ses_a", "ses_b")]
    [_, kept] = import_versions(project, path, versions)
    assert FrameBlock.objects.exists()
    before = exports(tmp_path / "before", but="ses_a")
    delete_run(Run.objects.get(external_id="ses_a"))
    assert (recorded(kept), exports(tmp_path / "after", but="ses_a")) == (versions[1], before)
    assert b"ses_a" not in stored_values()
    assert not check_store().findings
    delete_run(Run.objects.get())
    assert not FrameBlock.objects.exists()
    assert not Source.objects.exists()
