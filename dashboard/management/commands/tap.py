"""`counterfoil tap -- SERVER …`: records the frames between an MCP host and its server, and changes not one byte.

The host starts this command in place of the server. What either side writes is passed on as it comes, and written by
another thread to a file with a JSON object for each line; `import_runs FILE`, or `--watch` meanwhile, reads that.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.management.console import terminal_text

PIECE = 65_536
LONGEST_FRAME = 64_000_000  # bytes; of a longer line only the size is recorded


class FrameLog(threading.Thread):
    """Writes frames to the file, in the order in which they were added.

    A slow disk delays no frame, and one that fails ends the recording, never the connection. Without a file nothing
    is recorded.
    """

    def __init__(self, file: BinaryIO | None) -> None:
        super().__init__(daemon=True)
        self._file = file
        self._frames: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()

    def add(self, direction: str, line: bytes) -> None:
        if self._file is None:
            return
        stamp = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        self._frames.put((json.dumps({"ts": stamp, "dir": direction})[:-1], line))

    def run(self) -> None:
        file = self._file
        if file is None:
            return
        try:
            while (frame := self._frames.get()) is not None:
                head, line = frame
                file.write(head.encode() + b", " + _member(line) + b"}\n")
                file.flush()
        except OSError as error:
            self._file = None  # frames that nobody writes would fill the memory
            with suppress(OSError):  # closing a file on a full disk writes once more
                file.close()
            sys.stderr.write(f"counterfoil tap: recording stopped: {error.strerror}\n")

    def close(self) -> None:
        """Returns when everything that was added is written."""
        self._frames.put(None)
        self.join()
        if self._file is not None:
            self._file.close()


def _member(line: bytes) -> bytes:
    """The message as it was written where it is JSON, else its bytes in base64."""
    if len(line) > LONGEST_FRAME:
        return b'"size": %d' % len(line)
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return b'"bytes": "' + base64.b64encode(line) + b'"'
    return b'"msg": ' + line.strip().replace(b"\r", b" ")


class Pump(threading.Thread):
    """Adds each whole line to the log and passes its bytes on: an answer is recorded behind what it answers."""

    def __init__(self, source: int, target: int, log: FrameLog, direction: str) -> None:
        super().__init__(daemon=True)
        self._source, self._target, self._log, self._direction = source, target, log, direction

    def run(self) -> None:
        begun = bytearray()
        try:
            while piece := os.read(self._source, PIECE):
                begun += piece
                *lines, begun = begun.split(b"\n") if b"\n" in piece else [begun]
                for line in lines:
                    self._log.add(self._direction, bytes(line))
                sent = 0
                while sent < len(piece):
                    sent += os.write(self._target, piece[sent:])
        except OSError:  # the other side has gone
            pass
        if begun:
            self._log.add(self._direction, bytes(begun))
        os.close(self._target)


class Command(BaseCommand):
    help = "Starts an MCP server on stdin and stdout, and records what it and its host say."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--record", type=Path, metavar="FILE", help="default: a new file in the data folder, taps/")
        parser.add_argument("server", nargs="+", metavar="SERVER", help="the server's command, behind --")

    def handle(self, *args: Any, **options: Any) -> None:
        """Ends with the exit status of the server."""
        try:
            server = subprocess.Popen(options["server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)  # noqa: S603 - the operator's own command
        except OSError as error:
            raise CommandError(f"{options['server'][0]} cannot be started: {error.strerror}") from None
        assert server.stdin is not None
        assert server.stdout is not None
        log = FrameLog(_open_record(options["record"] or _new_file()))
        to_server = Pump(sys.stdin.fileno(), os.dup(server.stdin.fileno()), log, "client")
        to_host = Pump(server.stdout.fileno(), os.dup(sys.stdout.fileno()), log, "server")
        log.start()
        server.stdin.close()  # its copy closes with the host's end
        to_server.start()
        to_host.start()
        to_host.join()
        status = server.wait()
        log.close()
        sys.exit(status if status >= 0 else 128 - status)


def _open_record(path: Path) -> BinaryIO | None:
    """The file to append to; None, with a sentence on stderr, where it cannot be made."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
    except OSError as error:
        reason = f"{terminal_text(str(path))}: {error.strerror}"
        sys.stderr.write(f"counterfoil tap: nothing is recorded, the connection goes on: {reason}\n")
        return None


def _new_file() -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return Path(settings.DATA) / "taps" / f"{stamp}-{os.getpid()}.jsonl"
