"""Files in, report out: finds which source a file is, reads what is new, hands batches to `recording`.

accepted + rejected + blank = lines, always; an incomplete last line counts as rejected in the
report until its end arrives, and its bytes stay unread.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from dashboard.artifacts.ingest import (
    ProjectQuota,
    QuotaExceeded,
    StoredContent,
    StoreFailed,
    hold_quota,
    store_named_file,
)
from dashboard.artifacts.retention import shared_store_lock
from dashboard.ingest import write
from dashboard.ingest.import_counts import Seen
from dashboard.ingest.missing_artifacts import take_again
from dashboard.ingest.source_files import (
    HEAD_BYTES,
    LONGEST_LINE,
    Stretch,
    find_source,
    head_sha256,
    later_heads,
    open_regular,
    prefix_sha256,
    recordings_under,
    stretches,
)
from dashboard.ingest.source_rows import SourceMoved
from dashboard.models import Project, Source
from envelopes import recordings
from envelopes.recordings.base import (
    BYTE_ORDER_MARK,
    ArtifactRecord,
    CallRecord,
    Format,
    LineProblem,
    Record,
    SourceLine,
    SourcePath,
    is_blank,
)
from envelopes.text.tokens import TokenCounter, background_counter, count_now
from envelopes.text.untrusted_json import Untrusted, parse_json

UNSTORED_AT_MOST = 3
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"BZh", b"\xfd7zX")


class Retry(Enum):
    """Which files of lines that were read before are looked for again (taking_again.py)."""

    NOTHING = 0
    MISSING = 1
    LOST = 2  # and what the store took in and does not have any more


@dataclass(frozen=True)
class Progress:
    """After each batch: `bytes_done` of `bytes_total` over all files, and calls met so far."""

    path: str
    bytes_done: int
    bytes_total: int
    calls: int


@dataclass
class Report:
    """What `import_runs --json` prints (design.md section 4)."""

    files: int = 0
    seen: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(write.ADDED, 0)))
    added: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(write.ADDED, 0)))
    lines: Counter[str] = field(default_factory=lambda: Counter(accepted=0, rejected=0, blank=0))
    problems: list[dict[str, Any]] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)
    taken_later: int = (
        0  # files that were not there, had no room or were shorter when the lines were read that name them
    )
    unstored: int = 0  # recordings that wait for the artifact store; importing them again goes on from there

    def to_json(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "seen": dict(self.seen),
            "added": dict(self.added),
            "lines": dict(self.lines),
            "problems": self.problems,
            "run_ids": self.run_ids,
            "taken_later": self.taken_later,
            "unstored": self.unstored,
        }


def import_paths(
    project: Project,
    paths: Sequence[Path],
    *,
    format_name: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    shown_as: Callable[[Path], str] = str,
    retry: Retry = Retry.MISSING,
) -> Report:
    """Takes in files and folders. `shown_as` names a file for people: an upload has no path of its own.

    Where the artifact store takes nothing of UNSTORED_AT_MOST recordings in a row, it is down: the rest is
    not tried, for each try may take minutes.
    """
    files = list(recordings_under([Path(path) for path in paths]))
    report = Report()
    size = sum(_size(path) for path, _ in files)
    meter = _Meter(progress, size)
    with background_counter(size) as count:
        in_a_row = 0
        for done, (path, is_named) in enumerate(files, start=1):
            before = report.unstored
            one = FileImport(project, path, shown_as(path), report, meter, count, retry)
            one.run(format_name, is_named=is_named)
            in_a_row = in_a_row + 1 if report.unstored > before else 0
            if in_a_row == UNSTORED_AT_MOST and done < len(files):
                _stop(report, [shown_as(path) for path, _ in files[done:]])
                break
    return report


def _stop(report: Report, left: Sequence[str]) -> None:
    count = len(left)
    reason = (
        f"stopped here: the artifact store took in nothing of {UNSTORED_AT_MOST} recordings in a row. This one and "
        f"{count - 1} more were not read; import them again when the store is there"
    )
    report.unstored += count
    report.problems.append({"file": left[0], "line": 0, "path": "$", "reason": reason})


class FileImport:
    """One file, from where its source stood. Adds to the report; raises nothing for bad content."""

    def __init__(
        self,
        project: Project,
        path: Path,
        name: str,
        report: Report,
        meter: _Meter,
        count: TokenCounter = count_now,
        retry: Retry = Retry.MISSING,
    ) -> None:
        self.project = project
        self.path = path
        self.name = name
        self.report = report
        self.meter = meter
        self.count = count
        self.retry = retry

    def run(self, format_name: str | None = None, *, is_named: bool = True) -> None:
        """A file that is gone since its folder was listed is no problem."""
        try:
            with open_regular(self.path) as file:
                self._run_in_turns(file, format_name)
        except recordings.UnknownFormat as error:
            self._refuse_file(_what_it_is(self.path) or str(error))
        except StoreFailed as error:
            reason = f"a file that it names could not be stored: {error}; import it again, and it goes on from there"
            self.report.unstored += 1
            self._refuse_file(reason)
        except FileNotFoundError as error:
            if is_named:
                self._refuse_file(f"cannot be read: {error.strerror}")
        except OSError as error:
            self._refuse_file(f"cannot be read: {error.strerror or error}")

    def _run_in_turns(self, file: BinaryIO, format_name: str | None) -> None:
        """Another process that reads the same file took a batch first: goes on behind it, and loses nothing."""
        while True:
            try:
                self._run(file, format_name)
            except SourceMoved:
                file.seek(0)
            else:
                return

    def _run(self, file: BinaryIO, format_name: str | None) -> None:
        head = file.read(HEAD_BYTES)
        place = SourcePath(self.path.resolve().as_posix())
        source = find_source(self.project, self.name, file, head) or self._begin(file, head, place, format_name)
        if self.retry is not Retry.NOTHING and not source._state.adding:
            self.report.taken_later += take_again(source, self.path, is_lost_too=self.retry is Retry.LOST)
        form = recordings.find_format(source.format)
        skipped = self._skip_newline(file, source)
        seen = Seen(source)
        for stretch in stretches(file, offset=source.offset + skipped, number=source.lines + 1):
            self._take(file, source, form, place, stretch, skipped, seen)
            skipped = 0
        self._add_to_report(source)

    def _begin(self, file: BinaryIO, head: bytes, place: SourcePath, format_name: str | None) -> Source:
        form = recordings.find_format(format_name) if format_name else _detected(file, head, place)
        return write.begin_source(
            self.project,
            path=self.name,
            format_name=form.name,
            inode=os.fstat(file.fileno()).st_ino,
            head_sha256=head_sha256(head),
        )

    def _is_known(self, file: BinaryIO) -> bool:
        head = os.pread(file.fileno(), HEAD_BYTES, 0)
        return find_source(self.project, self.name, file, head) is not None

    def _skip_newline(self, file: BinaryIO, source: Source) -> int:
        """The line end of a last line that was read without one belongs to that line."""
        if not source.ends_open:
            return 0
        file.seek(source.offset)
        found = file.read(2)
        return 1 if found.startswith(b"\n") else 2 if found == b"\r\n" else 0

    def _take(
        self,
        file: BinaryIO,
        source: Source,
        form: Format,
        place: SourcePath,
        stretch: Stretch,
        skipped: int,
        seen: Seen,
    ) -> None:
        lines, rest = list(stretch.lines), stretch.rest
        if rest is not None and _is_whole(rest.raw):
            lines, rest = [*lines, rest], None
        state: dict[str, object] = msgspec.json.decode(source.state)
        yielded = [_too_long(lines[0])] if stretch.is_too_long else list(form.read(iter(lines), place, state))
        refusals = [one for one in yielded if isinstance(one, LineProblem)]
        records = [one for one in yielded if not isinstance(one, LineProblem)]
        end = lines[-1].offset + len(lines[-1].raw) if lines else source.offset + skipped
        if stretch.is_too_long:
            end = file.tell()
        batch = write.Batch(
            start=source.offset,
            lines=lines,
            records=records,
            refusals=refusals,
            end=end,
            **_line_counts(lines, refusals),
            ends_open=bool(lines) and not lines[-1].raw.endswith(b"\n"),
            incomplete=rest,
            state=msgspec.json.encode(state),
            prefix_sha256=prefix_sha256(file, end),
            seen=seen.with_records(records),
        )
        with shared_store_lock(), hold_quota(self.project.pk) as room:
            files, refused = self._taken_in(records, room)
            batch = replace(batch, refusals=[*refusals, *refused])
            written = write.record(source, batch, is_known=lambda: self._is_known(file), files=files, count=self.count)
        self.report.added.update(written.added)
        self.meter.advance(self.name, sum(len(line.raw) for line in lines), records)

    def _taken_in(
        self, records: Sequence[Record], room: ProjectQuota
    ) -> tuple[dict[str, StoredContent], list[LineProblem]]:
        """Files that the records name and that lie beside the recording: on disk before a row names them.

        One that there is no room for is a problem of its line, and its reference stays. Raises StoreFailed.
        """
        named = {one.path: one.line for one in records if isinstance(one, ArtifactRecord)}
        found: dict[str, StoredContent] = {}
        refused = []
        for path, line in sorted(named.items()):
            try:
                if stored := store_named_file(self.path, path, room):
                    found[path] = stored
            except QuotaExceeded as full:
                reason = f"the file that it names was not taken in: {full}; the line itself was"
                refused.append(LineProblem(line=line, path=f"file {path}", reason=reason, raw=b"", part=True))
        return found, refused

    def _add_to_report(self, source: Source) -> None:
        self.report.files += 1
        if source._state.adding:
            return
        self.report.seen.update(msgspec.json.decode(source.seen))
        self.report.lines.update(accepted=source.accepted, rejected=source.rejected, blank=source.blank)
        self.report.lines["rejected"] += 1 if source.left_bytes else 0
        told = source.problems.order_by("line", "id").values("line", "path", "reason")
        self.report.problems += [{"file": self.name, **row} for row in told]
        known = set(self.report.run_ids)
        self.report.run_ids += [key for key in map(str, source.runs.values_list("pk", flat=True)) if key not in known]

    def _refuse_file(self, reason: str) -> None:
        """No line of it was taken in, so all of them count as rejected."""
        raw, lines = _untaken(self.path)
        write.refuse_file(self.project, path=self.name, reason=reason, raw=raw)
        self.report.files += 1
        self.report.lines.update(lines)
        self.report.problems.append({"file": self.name, "line": 0, "path": "$", "reason": reason})


def _detected(file: BinaryIO, head: bytes, place: SourcePath) -> Format:
    """By the first lines, or, where those are too long or too damaged to tell, by the lines behind them."""
    try:
        return recordings.detect_format(head, place)
    except recordings.UnknownFormat:
        for later in later_heads(file):
            with suppress(recordings.UnknownFormat):
                return recordings.detect_format(later, place)
        raise


def _what_it_is(path: Path) -> str:
    """Of a file that nothing recognises: what to do, where its first bytes tell."""
    with open_regular(path) as file:
        head = file.read(HEAD_BYTES)
    if is_blank(head):
        return "the file begins with blank lines only" if head else "the file is empty"
    if head.startswith(COMPRESSED):
        return "not a recording, it is compressed: unpack it and import what it holds"
    return "the text is UTF-16: save it as UTF-8 and import that" if head.startswith(UTF_16) else ""


def _untaken(path: Path) -> tuple[bytes, dict[str, int]]:
    """The beginning of a refused file and its lines by kind; nothing of one that cannot be opened."""
    rejected = blank = 0
    try:
        with open_regular(path) as file:
            raw = file.read(HEAD_BYTES)
            file.seek(0)
            for one in stretches(file, offset=0, number=1):
                found = [*one.lines, *([one.rest] if one.rest else [])]
                spaces = sum(is_blank(line.raw) for line in found)
                rejected, blank = rejected + len(found) - spaces, blank + spaces
    except OSError:
        return b"", {}
    return raw, {"rejected": rejected, "blank": blank}


class _Meter:
    """Bytes and calls over all files, told after each batch."""

    def __init__(self, tell: Callable[[Progress], None] | None, total: int) -> None:
        self._tell = tell
        self._total = total
        self._done = 0
        self._calls = 0

    def advance(self, path: str, size: int, records: Sequence[Record]) -> None:
        self._done += size
        self._calls += sum(isinstance(one, CallRecord) for one in records)
        if self._tell:
            self._tell(Progress(path, self._done, self._total, self._calls))


def _line_counts(lines: Sequence[SourceLine], refusals: Sequence[LineProblem]) -> dict[str, int]:
    blank = sum(is_blank(line.raw) for line in lines)
    rejected = sum({one.line: one.lines for one in refusals if not one.part}.values())
    return {"accepted": len(lines) - blank - rejected, "rejected": rejected, "blank": blank}


def _too_long(line: SourceLine) -> LineProblem:
    reason = f"longer than {LONGEST_LINE // 2**20} MiB"
    return LineProblem(line=line.number, path="$", reason=reason, raw=line.raw)


def _is_whole(raw: bytes) -> bool:
    """A last line without a newline is whole when it is a whole JSON value in brackets, NaN in it or not."""
    found = raw.removeprefix(BYTE_ORDER_MARK)
    if not found.rstrip().endswith((b"}", b"]")):
        return False
    try:
        msgspec.json.decode(found, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return _is_readable(found)
    return True


def _is_readable(raw: bytes) -> bool:
    try:
        parse_json(raw)
    except Untrusted:
        return False
    return True


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
