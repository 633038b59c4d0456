"""OpenCode's own storage: a session is composed as its export, and what is damaged costs no other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from envelopes.recordings import find_container
from envelopes.recordings.base import UnreadableContainer
from tests.envelopes.recordings.opencode_storage import Json, print_export, read_export, write_database, write_files

NEWEST = read_export("1.18.33")
COMPACTED = read_export("1.18.33_compacted")
LATER_COLUMNS = ("path", "agent", "model", "cost", "tokens")  # of a session, which 1.2 did not have


def change(document: Json, **info: object) -> Json:
    """An export with other members of its session; None leaves one out. Their order is that of the releases."""
    order = (
        *("id", "slug", "projectID", "workspaceID", "directory", "path", "parentID", "title", "agent", "model"),
        *("version", "summary", "cost", "tokens", "share", "metadata", "revert", "permission", "time"),
    )
    members = document["info"] | info
    return {**document, "info": {name: members[name] for name in order if members.get(name) is not None}}


def read_document(path: Path, number: int = 0) -> bytes:
    container = find_container(path)
    assert container
    return b"".join(container.compose(path, list(container.list_documents(path))[number].name))


@pytest.mark.parametrize("document", [NEWEST, COMPACTED], ids=["a tour", "compacted"])
def test_a_session_of_the_database_is_composed_as_its_export(tmp_path: Path, document: Json) -> None:
    path = write_database(tmp_path / "opencode.db", [document])
    assert read_document(path) == print_export(document)


@pytest.mark.parametrize(
    "info",
    [
        {"parentID": "ses_parent", "share": {"url": "https://opncd.ai/share/a"}, "summary": None},
        {"revert": {"messageID": "msg_1", "snapshot": "5ea4"}, "metadata": {"a": ["ü\u2028", 1e21]}},
        {"title": 'a "title"\n\x7f'},
        {"time": {"created": 1, "updated": 2, "compacting": 3, "archived": 4}},
    ],
)
def test_each_member_of_a_session_is_printed_as_an_export_prints_it(tmp_path: Path, info: Json) -> None:
    document = change(NEWEST, **info)
    assert read_document(write_database(tmp_path / "opencode.db", [document])) == print_export(document)


@pytest.mark.parametrize(
    ("cost", "printed"), [(0.0, b"0"), (1.25e-08, b"1.25e-8"), (0.000001234, b"0.000001234"), (12.5, b"12.5")]
)
def test_numbers_are_those_of_javascript(tmp_path: Path, cost: float, printed: bytes) -> None:
    path = write_database(tmp_path / "opencode.db", [change(NEWEST, cost=cost)])
    assert b'\n    "cost": %b,\n' % printed in read_document(path)


def test_the_first_releases_with_a_database_had_fewer_columns(tmp_path: Path) -> None:
    document = change(NEWEST, **dict.fromkeys(LATER_COLUMNS))
    path = write_database(tmp_path / "opencode.db", [document], "1.2.1")
    assert read_document(path) == print_export(document)


def test_a_session_of_files_is_composed_as_its_export(tmp_path: Path) -> None:
    document = read_export("1.1.65")
    folder = write_files(tmp_path / "storage", document)
    assert read_document(folder) == print_export(document)
    container = find_container(folder)
    assert container
    [before] = container.list_documents(folder)
    part = next(folder.glob("part/*/*.json"))
    part.write_bytes(part.read_bytes() + b"\n")
    assert [entry.version == before.version for entry in container.list_documents(folder)] == [False]


@pytest.mark.parametrize("name", ["../session/p/ses_1.json", "ses_%2E%2E%2Fx.json", "ses_1.json", "*.json"])
def test_a_name_leads_to_no_other_file(tmp_path: Path, name: str) -> None:
    folder = write_files(tmp_path / "storage", read_export("1.1.65"))
    database = write_database(tmp_path / "opencode.db", [NEWEST])
    for path in (folder, database):
        container = find_container(path)
        assert container
        with pytest.raises(FileNotFoundError):
            b"".join(container.compose(path, name))


@pytest.mark.parametrize(
    "change_row",
    [
        "UPDATE part SET time_updated = 9000000000000 WHERE id = (SELECT id FROM part LIMIT 1)",
        "DELETE FROM part WHERE id = (SELECT id FROM part ORDER BY time_updated LIMIT 1)",
        "UPDATE message SET time_updated = 9000000000000 WHERE id = (SELECT id FROM message LIMIT 1)",
        "UPDATE session SET title = 'another'",
    ],
)
def test_another_row_is_another_version(tmp_path: Path, change_row: str) -> None:
    path = write_database(tmp_path / "opencode.db", [NEWEST])
    container = find_container(path)
    assert container
    before = list(container.list_documents(path))
    assert list(container.list_documents(path)) == before
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(change_row)
    assert list(container.list_documents(path)) != before


def test_a_row_that_is_no_json_costs_its_own_part_alone(tmp_path: Path) -> None:
    path = write_database(tmp_path / "opencode.db", [NEWEST])
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE part SET data = '{broken' WHERE id = (SELECT max(id) FROM part)")
    text = read_document(path)
    assert text.count(b'"type": "tool"') == print_export(NEWEST).count(b'"type": "tool"')
    assert b'"{broken"' in text


def test_what_a_writer_has_not_committed_is_not_read_and_it_is_not_locked_out(tmp_path: Path) -> None:
    path = write_database(tmp_path / "opencode.db", [NEWEST])
    with closing(sqlite3.connect(path, timeout=0)) as writer:
        writer.execute("UPDATE session SET title = 'another'")
        container = find_container(path)
        assert container
        pieces = container.compose(path, f"{NEWEST['info']['id']}.json")
        first = next(pieces)
        writer.commit()
        assert b"another" not in first + b"".join(pieces)
    assert b'"title": "another"' in read_document(path)


def test_a_copy_without_its_journal_is_read(tmp_path: Path) -> None:
    source = write_database(tmp_path / "opencode.db", [NEWEST])
    copy = tmp_path / "copy" / "opencode.db"
    copy.parent.mkdir()
    copy.write_bytes(source.read_bytes())
    assert read_document(copy) == print_export(NEWEST)


@pytest.mark.parametrize(
    ("name", "content"),
    [("other.db", None), ("other.db", b"SQLite format 3\0" + b"x" * 5_000), ("opencode.db", b""), ("a.db", b"{}")],
)
def test_a_database_of_others_is_no_container(tmp_path: Path, name: str, content: bytes | None) -> None:
    path = tmp_path / name
    if content is None:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE session (id text)")
    else:
        path.write_bytes(content)
    assert find_container(path) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"SQLite format 3\0" + b"x" * 5_000, "file is not a database"), (None, "no such column")],
)
def test_a_damaged_database_and_one_of_a_later_release_give_the_reason(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "opencode.db"
    if content is not None:
        path.write_bytes(content)
    else:
        with closing(sqlite3.connect(path)) as database, database:
            database.executescript("CREATE TABLE session (a); CREATE TABLE message (a); CREATE TABLE part (a);")
    container = find_container(path)
    assert container
    with pytest.raises(UnreadableContainer, match=reason):
        list(container.list_documents(path))
