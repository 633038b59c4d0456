"""Commands as processes: a group of their own, output on disk, an end that nothing can prevent.

    CommandSpec   what to start and where
    Process       a started command: wait, write input, stop

A command is a shell with everything that it starts. It ends when the shell does; what is left of its group, and
whatever carries its mark in the environment, is then killed. Where the command was asked to end, its group has the
same time for that as the shell: a shell that waits for a program dies of the signal before the program does. Input
comes from nowhere unless it was asked for, so a command that reads gets the end of its input at once.
"""

from __future__ import annotations

import fcntl
import os
import pty
import secrets
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Literal, TypeAlias, cast

from envelopes.runtime.output_log import OutputLog, Stream

_Popen: TypeAlias = "subprocess.Popen[bytes]"
EndReason: TypeAlias = Literal["exited", "stopped", "output_limit", "disk_full"]

KEPT_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TERM")
KEPT_PREFIXES = ("LC_",)
MARK = "ENVELOPES_COMMAND"  # in the environment of everything that a command starts
CHUNK = 64 * 1024
GRACE_S = 2.0  # between the request to end and the end
LOOK_S = 0.05  # between two looks at a group that was asked to end
DRAIN_S = 1.0  # for output that is on its way when the shell has ended
MOST_BYTES = 4 * 1024**3
PROC = Path("/proc")
WINDOW_SIZE = struct.pack("HHHH", 40, 120, 0, 0)  # rows and columns of a terminal


class SpawnFailed(OSError):
    """The command could not be started; the message says why."""


@dataclass(frozen=True)
class CommandSpec:
    """`workdir` exists. `shell` None: bash where there is one, else sh. `login` reads the person's profile."""

    cmd: str
    workdir: Path
    shell: str | None = None
    login: bool = True
    tty: bool = False
    accepts_input: bool = False

    @property
    def identity(self) -> tuple[str, Path, str | None, bool, bool]:
        """Equal for a command that would do the same."""
        return self.cmd, self.workdir, self.shell, self.login, self.tty


def clean_environment(environment: Mapping[str, str], added: Mapping[str, str] | None = None) -> dict[str, str]:
    """The few variables that a shell needs: the runtime's own hold keys and tokens.

    >>> clean_environment({"PATH": "/bin", "LC_ALL": "C", "API_KEY": "x"}, {"CI": "1"})
    {'PATH': '/bin', 'LC_ALL': 'C', 'CI': '1'}
    """
    kept = {
        name: value for name, value in environment.items() if name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)
    }
    return kept | dict(added or {})


class Process:
    """A started command. Raises SpawnFailed."""

    def __init__(
        self, spec: CommandSpec, folder: Path, environment: Mapping[str, str], *, most_bytes: int = MOST_BYTES
    ) -> None:
        self.spec = spec
        self.log = OutputLog(folder)
        self.end_reason: EndReason | None = None
        self._most_bytes = most_bytes
        self._mark = secrets.token_hex(16)
        self._ended = threading.Event()
        self._stopping: EndReason | None = None
        self._is_forced = threading.Event()
        self._input: FileIO | None = None
        self._input_lock = threading.Lock()
        self._started_s = time.monotonic()
        self._ended_s: float | None = None
        self._popen, outputs = self._start(dict(environment) | {MARK: self._mark})
        self._readers = [threading.Thread(target=self._copy, args=output, daemon=True) for output in outputs]
        for reader in self._readers:
            reader.start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self, environment: dict[str, str]) -> tuple[_Popen, list[tuple[FileIO, Stream]]]:
        try:
            shell = find_shell(self.spec.shell)
            argv = [shell, "-lc" if self.spec.login else "-c", self.spec.cmd]
            start = self._start_on_terminal if self.spec.tty else self._start_on_pipes
            return start(argv, environment)
        except (OSError, ValueError) as error:
            self.log.close()
            if isinstance(error, SpawnFailed):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            raise SpawnFailed(f"the shell could not be started: {reason}") from error

    def _start_on_pipes(
        self, argv: list[str], environment: dict[str, str]
    ) -> tuple[_Popen, list[tuple[FileIO, Stream]]]:
        popen = subprocess.Popen(  # noqa: S603 - to run what the model wrote is the tool's purpose
            argv,
            cwd=self.spec.workdir,
            env=environment,
            bufsize=0,
            stdin=subprocess.PIPE if self.spec.accepts_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._input = cast("FileIO | None", popen.stdin)
        return popen, [(cast("FileIO", popen.stdout), "stdout"), (cast("FileIO", popen.stderr), "stderr")]

    def _start_on_terminal(
        self, argv: list[str], environment: dict[str, str]
    ) -> tuple[_Popen, list[tuple[FileIO, Stream]]]:
        ours, theirs = pty.openpty()
        output = FileIO(ours, "rb+")
        try:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, WINDOW_SIZE)
            popen = subprocess.Popen(  # noqa: S603 - as above
                argv,
                cwd=self.spec.workdir,
                env={"TERM": "dumb"} | environment,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        except BaseException:
            output.close()
            raise
        finally:
            os.close(theirs)
        if self.spec.accepts_input:
            self._input = FileIO(os.dup(ours), "wb")
        return popen, [(output, "stdout")]

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set()

    @property
    def exit_status(self) -> int | None:
        """The shell's; 128 and the signal's number where one ended it. None while it runs."""
        code = self._popen.returncode if self._ended.is_set() else None
        return code if code is None or code >= 0 else 128 - code

    @property
    def seconds(self) -> float:
        return (self._ended_s or time.monotonic()) - self._started_s

    def wait(self, seconds: float | None) -> bool:
        """True when the command has ended, with all its output in the log."""
        return self._ended.wait(seconds)

    def write(self, data: bytes) -> int | None:
        """Writes to the command's input, as much as it takes at once; None where it takes none (any more)."""
        with self._input_lock:
            if self._input is None or self._input.closed or not self.is_running:
                return None
            os.set_blocking(self._input.fileno(), False)
            try:
                return self._input.write(data) or 0
            except OSError:
                return None

    def stop(self, *, force: bool = False, reason: EndReason = "stopped") -> None:
        """Asks the command to end, and after GRACE_S, or at once with `force`, kills it. Does not wait."""
        if self._ended.is_set():
            return
        self._stopping = self._stopping or reason
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL if force else signal.SIGTERM)
        if force:
            self._is_forced.set()
        else:
            killer = threading.Timer(GRACE_S, self.stop, kwargs={"force": True})
            killer.daemon = True
            killer.start()

    def _watch(self) -> None:
        """Waits for the shell's end, then ends what it left. Until it is reaped, its number is no other process's."""
        os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
        while self._stopping == "stopped" and lives_in_group(self._popen.pid) and not self._is_forced.wait(LOOK_S):
            pass
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        kill_marked(self._mark)
        for reader in self._readers:
            reader.join(DRAIN_S)
        self.log.close()
        with self._input_lock, suppress(OSError):
            if self._input is not None:
                self._input.close()
        self._ended_s = time.monotonic()
        self.end_reason = self._stopping or "exited"
        self._ended.set()

    def _copy(self, output: FileIO, stream: Stream) -> None:
        """Copies a stream into the log. After the limit it is read and dropped, until the command is dead."""
        with output, suppress(OSError):  # a terminal whose other side is closed cannot be read
            while chunk := output.read(CHUNK):
                room = self._most_bytes - self.log.size
                if self._stopping in ("output_limit", "disk_full"):
                    continue
                try:
                    self.log.add(stream, chunk[: max(room, 0)])
                except OSError:
                    self.stop(force=True, reason="disk_full")
                else:
                    if len(chunk) > room:
                        self.stop(force=True, reason="output_limit")


def find_shell(name: str | None) -> str:
    """The shell's path. Raises SpawnFailed for one that is not here."""
    found = shutil.which(name or "bash") or (shutil.which("sh") if name is None else None)
    if found is None:
        raise SpawnFailed(f"there is no shell {name or 'sh'} on this machine")
    return found


def kill_marked(mark: str, rounds: int = 3) -> None:
    """Kills every process with this mark in its environment: it may have left its group and its parent."""
    wanted = f"{MARK}={mark}".encode()
    for _ in range(rounds):  # a process may start another while the others are killed
        found = [process for process in _processes() if wanted in _environment(process).split(b"\0")]
        for process in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if not found:
            return


def lives_in_group(group: int) -> bool:
    """Looks for a process of the group that is more than waiting to be reaped. True where there is no /proc."""
    if not PROC.is_dir():
        return True
    for process in _processes():
        try:
            state, _parent, its_group, *_ = (PROC / str(process) / "stat").read_bytes().rpartition(b")")[2].split()
        except (OSError, ValueError):  # it ended meanwhile
            continue
        if int(its_group) == group and state not in (b"Z", b"X"):
            return True
    return False


def _processes() -> list[int]:
    if not PROC.is_dir():
        return []
    return [int(path.name) for path in PROC.iterdir() if path.name.isdigit() and int(path.name) != os.getpid()]


def _environment(process: int) -> bytes:
    try:
        return (PROC / str(process) / "environ").read_bytes()
    except OSError:
        return b""
