"""MemorySearch and MemoryGet, over a SQLite file with a full-text index.

    MemoryTools         both tools; the runtime stores with `remember`, or gives `sources`
    work_item_sources   work items, and the reports of those that were completed
    task_sources        the results of commands that became tasks, and the reports of child agents

The sources are read before each search and each reading. A memory of the agent is found in every workspace, one of a
workspace in its own, or in all of them when a search asks for that.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from envelopes.families.memory.results import (
    MAX_CHARS,
    MOST_CHARS,
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
from envelopes.runtime.tasks import TaskTable
from envelopes.runtime.work_items import WorkItemTools
from envelopes.runtime.workspaces import Workspaces
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
STORED = f"SELECT {COLUMNS.removesuffix(', updated_at')} FROM memory WHERE source_ref = ?"  # noqa: S608 - as below
INSERT = f"INSERT INTO memory ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - as below
COLUMNS_FOUND = ", ".join(f"memory.{column}" for column in COLUMNS.split(", "))
# A title counts five times as much as the content. FTS5's rank is the smaller the better.
SEARCH = f"""
SELECT {COLUMNS_FOUND}, snippet(memory_words, 1, '', '', ' … ', 40), bm25(memory_words, 5.0, 1.0) AS rank
FROM memory_words JOIN memory ON memory.id = memory_words.rowid
WHERE memory_words MATCH ? AND (? OR workspace IS NULL OR workspace = ?) ORDER BY rank, memory.id LIMIT ?
"""  # noqa: S608 - names of this module
WORD = re.compile(r"\w+")
MOST_WORDS = 64
# Thai, Lao, Burmese, Khmer, Kana and Han have no blanks between words, and in Hangul particles follow a word directly.
# To the index such a sentence is one word, so what contains a pair of its characters is looked for.
UNBROKEN = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
PAIR_SCORE = "5.0 * (instr(title, ?) > 0) + (instr(content, ?) > 0)"
MOST_PAIRS = 16  # each reads the whole memory of the workspace
BEFORE_PAIR = 40  # characters of a snippet
MOST_CONTENT = MOST_CHARS - 200  # of a task's result; with its status it fits into the longest reading


class MemorySource(NamedTuple):
    """A text to be stored as a memory, the agent's where it names no workspace."""

    source_ref: str
    title: str
    content: str
    workspace_id: str | None
    metadata: Mapping[str, Any]


def work_item_sources(items: WorkItemTools) -> Iterator[MemorySource]:
    """Each work item as `work_item:wi_7`, and its completion report as `brief:wi_7`."""
    for view in items.views():
        plan = "" if view.plan_artifact is None else view.plan_artifact.text
        todos = "\n".join(f"- {todo.text} ({todo.state})" for todo in view.todo_list or ())
        content = "\n\n".join(part for part in (view.state, plan, todos) if part)
        metadata = {"work_item_id": view.id, "state": view.state}
        yield MemorySource(f"work_item:{view.id}", view.objective, content, view.workspace_id, metadata)
        if (report := view.completion_report) is not None:
            yield MemorySource(f"brief:{view.id}", view.objective, report.text, view.workspace_id, metadata)


def task_sources(tasks: TaskTable, run_id: str) -> Iterator[MemorySource]:
    """Each ended task as `task:` with the run and its id, because every run begins with task_1."""
    for task in tasks.ended():
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", f"{run_id}.{task.task_id}")
        metadata = {"run_id": run_id, "task_id": task.task_id, "kind": task.kind, "status": task.status}
        content = task.describe_result(MOST_CONTENT)
        yield MemorySource(f"task:{name}", task.title, content, task.workspace_id, metadata)


class MemoryTools:
    """The memory of one agent, in the SQLite file `path`.

    `workspaces` knows in which workspace the agent works now; without them it is always `workspace_id`.
    """

    def __init__(
        self,
        path: Path,
        *,
        agent_id: str = "agent_main",
        workspace_id: str = "workspace",
        workspaces: Workspaces | None = None,
        sources: Iterable[Callable[[], Iterable[MemorySource]]] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._agent_id, self._fixed_id, self._workspaces, self._now = agent_id, workspace_id, workspaces, now
        self._sources = tuple(sources)
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

    @property
    def _workspace_id(self) -> str:
        return self._fixed_id if self._workspaces is None else self._workspaces.active.workspace_id

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
        self._store(MemorySource(source_ref, title, content, workspace, metadata or {}), source_path)

    def read_sources(self) -> None:
        """Stores what changed in the sources since they were read."""
        for read in self._sources:
            for source in read():
                self._store(source)

    def _store(self, source: MemorySource, source_path: str | None = None) -> None:
        kind = source.source_ref.partition(":")[0]
        # SQLite takes no lone surrogate, which the output of a tool may have.
        title, content = (text.encode("utf-8", "replace").decode() for text in (source.title, source.content))
        packed = msgspec.json.encode(dict(source.metadata))
        row = (source.source_ref, kind, source.workspace_id, source_path, title, content, packed)
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                if self._database.execute(STORED, row[:1]).fetchone() != row:
                    self._database.execute("DELETE FROM memory WHERE source_ref = ?", row[:1])
                    self._database.execute(INSERT, (*row, self._now()))
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def search(self, call: MemorySearchInput, _context: CallContext) -> CompleteOutput:
        """Every word counts for itself: a memory with more of them, and with rarer ones, stands before others."""
        self.read_sources()
        limit, scope = call.limit or LIMIT, (call.include_all_workspaces, self._workspace_id)
        hits: list[tuple[Any, str, float]] = []
        if words := WORD.findall(call.query)[:MOST_WORDS]:
            query = " OR ".join(f'"{word}"' for word in words)
            hits += [(row, row[8], -row[9]) for row in self._select(SEARCH, (query, *scope, limit))]
        if pairs := find_pairs(call.query):
            sum_of_pairs = " + ".join(PAIR_SCORE for _ in pairs)
            statement = (
                f"SELECT {COLUMNS}, {sum_of_pairs} AS score FROM memory WHERE (? OR workspace IS NULL OR workspace = ?)"  # noqa: S608
                " AND score > 0 ORDER BY score DESC, id LIMIT ?"
            )
            doubled = [pair for pair in pairs for _ in range(2)]
            rows = self._select(statement, (*doubled, *scope, limit))
            hits += [(row, cut_around(row[5], pairs), row[8] / len(pairs)) for row in rows]
        scores: defaultdict[str, float] = defaultdict(float)
        shown: dict[str, tuple[Any, str]] = {}
        for row, snippet, score in hits:
            scores[row[0]] += score
            shown.setdefault(row[0], (row, snippet))
        results = tuple(
            FoundMemory(**self._head(row), snippet=snippet[:SNIPPET_CHARACTERS], score=round(scores[row[0]], 4))
            for row, snippet in sorted(shown.values(), key=lambda hit: -scores[hit[0][0]])[:limit]
        )
        result = FoundMemories(query=call.query, results=results)
        return CompleteOutput.success("MemorySearch", found_outcome(result), result)

    def get(self, call: MemoryGetInput, _context: CallContext) -> CompleteOutput:
        self.read_sources()
        statement = f"SELECT {COLUMNS} FROM memory WHERE source_ref = ?"  # noqa: S608 - names of this module
        rows = self._select(statement, (call.source_ref,))
        if not rows:
            raise ToolFailed(
                "memory_source_not_found",
                f"there is no memory {call.source_ref}",
                details={"source_ref": call.source_ref},
                recovery_hint="copy a source_ref from a result of MemorySearch",
            )
        (row,) = rows
        most, content = call.max_chars or MAX_CHARS, row[5]
        memory = Memory(**self._head(row), content=content[:most], truncated=len(content) > most)
        read = ReadMemory(memory=memory, max_chars=most)
        return CompleteOutput.success("MemoryGet", memory_outcome(read), read)

    def _select(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        with self._lock:
            return self._database.execute(statement, values).fetchall()

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


def find_pairs(query: str) -> list[str]:
    """The pairs of neighbours in the words of a query whose script has no blanks, or one that stands alone.

    >>> find_pairs("会议记录 of May, 要")
    ['会议', '议记', '记录', '要']
    """
    runs = UNBROKEN.findall(query)
    pairs = [run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1))]
    return list(dict.fromkeys(pairs))[:MOST_PAIRS]


def cut_around(content: str, pairs: Iterable[str]) -> str:
    """The beginning of the content, from shortly before the first of the pairs."""
    at = min((at for pair in pairs if (at := content.find(pair)) >= 0), default=0)
    return content if at <= BEFORE_PAIR else f"… {content[at - BEFORE_PAIR :]}"
