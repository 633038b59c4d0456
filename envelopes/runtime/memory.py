"""MemorySearch and MemoryGet, over a SQLite file with a full-text index.

The runtime stores what is worth remembering with `remember`; the model searches and reads. A memory of the agent is
found in every workspace, one of a workspace in its own, or in all of them when a search asks for that.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from envelopes.families.memory.results import (
    MAX_CHARS,
    SNIPPET_CHARACTERS,
    FoundMemories,
    FoundMemory,
    Memory,
    ReadMemory,
    found_outcome,
    memory_outcome,
)
from envelopes.families.memory.tools import LIMIT, SOURCE_REF, MemoryGetInput, MemorySearchInput
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.workers import CallContext
from envelopes.schema.result import CompleteOutput
from envelopes.schema.timestamps import format_instant

TABLES = """
CREATE TABLE IF NOT EXISTS memory (
    id INTEGER PRIMARY KEY, source_ref TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, workspace TEXT, source_path TEXT,
    title TEXT NOT NULL, content TEXT NOT NULL, metadata BLOB NOT NULL, updated_at REAL NOT NULL
);
CREATE VIRTUAL TABLE IF NOT EXISTS memory_words
    USING fts5(title, content, content='memory', content_rowid='id', tokenize='unicode61');
CREATE TRIGGER IF NOT EXISTS memory_added AFTER INSERT ON memory BEGIN
    INSERT INTO memory_words (rowid, title, content) VALUES (new.id, new.title, new.content);
END;
CREATE TRIGGER IF NOT EXISTS memory_gone AFTER DELETE ON memory BEGIN
    INSERT INTO memory_words (memory_words, rowid, title, content) VALUES ('delete', old.id, old.title, old.content);
END;
"""
COLUMNS = "source_ref, kind, workspace, source_path, title, content, metadata, updated_at"
COLUMNS_FOUND = ", ".join(f"memory.{column}" for column in COLUMNS.split(", "))
# A title counts five times as much as the content. FTS5's rank is the smaller the better.
SEARCH = f"""
SELECT {COLUMNS_FOUND}, snippet(memory_words, 1, '', '', ' … ', 40), bm25(memory_words, 5.0, 1.0) AS rank
FROM memory_words JOIN memory ON memory.id = memory_words.rowid
WHERE memory_words MATCH ? AND (? OR workspace IS NULL OR workspace = ?) ORDER BY rank, memory.id LIMIT ?
"""  # noqa: S608 - names of this module
WORD = re.compile(r"\w+")
MOST_WORDS = 64


class MemoryTools:
    """The memory of one agent. `path` is the SQLite file, `workspace_id` the workspace in which it works now."""

    def __init__(
        self,
        path: Path,
        *,
        agent_id: str = "agent_main",
        workspace_id: str = "workspace",
        now: Callable[[], float] = time.time,
    ) -> None:
        self._agent_id, self._workspace_id, self._now = agent_id, workspace_id, now
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.executescript(TABLES)

    def tools(self) -> tuple[Tool, ...]:
        runs: dict[str, Callable[[Any, CallContext], CompleteOutput]] = {
            "MemorySearch": self.search,
            "MemoryGet": self.get,
        }
        return tuple(Tool.built_in(name, run) for name, run in runs.items())

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def remember(
        self,
        source_ref: str,
        title: str,
        content: str,
        *,
        is_of_agent: bool = False,
        source_path: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Stores a memory, or replaces the one with this handle, such as `brief:b1`. Raises ValueError for another."""
        if re.fullmatch(SOURCE_REF, source_ref) is None:
            raise ValueError(f"{source_ref!r} is no handle of a memory: brief:b1, work_item:wi_7")
        workspace = None if is_of_agent else self._workspace_id
        packed = msgspec.json.encode(dict(metadata or {}))
        row = (source_ref, source_ref.partition(":")[0], workspace, source_path, title, content, packed, self._now())
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._database.execute("DELETE FROM memory WHERE source_ref = ?", (source_ref,))
                self._database.execute(f"INSERT INTO memory ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def search(self, call: MemorySearchInput, _context: CallContext) -> CompleteOutput:
        """Every word counts for itself: a memory with more of them, and with rarer ones, stands before others."""
        words = WORD.findall(call.query)[:MOST_WORDS]
        found: list[Any] = []
        if words:
            query = " OR ".join(f'"{word}"' for word in words)
            values = (query, call.include_all_workspaces, self._workspace_id, call.limit or LIMIT)
            with self._lock:
                found = self._database.execute(SEARCH, values).fetchall()
        results = tuple(
            FoundMemory(**self._head(row), snippet=row[8][:SNIPPET_CHARACTERS], score=round(-row[9], 4))
            for row in found
        )
        result = FoundMemories(query=call.query, results=results)
        return CompleteOutput.success("MemorySearch", found_outcome(result), result)

    def get(self, call: MemoryGetInput, _context: CallContext) -> CompleteOutput:
        statement = f"SELECT {COLUMNS} FROM memory WHERE source_ref = ?"  # noqa: S608 - names of this module
        with self._lock:
            row = self._database.execute(statement, (call.source_ref,)).fetchone()
        if row is None:
            raise ToolFailed(
                "memory_source_not_found",
                f"there is no memory {call.source_ref}",
                details={"source_ref": call.source_ref},
                recovery_hint="copy a source_ref from a result of MemorySearch",
            )
        most, content = call.max_chars or MAX_CHARS, row[5]
        memory = Memory(**self._head(row), content=content[:most], truncated=len(content) > most)
        read = ReadMemory(memory=memory, max_chars=most)
        return CompleteOutput.success("MemoryGet", memory_outcome(read), read)

    def _head(self, row: Any) -> dict[str, Any]:
        """The fields that a search and a reading have in common."""
        source_ref, kind, workspace, source_path, title, _, metadata, updated_at = row[:8]
        return {
            "kind": kind,
            "source_ref": source_ref,
            "scope_kind": "agent" if workspace is None else "workspace",
            "workspace_id": workspace,
            "agent_id": self._agent_id,
            "source_path": source_path,
            "title": title,
            "updated_at": format_instant(updated_at, timespec="milliseconds"),
            "metadata": msgspec.json.decode(metadata),
        }
