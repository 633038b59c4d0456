"""Outages of the store: which exceptions mean one, and how requests and commands answer it.

A database that is locked or restarting, a full disk, a read-only disk and a disk with errors are no faults of the
program. They pass, so the answer states what to do, and nothing is kept that would outlive them.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from django.db import Error, InterfaceError, OperationalError, connection

TRY_AGAIN = 75  # the exit status of a command; EX_TEMPFAIL of sysexits.h
SECOND_TRY, LATER = 5, 30  # seconds
SQLITE_PRIMARY = 0xFF  # the part of an extended error code that has the primary one


@dataclass(frozen=True)
class Outage:
    """`status` is that of the response, `retry_after` in seconds."""

    status: int
    title: str
    sentence: str
    retry_after: int = LATER


BUSY = Outage(
    503,
    "The database is busy",
    "Another process has been writing for too long. Nothing that was acknowledged is lost; try again.",
    SECOND_TRY,
)
UNREACHABLE = Outage(
    503, "The store does not answer", "It may be restarting. Nothing that was acknowledged is lost; try again."
)
READ_ONLY = Outage(
    503,
    "The store is read-only",
    "What is stored can be read. Nothing can be written until its disk is writable.",
)
FULL = Outage(
    507,
    "The disk is full",
    "Nothing that was acknowledged is lost, and what is stored can be read. Free space on the disk of the store, then "
    "try again.",
)
FAILING = Outage(
    503,
    "The disk of the store has errors",
    "Reading or writing it failed. The server's log has the error; check_store lists what is damaged.",
)

SQLITE_OUTAGES = {
    **dict.fromkeys((5, 6), BUSY),  # BUSY, LOCKED
    8: READ_ONLY,
    **dict.fromkeys((10, 11, 26), FAILING),  # IOERR, CORRUPT, NOTADB
    13: FULL,
    **dict.fromkeys((7, 14, 15), UNREACHABLE),  # NOMEM, CANTOPEN, PROTOCOL
}
# By the beginning of the SQLSTATE, the longest first.
POSTGRESQL_OUTAGES = {
    "25006": READ_ONLY,
    "53100": FULL,
    "55P03": BUSY,
    "58030": FAILING,
    "XX001": FAILING,
    "XX002": FAILING,
    **dict.fromkeys(("40", "57014"), BUSY),
    **dict.fromkeys(("08", "53", "57", "58"), UNREACHABLE),
}
SYSTEM_OUTAGES = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EROFS: READ_ONLY,
    errno.EIO: FAILING,
    errno.EMFILE: UNREACHABLE,
    errno.ENFILE: UNREACHABLE,
}


def find_outage(error: BaseException | None) -> Outage | None:
    """The outage behind an exception, also behind one that was raised while it was handled; None for other faults."""
    while error is not None:
        outage = _database_outage(error) if isinstance(error, Error) else None
        if outage is None and isinstance(error, OSError):
            outage = SYSTEM_OUTAGES.get(error.errno or 0)
        if outage is not None:
            return outage
        error = error.__cause__ or error.__context__
    return None


def _database_outage(error: Error) -> Outage | None:
    """None for what a statement of ours got wrong."""
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    if code is not None:
        return SQLITE_OUTAGES.get(code & SQLITE_PRIMARY)
    state = getattr(error.__cause__, "sqlstate", None)
    if state is None:  # psycopg could not connect, or lost the connection
        return UNREACHABLE if isinstance(error, (OperationalError, InterfaceError)) and error.__cause__ else None
    return next((outage for start, outage in POSTGRESQL_OUTAGES.items() if state.startswith(start)), None)


def drop_connection() -> None:
    """Closes a connection that an outage may have left read-only or broken; the next query opens another."""
    if not connection.in_atomic_block:
        connection.close()
