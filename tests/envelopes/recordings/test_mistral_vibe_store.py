"""The store of Mistral Vibe: its context is composed as it is sent, and a call that was compacted away stays."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, RecordedReceipt, Run
from dashboard.runs.compactions import load_compactions
from envelopes.recordings import find_container, mistral_vibe_store
from envelopes.recordings.base import (
    COMPACTION_SUMMARY,
    META,
    PARTIAL_COMPACTION,
    REWIND,
    ArtifactRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    RunRecord,
    SourcePath,
    UnreadableContainer,
)
from tests.envelopes.recordings.samples import FOLDER, Sample, lines_of, read_bytes
from tests.envelopes.session_lines import only

STORES = FOLDER / "mistral_vibe_store"
SENT: dict[str, str] = json.loads((STORES / "sent.json").read_bytes())
[CONTAINER] = mistral_vibe_store.CONTAINERS
[FORMAT] = mistral_vibe_store.FORMATS


def find_store(name: str) -> Path:
    [store] = (STORES / name).iterdir()
    return store


def compose(store: Path) -> bytes:
    [document] = CONTAINER.list_documents(store)
    return b"".join(CONTAINER.compose(store, document.name))


def read_store(name: str) -> Sample:
    return read_bytes(compose(find_store(name)), f"/srv/{name}/context.jsonl")


BEFORE, AFTER, REFUSED = map(read_store, ("before", "after", "refused"))


def message(text: str, role: str = "user", source: str = "history", **members: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"message": {"role": role, "content": content, **members}, "source": source, "turn_index": 0}


def read_messages(
    saved: dict[str, object], *messages: dict[str, Any], compactions: int = 0
) -> list[Record | LineProblem]:
    head = {"compaction_count": compactions, "store_format": mistral_vibe_store.STORE, "session": {"session_id": "s1"}}
    raw = b"".join(json.dumps(line).encode() + b"\n" for line in (head, *messages))
    return list(FORMAT.read(lines_of(raw), SourcePath("/srv/s1/context.jsonl"), saved))


def test_receipts_are_what_it_sent() -> None:
    hashes, rebuilt = dict[str, str](), list[str]()
    for record in (record for sample in (BEFORE, REFUSED) for record in only(ReceiptRecord, sample.records)):
        content = json.loads(record.content)
        text = content if isinstance(content, str) else "\n\n".join(block["text"].strip() for block in content)
        hashes[record.call] = hashlib.sha256(text.encode()).hexdigest()
        rebuilt += [record.call] if record.fidelity == "reconstructed" else []
    assert hashes == SENT
    assert len(rebuilt) == 1  # the answer of a program has two texts
    assert not BEFORE.problems + AFTER.problems + REFUSED.problems


@pytest.mark.parametrize(
    ("tool", "words", "ends"),
    [
        ("bash", "echo hello", [0]),
        ("bash", "exit 3", [3]),
        ("bash", "sleep 20", ["command_timed_out"]),
        ("bash", '"cmd"', ["invalid_tool_input"]),
        ("read_file", "missing.txt", ["missing_file"]),
        ("read_file", "empty.txt", [None]),
        ("edit", "not there", ["tool_execution_failed"]),
        ("write_file", "new.txt", [None]),
        ("todo", "write", [None]),
        ("run_typescript", "throw", ["tool_execution_failed"]),
        ("no_such_tool", "", ["unknown_tool"]),
    ],
)
def test_calls_end_as_their_receipts_state(tool: str, words: str, ends: list[Any]) -> None:
    assert BEFORE.ends(tool, words) == ends


def test_a_store_is_composed_of_the_messages_of_its_chunks() -> None:
    assert REFUSED.raw == (STORES / "refused.jsonl").read_bytes()
    head, *messages = map(json.loads, REFUSED.raw.splitlines())
    [chunk] = (find_store("refused") / "chunks").iterdir()
    assert messages == json.loads(chunk.read_bytes())
    assert head["session"]["session_id"] == find_store("refused").name


def test_calls_that_nobody_permitted_are_refused() -> None:
    assert REFUSED.ends("bash", "refused") == ["write_denied"]


def test_an_output_that_was_saved_is_cut_and_has_its_file() -> None:
    [artifact] = only(ArtifactRecord, BEFORE.records)
    cut = [call.call for call, halves in zip(BEFORE.calls, BEFORE.halves(), strict=True) if halves.is_cut]
    assert artifact.call in cut
    assert artifact.path.endswith(".json")


def test_a_summary_is_no_message_of_the_user() -> None:
    kinds = [record.kind for record in only(MessageRecord, AFTER.records)]
    assert (kinds.count(COMPACTION_SUMMARY), kinds.count(META)) == (1, 1)
    assert [run.title for run in only(RunRecord, BEFORE.records) if run.title] == ["SCRIPT:main go"]


def test_what_a_later_version_lacks_has_left_by_a_compaction_or_because_a_person_went_back() -> None:
    saved: dict[str, object] = {}
    one, two, three = (message(text) for text in ("one", "two", "three"))
    assert not only(EventRecord, read_messages(saved, one, two, three))
    records = read_messages(saved, one, three, message("four"))
    [event] = only(EventRecord, records)
    assert (event.kind, json.loads(event.payload)["left"]) == (REWIND, [2, 3])
    assert [record.place for record in only(MessageRecord, records)] == [1, 3, 5]
    records = read_messages(saved, message("a summary", source="injection"), one, compactions=1)
    [event] = only(EventRecord, records)
    assert (event.kind, json.loads(event.payload)["kept"]) == (PARTIAL_COMPACTION, [1])


def test_a_document_whose_first_line_is_damaged_is_a_problem() -> None:
    raw = b'{"store_format": "x"\n' + json.dumps(message("one")).encode()
    [problem] = FORMAT.read(lines_of(raw), SourcePath("/srv/s1/context.jsonl"), {})
    assert isinstance(problem, LineProblem)
    assert problem.line == 1


def test_equal_messages_have_places_of_their_own() -> None:
    records = read_messages({}, message("go on"), message("go on"))
    assert [record.place for record in only(MessageRecord, records)] == [1, 2]


@pytest.mark.parametrize("damage", ["CURRENT", "manifest.json", "checkpoint.json"])
def test_a_damaged_store_is_refused_with_a_reason(damage: str, tmp_path: Path) -> None:
    store = shutil.copytree(find_store("before"), tmp_path / "store")
    [path] = store.rglob(damage)
    path.write_text("{")
    with pytest.raises(UnreadableContainer, match="damaged"):
        list(CONTAINER.compose(store, mistral_vibe_store.DOCUMENT))
    assert find_container(store) is CONTAINER
    assert find_container(tmp_path) is None


@pytest.mark.django_db
@pytest.mark.postgresql
def test_calls_that_were_imported_before_a_compaction_stay(project: Project, tmp_path: Path) -> None:
    store = tmp_path / "unified" / find_store("before").name
    shutil.copytree(find_store("before"), store)
    assert not import_paths(project, [tmp_path]).problems
    shutil.rmtree(store)
    shutil.copytree(find_store("after"), store)
    assert not import_paths(project, [tmp_path]).problems
    run = Run.objects.get()
    assert run.call_count == Call.objects.count() == len(BEFORE.calls)
    assert RecordedReceipt.objects.filter(run=run).count() == len(BEFORE.calls)
    [compaction] = load_compactions(run)
    assert compaction.is_partial or compaction.kept is not None
    assert not import_paths(project, [tmp_path]).added["calls"]
