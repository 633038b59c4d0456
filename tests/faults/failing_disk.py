"""A disk whose calls fail on demand: a library that a process loads before the C library's own.

While a file `write`, `sync` or `read` lies in the folder of switches, such calls fail with EIO; with `full`, writes
fail with ENOSPC. That is so for files whose path contains FAULT_PATH; with FAULT_NTH only the call of that number
fails, and the 20 after it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static long calls;

static int is_on(const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", getenv("FAULT_SWITCHES"), name);
    return access(path, F_OK) == 0;
}

static int fails(int file, const char *name, const char *other) {
    int saved = errno, error = is_on(name) ? EIO : other && is_on(other) ? ENOSPC : 0;
    char link[64], path[PATH_MAX];
    const char *part = getenv("FAULT_PATH"), *nth = getenv("FAULT_NTH");
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = error ? readlink(link, path, sizeof path - 1) : -1;
    path[size < 0 ? 0 : size] = 0;
    errno = saved;
    if (!error || !strstr(path, part)) return 0;
    if (nth) {
        long past = __sync_add_and_fetch(&calls, 1) - atol(nth);
        if (past < 0 || past > 20) return 0;
    }
    errno = error;
    return 1;
}

#define CALL(...) EXPANDED(__VA_ARGS__)
#define EXPANDED(type, name, parameters, arguments, switch_, other)                    \
    type name parameters {                                                             \
        static type (*next) parameters;                                                \
        if (!next) next = (type (*) parameters) dlsym(RTLD_NEXT, #name);               \
        return fails(file, switch_, other) ? -1 : next arguments;                      \
    }
#define AT (int file, const void *data, size_t size, off64_t offset), (file, data, size, offset)
#define INTO (int file, void *data, size_t size, off64_t offset), (file, data, size, offset)
#define PIECES (int file, const struct iovec *pieces, int count, off64_t offset), (file, pieces, count, offset)

CALL(ssize_t, pwrite64, AT, "write", "full")
CALL(ssize_t, pwrite, AT, "write", "full")
CALL(ssize_t, pwritev, PIECES, "write", "full")
CALL(ssize_t, pwritev64, PIECES, "write", "full")
CALL(ssize_t, write, (int file, const void *data, size_t size), (file, data, size), "write", "full")
CALL(int, fdatasync, (int file), (file), "sync", NULL)
CALL(int, fsync, (int file), (file), "sync", NULL)
CALL(ssize_t, pread64, INTO, "read", NULL)
CALL(ssize_t, pread, INTO, "read", NULL)
CALL(ssize_t, preadv, PIECES, "read", NULL)
"""


class NoCompiler(Exception):
    """This machine has no `cc` to build the library with."""


@dataclass(frozen=True)
class FailingDisk:
    """`variables` are the environment of a process whose calls on files with `part` in their path fail."""

    library: Path
    switches: Path
    part: str

    @property
    def variables(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "FAULT_SWITCHES": str(self.switches), "FAULT_PATH": self.part}

    @contextmanager
    def failing(self, name: str) -> Iterator[None]:
        (self.switches / name).touch()
        try:
            yield
        finally:
            (self.switches / name).unlink()


@contextmanager
def failing_disk(part: str) -> Iterator[FailingDisk]:
    """In a folder that the user of a database may read. Raises NoCompiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompiler
    folder = Path(tempfile.mkdtemp(prefix="counterfoil-disk-"))
    try:
        disk = FailingDisk(folder / "failing.so", folder / "switches", part)
        disk.switches.mkdir()
        (folder / "failing.c").write_text(SOURCE)
        options = ["-shared", "-fPIC", "-O1", "-w", "-o", disk.library]
        subprocess.run([compiler, *options, folder / "failing.c", "-ldl"], check=True)
        folder.chmod(0o755)
        yield disk
    finally:
        shutil.rmtree(folder)
