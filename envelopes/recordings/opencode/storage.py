"""The storage of OpenCode, whose sessions are read without an export: a database, or a folder of files before 1.2.

1. A session is composed as `opencode export` prints it, byte for byte: of the same members in the same order. Only of
   messages of the same millisecond 1.2 printed the later one first.
2. The database has rows for sessions, messages and parts; `data` of a row is JSON without the ids, which are columns.
   The columns of a session differ between releases, and an export has only what the release had.
3. Of files, `session/<project>/<session>.json`, `message/<session>/<message>.json` and `part/<message>/<part>.json`
   have an object each, which is printed as it is.
4. The time of a session does not change with its parts, so a version is made of the times of all its rows.
5. OpenCode may be writing: the database is opened for reading alone, and a session is read in one transaction.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from envelopes.recordings.base import Container, StoredDocument, UnreadableContainer
from envelopes.text.untrusted_json import Untrusted, join_object, object_slices, parse_json

SQLITE = b"SQLite format 3\0"
SUFFIX = ".json"
DATABASES = (".db", ".sqlite", ".sqlite3")  # the database has another name in other channels, and where a user sets one
NAMES = ("opencode", "kilo")  # of the database: Kilo Code, a fork, has the same storage
BUSY_SECONDS = 2.0
TABLES = {"session", "message", "part"}
FOLDERS = ("session", "message", "part")
LIST = """
SELECT session.*, rows.* FROM session LEFT JOIN (
    SELECT session_id, sum(messages) AS messages, max(changed) AS changed, sum(parts) AS parts FROM (
        SELECT session_id, count(*) AS messages, max(time_updated) AS changed, 0 AS parts FROM message GROUP BY 1
        UNION ALL SELECT session_id, 0, max(time_updated), count(*) FROM part GROUP BY 1
    ) GROUP BY session_id
) AS rows ON rows.session_id = session.id ORDER BY session.time_created, session.id
"""
MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
PARTS = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
Row = Mapping[str, Any]
Messages = Iterable[tuple[bytes, Iterable[bytes]]]  # each with its parts


def _is_database(path: Path) -> bool:
    """A damaged database is recognised by its name, so that its fault is reported."""
    if path.suffix not in DATABASES or not os.path.isfile(path):  # opening a pipe would wait
        return False
    try:
        with path.open("rb") as file:
            if file.read(len(SQLITE)) != SQLITE:
                return False
        with _connect(path) as database:
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except UnreadableContainer:
        return path.name.startswith(NAMES)
    except OSError:
        return False
    return {name.decode("utf-8", "replace") for (name,) in names} >= TABLES


@contextmanager
def _connect(path: Path) -> Iterator[sqlite3.Connection]:
    """The database for reading, in one transaction. Raises UnreadableContainer."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        try:
            database = _begin(address)
        except sqlite3.OperationalError:
            # Reading needs -wal and -shm or a folder where they can be made. Without -wal nobody has the database open.
            if path.with_name(f"{path.name}-wal").exists():
                raise
            database = _begin(f"{address}&immutable=1")
        with closing(database):
            yield database
    except sqlite3.Error as error:
        raise UnreadableContainer(str(error)) from error


def _begin(address: str) -> sqlite3.Connection:
    database = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        database.text_factory = bytes  # what is no UTF-8 is a fault of its row alone
        database.row_factory = sqlite3.Row
        database.execute("BEGIN")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        database.close()
        raise
    return database


def _list_rows(path: Path) -> Iterator[StoredDocument]:
    try:
        yield from _list_versions(path)
    except UnreadableContainer:  # a page of one session may be damaged: then each is read, and refused, by itself
        with _connect(path) as database:
            for (key,) in database.execute("SELECT id FROM session ORDER BY time_created, id").fetchall():
                yield StoredDocument(_name(_text(key)), "")


def _list_versions(path: Path) -> Iterator[StoredDocument]:
    with _connect(path) as database:
        for row in database.execute(LIST):
            values = dict(row)
            counts = b"%d.%d.%d." % tuple(values[name] or 0 for name in ("messages", "changed", "parts"))
            yield StoredDocument(_name(_text(row["id"])), (counts + _digest(_join_info(values))).decode())


def _compose_row(path: Path, name: str) -> Iterator[bytes]:
    with _connect(path) as database:
        key = unquote(name.removesuffix(SUFFIX))
        row = database.execute("SELECT * FROM session WHERE id = ?", (key,)).fetchone()
        if row is None:
            raise FileNotFoundError(2, "the database has no such session")
        yield from _print_session(_join_info(dict(row)), _select_messages(database, key))


def _select_messages(database: sqlite3.Connection, session: str) -> Messages:
    ids = {"sessionID": _quote(session)}
    for message in database.execute(MESSAGES, (session,)):
        key = _text(message["id"])
        named = {**ids, "messageID": _quote(key)}
        parts = database.execute(PARTS, (key,))
        yield (
            _add_ids(message["data"], {"id": _quote(key), **ids}),
            (_add_ids(part["data"], {"id": _quote(_text(part["id"])), **named}) for part in parts),
        )


def _add_ids(data: object, ids: Mapping[str, bytes]) -> bytes:
    """The object of a row with its ids; a string for what is none, which the reader refuses by itself."""
    raw = data if isinstance(data, bytes) else b""
    try:
        return join_object({**object_slices(raw), **ids})
    except Untrusted:
        return _quote(_text(data))


def _join_info(row: Row) -> bytes:
    """The session as its columns describe it, as far as they are set: a release has not all of them."""
    has_usage = row.get("cost") is not None  # releases without it print neither the agent nor the model
    counts = {name: row.get(f"summary_{name}") for name in ("additions", "deletions", "files")}
    cache = {name: _number(row.get(f"tokens_cache_{name}")) for name in ("read", "write")}
    tokens = {name: _number(row.get(f"tokens_{name}")) for name in ("input", "output", "reasoning")}
    times = {name: row.get(f"time_{name}") for name in ("created", "updated", "compacting", "archived")}
    info = {
        **_texts(row, id="id", slug="slug", projectID="project_id", workspaceID="workspace_id", directory="directory"),
        **_texts(row, path="path", parentID="parent_id", title="title"),
        **(_texts(row, agent="agent") | _documents(row, model="model") if has_usage else {}),
        **_texts(row, version="version"),
    }
    if any(value is not None for value in counts.values()):
        summary = {name: _number(value) for name, value in counts.items()}
        info["summary"] = join_object(summary | _documents(row, diffs="summary_diffs"))
    if has_usage:
        info |= {"cost": _number(row["cost"]), "tokens": join_object({**tokens, "cache": join_object(cache)})}
    if row.get("share_url"):
        info["share"] = join_object(_texts(row, url="share_url"))
    info |= _documents(row, metadata="metadata", revert="revert", permission="permission")
    info["time"] = join_object({name: _number(value) for name, value in times.items() if value is not None})
    return join_object(info)


def _texts(row: Row, **columns: str) -> dict[str, bytes]:
    """The members with these columns, without those that are not set."""
    return {name: _quote(_text(row[column])) for name, column in columns.items() if row.get(column) is not None}


def _documents(row: Row, **columns: str) -> dict[str, bytes]:
    return {name: _json(row[column]) for name, column in columns.items() if row.get(column) is not None}


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _json(value: object) -> bytes:
    """The JSON of a column; a string of what is none."""
    raw = value if isinstance(value, bytes) else _text(value).encode()
    try:
        parse_json(raw)
    except Untrusted:
        return _quote(_text(raw))
    return raw


def _number(value: object) -> bytes:
    """The number in JavaScript's words; zero for a column that is not set."""
    if not isinstance(value, float):
        return str(value).encode() if isinstance(value, int) else b"0"
    if value.is_integer():
        return b"%d" % int(value)
    digits, _, exponent = repr(value).partition("e")
    is_plain = not exponent or int(exponent) >= -6
    return (f"{Decimal(repr(value)):f}" if is_plain else f"{digits}e{int(exponent):+d}").encode()


def _quote(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _is_folder(path: Path) -> bool:
    """False for a folder that may not be entered."""
    return all(os.path.isdir(path / name) for name in FOLDERS)  # `Path.is_dir` raises PermissionError


def _list_files(path: Path) -> Iterator[StoredDocument]:
    for file in sorted(path.glob(f"session/*/*{SUFFIX}")):
        messages = _sorted_files(path / "message" / file.stem)
        files = [file, *messages, *(part for message in messages for part in _sorted_files(_parts_of(path, message)))]
        states = [(name.name, name.stat()) for name in files]
        described = "\n".join(f"{name} {state.st_size} {state.st_mtime_ns}" for name, state in states)
        yield StoredDocument(_name(file.stem), _digest(described.encode()).decode())


def _compose_files(path: Path, name: str) -> Iterator[bytes]:
    key = unquote(name.removesuffix(SUFFIX))
    file = next((file for file in path.glob(f"session/*/*{SUFFIX}") if file.stem == key), None)
    if file is None:
        raise FileNotFoundError(2, "the folder has no such session")
    messages = _sorted_files(path / "message" / key)
    yield from _print_session(
        file.read_bytes(),
        (
            (message.read_bytes(), (part.read_bytes() for part in _sorted_files(_parts_of(path, message))))
            for message in messages
        ),
    )


def _parts_of(path: Path, message: Path) -> Path:
    return path / "part" / message.stem


def _sorted_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def _print_session(info: bytes, messages: Messages) -> Iterator[bytes]:
    """The document, a message at a time."""
    yield b'{\n  "info": ' + _indent(info, 1)
    yield b',\n  "messages": '
    yield from _print_list((_print_message(*message) for message in messages), 2)
    yield b"\n}\n"


def _print_message(info: bytes, parts: Iterable[bytes]) -> bytes:
    printed = _print_list((_indent(part, 4) for part in parts), 4)
    return b'{\n      "info": %b,\n      "parts": %b\n    }' % (_indent(info, 3), b"".join(printed))


def _print_list(elements: Iterable[bytes], depth: int) -> Iterator[bytes]:
    separator = b"["
    for element in elements:
        yield separator + b"\n" + b"  " * depth + element
        separator = b","
    yield b"[]" if separator == b"[" else b"\n" + b"  " * (depth - 1) + b"]"


def _indent(raw: bytes, depth: int) -> bytes:
    """JSON as `JSON.stringify` prints it with two spaces; a string for what is no JSON."""
    try:
        printed = msgspec.json.format(raw, indent=2)
    except (msgspec.DecodeError, RecursionError):
        try:  # half of a surrogate pair, for instance
            value = parse_json(raw)
        except Untrusted:
            return _quote(_text(raw))
        printed = json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return printed.replace(b"\n", b"\n" + b"  " * depth)


def _name(key: str) -> str:
    return quote(key, safe="") + SUFFIX


def _digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).hexdigest()[:16].encode()


CONTAINERS = (
    Container(title="OpenCode database", matches=_is_database, list_documents=_list_rows, compose=_compose_row),
    Container(title="OpenCode storage", matches=_is_folder, list_documents=_list_files, compose=_compose_files),
)
