"""The records that a reader of foreign logs yields in file order, and its format.

A reader keeps bytes: `args`, `result`, `content` and `payload` are the JSON exactly as the source has it, so
that what is stored is what was recorded. Each record carries the number of its line.

    RunRecord       a session, or a subagent's part of one; may come again with more fields set
    MessageRecord   the text around the calls, for the model view
    CallRecord      the model asked for a tool
    ResultRecord    the structured result that the runtime kept
    ReceiptRecord   the text that the model got: JSON of a string, or of a list of parts
    SupersedeRecord an earlier receipt left the model's context (replaced, or compacted away)
    EventRecord     progress, compaction, API errors
    ArtifactRecord  a path that a result names
    UsageRecord     what a request to the model weighed
    RemarkRecord    a value of the line that a reader changed or left out
    LineProblem     a refused line, or a refused part of one

`extra` is a JSON object of the source's fields for which the record has none of its own. `document` is the whole object
where the source's own object is worth keeping beside its parts. `owner` is set on a copied line whose call id is unique
within its run only: it is the run that the line names as its own.

A format is one module, one line in `recordings.RECORDINGS`, and a sample.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from envelopes.alignment.mapping import ReceiptFidelity, ResultFidelity
from envelopes.recordings.places import NamePlace, name_line

RemarkKind: TypeAlias = Literal["timestamp", "value", "duration", "length", "line", "tool", "pair"]
Delivery: TypeAlias = Literal["sent", "queued", "reworded", "withheld", "unclear"]
SYSTEM_PROMPT, TOOL_DEFINITIONS = "system prompt", "tool definitions"
STANDING_KINDS = (SYSTEM_PROMPT, TOOL_DEFINITIONS)
# Messages in the role of the user that no person wrote.
COMPACTION_SUMMARY, META, TASK_REPORT = "compaction summary", "meta", "task-notification"
CLIENT_MESSAGES = (COMPACTION_SUMMARY, META, TASK_REPORT, "coordinator", "peer")
# The kinds of events that take something out of the context. Of a partial compaction some messages stayed: its payload
# is `{"kept": [line, …]}` where their lines are known.
COMPACTION, PARTIAL_COMPACTION = "compact_boundary", "partial_compact_boundary"
MICROCOMPACTION = "microcompact_boundary"
NEW_CONVERSATION, REWIND = "new_conversation", "rewind"
# Reasons of a receipt's end that no event states: a shorter text replaced it, or the client sent a note in its place.
REPLACEMENT, CLEARING = "content-replacement", "old outputs, by the client"
LATER_TEXT = "another text in a later request"  # so the model had the receipt before


def describe_later_text(reason: str) -> str:
    """The reason of a receipt's end where a runtime states that it sent another text; `reason` is in its words."""
    is_known = reason in ("", REPLACEMENT) or reason.startswith(LATER_TEXT)
    return reason if is_known else f"{LATER_TEXT}: {reason}"


class SourceLine(msgspec.Struct, frozen=True, gc=False):
    """`number` counts from 1, blank lines too; `offset` is the byte where it starts in the file."""

    number: int
    offset: int
    raw: bytes


class PlacedRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`position` is the place in the run of a record whose file has another order than the run had."""

    line: int
    run: str
    position: int | None = None

    @property
    def place(self) -> int:
        return self.line if self.position is None else self.position

    def is_before(self, place: int) -> bool:
        """True for a record that has a position, an earlier one: of equal records the earliest counts."""
        return self.position is not None and self.position < place


class LineRecord(PlacedRecord, frozen=True, kw_only=True, gc=False):
    """A record that readers of whole documents give a position of its own."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="run"):
    """`run` is unique within the format's namespace. None: not known from this line.

    `origin` is progress for a run that only another run's progress lines report.
    """

    line: int
    run: str
    parent_run: str | None = None
    parent_call: str | None = None
    title: str | None = None
    agent: str | None = None
    model: str | None = None
    version: str | None = None
    cwd: str | None = None
    branch: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    last_at: str | None = None
    plan: bytes | None = None
    origin: Literal["message", "progress"] = "message"
    extra: bytes | None = None
    document: bytes | None = None


class MessageRecord(LineRecord, frozen=True, kw_only=True, gc=False, tag="message"):
    """`content` is JSON: a string, or a list of blocks without the tool blocks. `key` is unique in the run.

    `delivery` is how it reached the model: `sent` as it is; `queued` while the agent worked and sent in a wording
    that is not recorded; `reworded` by the client in a wording that is not recorded; `withheld` by the client;
    `unclear` where the recording leaves it open.

    `kind` is set on what is no message of a person or of the model: one of CLIENT_MESSAGES, the client's own word for
    a text that it added beside the messages (`skill_listing`, `hook_additional_context`), or one of STANDING_KINDS.
    Those are part of every request from their place on, whatever is compacted, until the next one of the same kind.
    """

    key: str
    role: str
    content: bytes
    step: str | None = None
    at: str | None = None
    delivery: Delivery = "sent"
    kind: str | None = None


class CallRecord(LineRecord, frozen=True, kw_only=True, gc=False, tag="call"):
    """`origin` is progress for a call that only a parent's progress lines report.

    `args` None: the record has no arguments, another one of the call may have them.
    `inherited`: the line is a copy of another run's. `names_other`: it names another run than the one it is in.
    """

    call: str
    tool: str
    args: bytes | None
    step: str | None = None
    attempt: int = 1
    at: str | None = None
    origin: Literal["message", "progress"] = "message"
    inherited: bool = False
    names_other: bool = False
    extra: bytes | None = None
    document: bytes | None = None
    owner: str | None = None


class ResultRecord(LineRecord, frozen=True, kw_only=True, gc=False, tag="result"):
    """`result` None: the source kept no structured result. `is_error` is the source's own flag.

    `stated_kind` is the error kind of a call that was refused or stopped, where the source states that beside the
    result: that, or the receipt, is the message.

    `duration_ms` is the tool's own measurement, where the source has one: the time between the stamps of the
    call and of this record includes the wait for a permission. `ended_at` is the recorded end; without it the call
    ended at `at`.
    """

    call: str
    result: bytes | None
    fidelity: ResultFidelity = "structured"
    is_error: bool | None = None
    status: str | None = None
    stated_kind: str | None = None
    at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    duration_ms: int | None = None
    child_run: str | None = None
    error: bytes | None = None
    effects: bytes | None = None
    extra: bytes | None = None
    document: bytes | None = None
    owner: str | None = None


class ReceiptRecord(LineRecord, frozen=True, kw_only=True, gc=False, tag="receipt"):
    """`is_further`: the model got this behind the earlier receipts of the call, and has all of them.

    `is_running`: it states that the call still ran, so the call did not end `at` this time. `may_replace`: of two texts
    of a call the later one replaced the other, whichever comes first; without it the second one is evidence beside.
    """

    call: str
    content: bytes
    fidelity: ReceiptFidelity = "recorded"
    is_further: bool = False
    may_replace: bool = False
    is_running: bool = False
    at: str | None = None
    extra: bytes | None = None
    document: bytes | None = None
    owner: str | None = None


class SupersedeRecord(LineRecord, frozen=True, kw_only=True, gc=False, tag="supersede"):
    """`content` is what replaces the receipt, None when nothing does."""

    call: str
    reason: str
    content: bytes | None = None
    at: str | None = None
    owner: str | None = None


class EventRecord(LineRecord, frozen=True, kw_only=True, gc=False, tag="event"):
    kind: str
    message: str
    level: Literal["info", "warn", "error"] = "info"
    call: str | None = None
    payload: bytes = b"null"
    at: str | None = None
    extra: bytes | None = None
    document: bytes | None = None


class ArtifactRecord(PlacedRecord, frozen=True, kw_only=True, gc=False, tag="artifact"):
    """`sha256` is that of the file which an export has beside it, or that a program sent; `ordinal` its place."""

    call: str
    role: str
    path: str
    size: int | None = None
    sha256: str | None = None
    ordinal: int | None = None
    owner: str | None = None

    @property
    def sent_sha256(self) -> str:
        """The hash by which content that is sent after its record is found; empty for what is a file."""
        return self.sha256 if self.ordinal is not None and self.sha256 else ""


class UsageRecord(LineRecord, frozen=True, kw_only=True, gc=False, tag="usage"):
    """The tokens of one request, as the provider reported them. `request` is unique in the run.

    Several lines may report one request. `usage` and `edits` are JSON: the provider's object, and what it states
    about the edits that it made to the context before this request. `cleared_tokens` is their size, None when nothing
    was reported. `repeated_tokens` is the part of the input that passes of the model before the last one got: it counts
    for the price of the request, and is in the context once.
    """

    request: str
    input_tokens: int
    cache_read_tokens: int
    cache_creation_tokens: int
    output_tokens: int
    usage: bytes
    edits: bytes | None = None
    cleared_tokens: int | None = None
    repeated_tokens: int = 0
    origin: Literal["message", "progress"] = "message"
    at: str | None = None

    @property
    def context_tokens(self) -> int:
        """The whole input of the request's last pass, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_creation_tokens - self.repeated_tokens


class RemarkRecord(LineRecord, frozen=True, kw_only=True, gc=False, tag="remark"):
    """A value that was changed or left out when its line was read. The line's bytes are stored as they are.

    `path` is a JSON path in the line, `was` the beginning of the value as written, `became` what was made of it.
    """

    kind: RemarkKind
    path: str
    was: str
    became: str
    call: str | None = None
    owner: str | None = None


class LineProblem(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="problem"):
    """A refused line, or a refused part of one (`part`). `path` is a JSON path within it.

    `lines` is 1, or the number of lines of a file that is refused as a whole; `raw` is then the first of them.
    `objects` is more than 1 for a line with several objects, each of which was read by itself. `is_lossless`: the
    line is imported all the same.
    """

    line: int
    path: str
    reason: str
    raw: bytes
    part: bool = False
    is_lossless: bool = False
    lines: int = 1
    objects: int = 1


Record: TypeAlias = (
    RunRecord
    | MessageRecord
    | CallRecord
    | ResultRecord
    | ReceiptRecord
    | SupersedeRecord
    | EventRecord
    | ArtifactRecord
    | UsageRecord
    | RemarkRecord
)


class FileFolder(Protocol):
    """The other files of a file's folder, for a format with one file for each entry."""

    def names(self) -> Sequence[str]:
        """The names of all files in it, in order."""

    def read(self, name: str) -> bytes:
        """The beginning of one of them; empty where it cannot be read."""


class SourcePath(msgspec.Struct, frozen=True):
    """The path of a file, whose names decide runs and their parents.

    `path` has forward slashes. It is absolute, relative to an imported folder, or a bare file name. `is_live`: no
    file but records that a program sends, in any order and more than once; their order is that of their times.
    `folder` is None where the file is known alone.
    """

    path: str
    is_live: bool = False
    folder: FileFolder | None = None

    @property
    def stem(self) -> str:
        return self.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]


class StoredDocument(NamedTuple):
    """A recording in a container; `version` is another one once its content is, and empty where it is not known."""

    name: str
    version: str


class UnreadableContainer(OSError):
    """A container that is damaged or in use."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EBADMSG, reason)  # EIO would be the disk


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of file or folder that has several recordings and is none itself, for instance a database.

    `compose(path, name)` yields the bytes of one of the documents that `list_documents(path)` names, in a form that a
    Format reads. They are what is imported, and what is stored as evidence. Both raise OSError.
    """

    title: str
    matches: Callable[[Path], bool]
    list_documents: Callable[[Path], Iterator[StoredDocument]]
    compose: Callable[[Path, str], Iterator[bytes]]


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of recording: how it is recognised and read.

    `sniff(head, path)` decides by the first 64 KiB of a file. `read(lines, path, state)` is a generator over a
    whole file, or over its new part: `state` (JSON types only) is what reading the earlier part left, and what
    `read` changes in it is stored for the next part. A reader raises nothing: it yields a LineProblem.

    Run ids are unique within `namespace`. Call ids for which `is_global_call_id` is true are unique everywhere
    and join across files (D-4).

    `mark` names what a file of this format contains, by which `sniff` recognises it. `is_document`: a file is one
    document, and `read` gets all of its lines at once. `is_archive`: it begins like a compressed file.

    `recorded_as` is the format of the recording that an export was made of: its runs carry that name.

    A source may know a run only by the call that spawned it. `run_alias(run, call)` is the name that such a
    source uses for `run`, None where it is not certain; `spawning_call(alias)` is the call in such a name.

    `unnamed` is how the ids begin that the reader gives to calls of which the recording has a result and no id.

    `version` is raised when `read` yields other records for the same lines, or changes what it keeps in its state:
    `rederive` then reads what is stored again.

    `name_mark(head, path)` is what a file must contain for its name to be that of its run, empty where its beginning
    shows that. A file without its mark has another run's name: `read` gets `is_renamed` in its state.

    `name_place(place)` puts the place of a record in its run into words, where it is not the line of the record.

    `section` is that of `dashboard/docs/agents.md` about these recordings, where it has not the name of the agent.

    `run_of(path)` is the run of a file by its path, where nothing in the file names it: of two files with the same
    bytes and other runs none is a copy of the other.
    """

    name: str
    title: str
    agent: str
    namespace: str
    sniff: Callable[[bytes, SourcePath], bool]
    read: Callable[[Iterable[SourceLine], SourcePath, dict[str, object]], Iterator[Record | LineProblem]]
    is_global_call_id: Callable[[str], bool]
    mark: str = ""
    version: int = 1
    is_document: bool = False
    is_archive: bool = False
    recorded_as: str = ""
    unnamed: str = ""
    section: str = ""
    run_alias: Callable[[str, str], str | None] = lambda _run, _call: None
    spawning_call: Callable[[str], str | None] = lambda _run: None
    name_mark: Callable[[bytes, SourcePath], bytes] = lambda _head, _path: b""
    run_of: Callable[[SourcePath], str] = lambda _path: ""
    name_place: NamePlace = name_line
