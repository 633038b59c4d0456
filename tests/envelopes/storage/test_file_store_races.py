"""Files of a store, or the store itself, that disappear while it is read."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import BinaryIO

import pytest

from envelopes.storage.file_store import FileStore, MissingArtifact, StoreFault, StoreUnreachable, check_content
from envelopes.storage.line_index import LineIndex


class Racing(FileStore):
    """A file that was listed has another name by the time that it is opened."""

    def _name(self, path: str) -> str:
        folder = super()._name(path).partition("/")[0]
        return f"{folder}/{self.later}"

    later = "0" * 64


def test_a_file_that_goes_after_it_was_listed_is_missing(tmp_path: Path) -> None:
    store = Racing(tmp_path)
    written = store.write("stdout", "a\n")
    with pytest.raises(MissingArtifact):
        store.open(written.path)


def test_what_the_system_refuses_for_another_reason_is_raised_as_it_is(tmp_path: Path) -> None:
    store = Racing(tmp_path)
    written = store.write("stdout", "a\n")
    store.later = "0" * 300
    with pytest.raises(OSError, match="name too long") as refused:
        store.open(written.path)
    assert refused.value.errno == errno.ENAMETOOLONG


def test_a_store_that_fails_while_it_is_checked_reports_no_fault() -> None:
    def gone(*_: object) -> BinaryIO:
        raise StoreUnreachable("nobody answers")

    def no_index(size: int) -> LineIndex:
        raise StoreUnreachable(f"nobody answers of {size} bytes")

    sha256 = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"  # of "a\n"
    with pytest.raises(StoreUnreachable, match="nobody answers"):
        check_content("a", sha256, gone, no_index)
    with pytest.raises(StoreUnreachable, match="of 2 bytes"):
        check_content("a", sha256, lambda: io.BytesIO(b"a\n"), no_index)
    assert check_content("a", sha256, lambda: io.BytesIO(b"a\n"), lambda _size: None) is None
    assert isinstance(check_content("a", sha256, lambda: io.BytesIO(b"b\n"), no_index), StoreFault)
