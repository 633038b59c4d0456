"""Folders in which uploads arrive, below `uploads` in the data folder, never in the temporary folder of the machine.

The name of a folder begins with the bytes that its upload may have, so that the uploads of all processes together
stay within a quota. A process holds the lock of its folder while it lives. A folder whose lock is free was left by a
killed process; the next upload removes it, and so does the start of the server.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings

from dashboard.artifacts.stores import hold_lock
from dashboard.text.formatting import format_size

LOCK = "upload-folders.lock"


class UploadsFull(Exception):
    """Other uploads have taken the room; the message is for the person who waits."""


@contextmanager
def reserve_upload_folder(size: int) -> Iterator[Path]:
    """An empty folder for an upload of at most `size` bytes, removed at the end. Raises UploadsFull."""
    root = _root()
    root.mkdir(mode=0o700, exist_ok=True)
    with hold_lock(root / LOCK, exclusive=True):
        remove_abandoned_uploads()
        reserved = sum(int(folder.name.partition("-")[0]) for folder in _folders())
        if reserved + size > settings.UPLOAD_QUOTA_BYTES:
            raise UploadsFull(
                f"Other uploads are using {format_size(reserved)} of the {format_size(settings.UPLOAD_QUOTA_BYTES)} "
                "that uploads may take at once. Try again when they are done."
            )
        folder = Path(tempfile.mkdtemp(prefix=f"{size}-", dir=root))
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def find_abandoned_uploads() -> list[Path]:
    """Folders of uploads whose process was killed."""
    return [folder for folder in _folders() if _is_abandoned(folder)]


def remove_abandoned_uploads() -> None:
    for folder in find_abandoned_uploads():
        shutil.rmtree(folder, ignore_errors=True)


def _root() -> Path:
    return Path(settings.DATA) / "uploads"


def _folders() -> list[Path]:
    with suppress(FileNotFoundError):
        return sorted(entry for entry in _root().iterdir() if entry.is_dir())
    return []


def _is_abandoned(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # its upload has ended since
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
