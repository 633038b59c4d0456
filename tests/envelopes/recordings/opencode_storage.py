"""The storage of OpenCode as its releases make it, filled from exports: the bytes of an export come out of it again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.conftest import CHECKOUT

RELEASES = CHECKOUT / "tests" / "envelopes" / "recordings" / "releases"
# The statements of the releases, without their foreign keys.
ROWS = """
CREATE TABLE `message` (`id` text PRIMARY KEY, `session_id` text NOT NULL, `time_created` integer NOT NULL,
    `time_updated` integer NOT NULL, `data` text NOT NULL);
CREATE TABLE `part` (`id` text PRIMARY KEY, `message_id` text NOT NULL, `session_id` text NOT NULL,
    `time_created` integer NOT NULL, `time_updated` integer NOT NULL, `data` text NOT NULL);
CREATE INDEX `part_session_idx` ON `part` (`session_id`);
"""
SESSIONS = {
    "1.2.1": """
CREATE TABLE `session` (`id` text PRIMARY KEY, `project_id` text NOT NULL, `parent_id` text, `slug` text NOT NULL,
    `directory` text NOT NULL, `title` text NOT NULL, `version` text NOT NULL, `share_url` text,
    `summary_additions` integer, `summary_deletions` integer, `summary_files` integer, `summary_diffs` text,
    `revert` text, `permission` text, `time_created` integer NOT NULL, `time_updated` integer NOT NULL,
    `time_compacting` integer, `time_archived` integer);
""",
    "1.18.33": """
CREATE TABLE `session` (`id` text PRIMARY KEY, `project_id` text NOT NULL, `workspace_id` text, `parent_id` text,
    `slug` text NOT NULL, `directory` text NOT NULL, `path` text, `title` text NOT NULL, `version` text NOT NULL,
    `share_url` text, `summary_additions` integer, `summary_deletions` integer, `summary_files` integer,
    `summary_diffs` text, `metadata` text, `cost` real DEFAULT 0 NOT NULL, `tokens_input` integer DEFAULT 0 NOT NULL,
    `tokens_output` integer DEFAULT 0 NOT NULL, `tokens_reasoning` integer DEFAULT 0 NOT NULL,
    `tokens_cache_read` integer DEFAULT 0 NOT NULL, `tokens_cache_write` integer DEFAULT 0 NOT NULL, `revert` text,
    `permission` text, `agent` text, `model` text, `time_created` integer NOT NULL, `time_updated` integer NOT NULL,
    `time_compacting` integer, `time_archived` integer);
""",
}
Json = dict[str, Any]


def read_export(release: str) -> Json:
    document: Json = json.loads((RELEASES / f"opencode_{release}.json").read_bytes())
    return document


def print_export(document: Json) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def write_database(path: Path, documents: Iterable[Json], release: str = "1.18.33") -> Path:
    """Makes the database, or replaces the rows of these sessions in it."""
    is_new = not path.exists()
    with closing(sqlite3.connect(path)) as database, database:
        if is_new:
            database.executescript(f"PRAGMA journal_mode = WAL; {SESSIONS[release]} {ROWS}")
        for document in documents:
            _write_session(database, document)
    return path


def _write_session(database: sqlite3.Connection, document: Json) -> None:
    info = document["info"]
    key = info["id"]
    for table, column in (("session", "id"), ("message", "session_id"), ("part", "session_id")):
        database.execute(f"DELETE FROM {table} WHERE {column} = ?", (key,))
    tokens = info.get("tokens", {})
    columns: Json = {
        "id": key,
        "project_id": info["projectID"],
        "parent_id": info.get("parentID"),
        "slug": info["slug"],
        **{name: info.get(name) for name in ("directory", "path", "title", "version", "agent", "cost")},
        **{f"summary_{name}": count for name, count in info.get("summary", {}).items()},
        **{f"time_{name}": time for name, time in info["time"].items()},
        **{f"tokens_{name}": tokens[name] for name in ("input", "output", "reasoning") if tokens},
        **{f"tokens_cache_{name}": count for name, count in tokens.get("cache", {}).items()},
        **{name: compact(info[name]) for name in ("model", "permission", "revert", "metadata") if name in info},
        "share_url": info.get("share", {}).get("url"),
    }
    given = {name: value for name, value in columns.items() if value is not None}
    marks = ", ".join("?" * len(given))
    database.execute(f"INSERT INTO session ({', '.join(given)}) VALUES ({marks})", list(given.values()))
    for message in document["messages"]:
        ids = {"id", "sessionID", "messageID"}
        data = {name: value for name, value in message["info"].items() if name not in ids}
        created = data["time"]["created"]
        row = (message["info"]["id"], key, created, created, compact(data))
        database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
        for part in message["parts"]:
            data = {name: value for name, value in part.items() if name not in ids}
            changed = created + len(compact(data))  # another time once it is another part
            database.execute(
                "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)",
                (part["id"], message["info"]["id"], key, created, changed, compact(data)),
            )


def write_files(folder: Path, document: Json) -> Path:
    """The folder `storage` of releases before 1.2."""
    info = document["info"]
    files = {f"session/{info['projectID']}/{info['id']}": info}
    for message in document["messages"]:
        key = message["info"]["id"]
        files[f"message/{info['id']}/{key}"] = message["info"]
        files |= {f"part/{key}/{part['id']}": part for part in message["parts"]}
    for name, value in files.items():
        path = folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=2))
    return folder
