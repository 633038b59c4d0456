"""Keeps the records of a run while it runs: in memory, or as the files of the audit layout.

    Recorder        the protocol that the executor and the turn loop write to
    MemoryRecorder  keeps the records, for tests and for runs that nobody has to prove
    FileRecorder    run.json, calls.jsonl, results.jsonl, events.jsonl and receipts.jsonl in a folder
    SentReceipt     a line of receipts.jsonl: what the model is sent of a call, which a turn loop adds (RFC-147)
    RunArtifacts    the outputs of its calls that are too large for a line, in files of that folder
    RunHeader       the contents of run.json: plan, policy, confirmation, versions, hashes (CALL-098)
    load_run        reads the files of a run again, also of one that was killed

The executor adds each record in the order in which things happen, and commits before it dispatches a call that writes
or runs a command. A commit that returned survives a power cut. What was added without a commit is in the hands of the
system: it survives the end of the process, a kill included.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypeAlias

import msgspec

from envelopes.codecs import call as codec
from envelopes.schema.call import ExecutionEvent, RunPolicy, ToolCall, ToolResult
from envelopes.schema.result import ArtifactRef
from envelopes.schema.settlement import Effects
from envelopes.storage.durable_files import incoming, make_folder, publish, sync_folder
from envelopes.storage.file_store import MissingArtifact, copy_content
from envelopes.storage.sinks import Content, artifact_reference, open_content, restore_captured, shorten_captured
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

RunEnd: TypeAlias = Literal["finished", "cancelled"]
SYNC_RECORDS = 256  # records without a commit after which one is made
RUN_FILE = "run.json"
ARTIFACTS_FOLDER = "artifacts"
SHORTENED = "shortened"  # the member of a result that has the places of outputs whose ends are shorter in its data
CANONICAL = "canonical"  # the member of a result that has the envelope
PROJECTION_POLICY = "projectionPolicy"  # the one that has the fingerprint of what bounded it
NATIVE_VERSION = 1  # of the form of a native record


class RendererVersion(msgspec.Struct, frozen=True):
    """The id of a variant, `command/receipt`, and its version."""

    id: str
    version: int


class SentReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The text that a turn loop returned for the model, as a native record has it.

    `call` is the id by which the call is imported: the provider's where it has one, else `call_id`. `position` is the
    line of the call in calls.jsonl. A text of which secrets were left out is "masked".
    """

    run: str
    call: str
    call_id: str
    position: int
    text: str
    at: str
    fidelity: Literal["exact", "masked"] = "exact"
    renderer: RendererVersion | None = None
    render_policy: str | None = None

    def to_json(self) -> dict[str, Any]:
        members = {name: value for name, value in msgspec.to_builtins(self).items() if value is not None}
        return {"v": NATIVE_VERSION, "type": "receipt", **members}


Record: TypeAlias = ToolCall | ToolResult | ExecutionEvent | SentReceipt
_FILES: dict[type[Record], str] = {
    ToolCall: "calls.jsonl",
    ToolResult: "results.jsonl",
    ExecutionEvent: "events.jsonl",
    SentReceipt: "receipts.jsonl",
}


class Confirmation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who decided what about which plan and policy, when, and the text that was shown for it (OD-24)."""

    confirmation_id: str
    decision: Literal["approved", "rejected", "expired"]
    actor: str
    at: str
    plan_hash: str
    policy_hash: str
    preview: str
    reason: str = ""


class ParentCall(msgspec.Struct, frozen=True):
    """The call that started a run, by the ids of its run and its own."""

    run_id: str
    call_id: str


class RunHeader(msgspec.Struct, frozen=True, kw_only=True):
    """`plan` is as it was written, with secrets masked; the hashes are of the plan and the policy themselves.

    `shared_effects` are changes that no single call made. A run without `ended_at` did not come to its end.
    """

    run_id: str
    policy: RunPolicy
    executor_version: str
    tool_registry_version: str
    started_at: str
    plan: dict[str, Any] | None = None
    title: str | None = None
    cwd: str | None = None
    plan_hash: str | None = None
    policy_hash: str | None = None
    planner_version: str | None = None
    confirmation: Confirmation | None = None
    replay_of: str | None = None
    parent: ParentCall | None = None
    redactions: tuple[str, ...] = ()
    variables: dict[str, Any] | None = None
    ended_at: str | None = None
    end: RunEnd | None = None
    shared_effects: tuple[Effects, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The members of run.json. None and empty lists are not written."""
        members: dict[str, Any] = {
            "runId": self.run_id,
            "title": self.title,
            "cwd": self.cwd,
            "plan": self.plan,
            "planHash": self.plan_hash,
            "policy": codec.encode_policy(self.policy),
            "policyHash": self.policy_hash,
            "confirmation": msgspec.to_builtins(self.confirmation),
            "plannerVersion": self.planner_version,
            "executorVersion": self.executor_version,
            "toolRegistryVersion": self.tool_registry_version,
            "replayOf": self.replay_of,
            "parentRunId": self.parent and self.parent.run_id,
            "parentCallId": self.parent and self.parent.call_id,
            "redactions": list(self.redactions) or None,
            "variables": self.variables,
            "sharedEffects": [codec.encode_effects(effects) for effects in self.shared_effects] or None,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "end": self.end,
        }
        return {name: value for name, value in members.items() if value is not None}


class Recorder(Protocol):
    """Called by one thread. An exception ends the run: nothing is dispatched that cannot be recorded."""

    def open(self, header: RunHeader) -> None:
        """Begins the run, and again when its confirmation is known. Durable when it returns."""

    def add(self, record: Record) -> None: ...

    def commit(self) -> None:
        """Durable when it returns: all records that were added."""

    def close(self, header: RunHeader) -> None:
        """Commits, then records the end of the run."""


class MemoryRecorder:
    """Keeps everything in lists. `commits` has the number of records at each commit."""

    def __init__(self) -> None:
        self.header: RunHeader | None = None
        self.calls: list[ToolCall] = []
        self.results: list[ToolResult] = []
        self.events: list[ExecutionEvent] = []
        self.receipts: list[SentReceipt] = []
        self.commits: list[int] = []

    def open(self, header: RunHeader) -> None:
        self.header = header

    def add(self, record: Record) -> None:
        match record:
            case ToolCall():
                self.calls.append(record)
            case ToolResult():
                self.results.append(record)
            case ExecutionEvent():
                self.events.append(record)
            case SentReceipt():
                self.receipts.append(record)

    def commit(self) -> None:
        self.commits.append(len(self.calls) + len(self.results) + len(self.events) + len(self.receipts))

    def close(self, header: RunHeader) -> None:
        self.commit()
        self.header = header


class RunArtifacts:
    """The stored outputs of one run, `artifacts/<sha256>` in its folder; the sink of its tools.

    A result that names one of them gets a member `files` with the role, path, size and SHA-256 of each, so that whoever
    reads the folder finds the content by the virtual path.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / ARTIFACTS_FOLDER
        self._files: dict[str, dict[str, Any]] = {}  # members of `files`, by virtual path

    def write(self, role: str, content: Content) -> ArtifactRef:
        """Stores the content, a chunk at a time. Raises OSError."""
        make_folder(self._folder)
        with incoming(self._folder) as file, open_content(content) as stream:
            stored = copy_content(stream, file).stored
            publish(file, self._folder / stored.sha256)
        sync_folder(self._folder)
        reference = artifact_reference(role, stored.sha256)
        known = {"role": role, "path": reference.path, "size": stored.size, "sha256": stored.sha256}
        self._files[reference.path] = known
        return reference

    def open(self, path: str) -> BinaryIO:
        """The content under a virtual path that this run wrote. Raises MissingArtifact."""
        if (file := self._files.get(path)) is None:
            raise MissingArtifact(path)
        return (self._folder / str(file["sha256"])).open("rb")

    def find_files(self, data: Any) -> list[dict[str, Any]]:
        """The members of `files` for the paths that `data` names, in the order in which they were stored."""
        if not self._files:
            return []
        named = set(_texts(data))
        return [file for path, file in self._files.items() if path in named]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _texts(child)


class FileRecorder:
    """Writes the audit layout into a new folder. `artifacts` is the sink for the tools of the run.

    >>> from tempfile import TemporaryDirectory
    >>> from envelopes import ExecutionEvent
    >>> with TemporaryDirectory() as folder:
    ...     recorder = FileRecorder(Path(folder) / "run")
    ...     recorder.add(ExecutionEvent(
    ...         type="run.started", run_id="r1", timestamp="2026-01-05T10:00:00Z", level="info", message="Run started"
    ...     ))
    ...     recorder.commit()
    ...     (Path(folder) / "run" / "events.jsonl").read_bytes().startswith(b'{"type":"run.started"')
    True
    """

    def __init__(self, folder: Path, artifacts: RunArtifacts | None = None) -> None:
        """Raises FileExistsError for a folder that holds a run already."""
        if (folder / RUN_FILE).exists():
            raise FileExistsError(f"{folder} holds a run already")
        make_folder(folder)
        self.folder, self.artifacts = folder, artifacts or RunArtifacts(folder)
        self._files: dict[type[Record], int] = {
            kind: self._create(kind) for kind in (ToolCall, ToolResult, ExecutionEvent)
        }
        self._unsynced: dict[type[Record], int] = {}
        # Three syncs at once are one commit of the disk's journal: 0.4 ms instead of 3 to 13 on a busy machine.
        self._syncs = ThreadPoolExecutor(max_workers=len(_FILES), thread_name_prefix="sync")
        sync_folder(folder)

    def open(self, header: RunHeader) -> None:
        with incoming(self.folder) as file:
            file.write(dump_json(header.to_json()) + b"\n")
            publish(file, self.folder / RUN_FILE)
        sync_folder(self.folder)

    def _create(self, kind: type[Record]) -> int:
        return os.open(self.folder / _FILES[kind], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o600)

    def add(self, record: Record) -> None:
        if isinstance(record, SentReceipt):
            line = dump_json(record.to_json()) + b"\n"
        else:
            line = b"".join(codec.encode_lines([self._with_files(record)]))
        if (descriptor := self._files.get(type(record))) is None:  # no file of receipts for a run without a model
            descriptor = self._files[type(record)] = self._create(type(record))
            sync_folder(self.folder)
        while line:  # a write may take a part only
            line = line[os.write(descriptor, line) :]
        self._unsynced[type(record)] = self._unsynced.get(type(record), 0) + 1
        if sum(self._unsynced.values()) >= SYNC_RECORDS:
            self.commit()

    def _with_files(self, record: ToolCall | ToolResult | ExecutionEvent) -> ToolCall | ToolResult | ExecutionEvent:
        """A result with the stored outputs that its data or its envelope names, of which its data repeats the ends.

        Masked data has no hash, and stays as it is: what is read again from a file would have the secrets.
        """
        if not isinstance(record, ToolResult):
            return record
        files = self.artifacts.find_files([record.data, record.extra.get(CANONICAL)])
        if not files:
            return record
        extra, data = {**record.extra, "files": files}, record.data
        if record.data_hash is not None:
            data, shortened = shorten_captured(data, {file["path"] for file in files})
            extra |= {SHORTENED: shortened} if shortened else {}
        return msgspec.structs.replace(record, data=data, extra=extra)

    def commit(self) -> None:
        descriptors = [self._files[kind] for kind in self._unsynced]
        for _ in self._syncs.map(os.fdatasync, descriptors):
            pass  # raises what a sync raised
        self._unsynced.clear()

    def close(self, header: RunHeader) -> None:
        self.commit()
        self.open(header)
        self.release()

    def release(self) -> None:
        """Closes the files, also of a run that did not come to its end."""
        self._syncs.shutdown()
        while self._files:
            os.close(self._files.popitem()[1])


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """`header` is run.json as it stands, and `receipts` are the objects of receipts.jsonl.

    `is_interrupted`: the run has no end. `torn` counts half-written lines.
    """

    header: dict[str, Any]
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    events: tuple[ExecutionEvent, ...]
    receipts: tuple[dict[str, Any], ...] = ()
    torn: int = 0

    @property
    def is_interrupted(self) -> bool:
        return not any(event.type in ("run.finished", "run.cancelled") for event in self.events)


def load_run(folder: Path) -> RecordedRun:
    """Reads the files of a run. The last line of a file that a kill cut off is left out and counted.

    Raises Untrusted for any other line that is no record, and FileNotFoundError for a folder without run.json.
    """
    header = parse_json((folder / RUN_FILE).read_bytes())
    if not isinstance(header, dict):
        raise Untrusted("run.json is no object")
    torn = 0
    receipts: tuple[dict[str, Any], ...] = ()
    records: dict[type[Record], Iterator[Any]] = {}
    for kind, name in _FILES.items():
        raw = (folder / name).read_bytes() if (folder / name).exists() else b""
        whole, newline, rest = raw.rpartition(b"\n")
        torn += bool(rest)
        if kind is SentReceipt:
            receipts = tuple(_parse_objects(whole))
        else:
            records[kind] = codec.decode_lines(whole + newline, kind)
    return RecordedRun(
        header=header,
        calls=tuple(records[ToolCall]),
        results=tuple(_restore(folder, result) for result in records[ToolResult]),
        events=tuple(records[ExecutionEvent]),
        receipts=receipts,
        torn=torn,
    )


def _restore(folder: Path, result: ToolResult) -> ToolResult:
    """The result with the data of the call, whose hash it has; as it is where the stored output is gone."""
    shortened, files = result.extra.get(SHORTENED), result.extra.get("files")
    if not (isinstance(shortened, list) and isinstance(files, list)):
        return result
    try:
        names = {file["path"]: str(file["sha256"]) for file in files}
        data = restore_captured(
            result.data, shortened, lambda path: (folder / ARTIFACTS_FOLDER / Path(names[path]).name).open("rb")
        )
    except (OSError, LookupError, TypeError):
        return result
    return msgspec.structs.replace(result, data=data)


def _parse_objects(lines: bytes) -> Iterator[dict[str, Any]]:
    for line in lines.splitlines():
        document = parse_json(line)
        if not isinstance(document, dict):
            raise Untrusted("a receipt is an object")
        yield document
