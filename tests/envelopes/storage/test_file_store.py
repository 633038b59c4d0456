"""The store of large outputs: complete, once, and on disk before anything refers to them."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.storage.file_store import LOCK, FileStore, MissingArtifact, StoreFault, StoreUnreachable
from envelopes.storage.seekable import Damaged
from envelopes.storage.sinks import MemorySink
from tests.conftest import CHECKOUT

LARGE = "".join(f"line {number} of the log\n" for number in range(40_000))
WRITER = """
import sys
from pathlib import Path
from envelopes.storage.file_store import FileStore

store = FileStore(Path(sys.argv[1]), compress_from=20_000)
for number in range(10_000):
    text = f"{number} " + "some output\\n" * (number % 7 * 1_000)
    print(number, store.write("stdout", text).path, flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store", compress_from=100_000)


def content(store: FileStore, path: str) -> bytes:
    with store.open(path) as stream:
        return stream.read()


def files(store: FileStore) -> list[str]:
    return sorted(path.relative_to(store.root).as_posix() for path in store.root.rglob("*") if path.is_file())


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_small_text_is_one_plain_file_named_by_its_hash(store: FileStore) -> None:
    reference = store.write("stdout", "hello\n")
    sha256 = digest("hello\n")
    assert reference.path == f"artifacts/{sha256[:16]}/stdout.txt"
    assert files(store) == [f"{sha256[:2]}/{sha256}"]
    assert (store.root / sha256[:2] / sha256).read_bytes() == content(store, reference.path) == b"hello\n"
    assert store.check() == ()


def test_both_sinks_give_one_text_one_path(store: FileStore) -> None:
    assert store.write("stderr", "warning: \udcff") == MemorySink().write("stderr", "warning: \udcff")


def test_a_large_text_is_compressed_and_read_in_windows(store: FileStore) -> None:
    path = store.write("stdout", LARGE).path
    (name,) = files(store)
    assert name == f"{digest(LARGE)[:2]}/{digest(LARGE)}.zst"
    assert (store.root / name).stat().st_size < len(LARGE) // 4
    assert content(store, path) == LARGE.encode()
    assert store.read_window(path, 500_000, 40) == LARGE.encode()[500_000:500_040]
    assert store.read_window(path, len(LARGE) - 3, 40) == LARGE.encode()[-3:]
    assert store.read_window(path, len(LARGE) + 9, 40) == b""
    assert store.check() == ()


def test_large_content_that_is_no_text_is_kept_as_it_is(store: FileStore) -> None:
    stored = store.put(io.BytesIO(b"\0" * 200_000))
    assert files(store) == [f"{stored.sha256[:2]}/{stored.sha256}"]


def test_a_plain_file_says_by_its_dates_that_nobody_wrote_to_it(store: FileStore) -> None:
    content = b"\0" * 2_000_000
    sha256 = store.put(io.BytesIO(content)).sha256
    file = store.root / sha256[:2] / sha256
    assert store.is_untouched(sha256)
    dates = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"x")
    os.utime(file, ns=(dates.st_atime_ns, dates.st_mtime_ns))  # as `touch -r` does
    assert (store.is_untouched(sha256), store.verify(sha256), store.is_untouched(sha256)) == (False, False, False)
    file.write_bytes(content)
    assert (store.is_untouched(sha256), store.verify(sha256), store.is_untouched(sha256)) == (False, True, True)
    file.write_bytes(content)
    assert (store.check(), store.is_untouched(sha256)) == ((), True)
    file.write_bytes(content)
    store.put(io.BytesIO(content))  # is there already, and was not read
    assert not store.is_untouched(sha256)
    assert store.is_untouched(store.put(io.BytesIO(b"text\n" * 400_000)).sha256)
    assert not store.indexes.is_sealed(digest("never stored"), dates.st_ctime_ns)


def test_a_quick_check_reports_what_is_gone_or_has_another_size(store: FileStore) -> None:
    sha256 = store.put(io.BytesIO(b"hello\n")).sha256
    file = store.root / sha256[:2] / sha256
    store.glance(sha256, 6)
    store.glance(store.put(io.BytesIO(LARGE.encode())).sha256, len(LARGE))  # compressed: its file has another size
    file.write_bytes(b"hell")
    with pytest.raises(Damaged, match="4 bytes, where 6 were stored"):
        store.glance(sha256, 6)
    file.unlink()
    with pytest.raises(MissingArtifact):
        store.glance(sha256, 6)
    file.symlink_to(store.root)
    with pytest.raises(Damaged, match="not a regular file"):
        store.glance(sha256, 6)


@pytest.mark.parametrize(("data", "lines"), [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n\n", 2)])
def test_what_is_stored_is_counted(store: FileStore, data: bytes, lines: int) -> None:
    stored = store.put(io.BytesIO(data))
    assert (stored.size, stored.lines) == (len(data), lines)


def test_the_same_content_is_stored_once(store: FileStore) -> None:
    paths = {store.write(role, text).path for role in ("stdout", "stderr") for text in ("hello\n", LARGE)}
    assert len(paths) == 4
    assert len(files(store)) == 2


def test_a_store_that_changed_its_mind_about_compression_still_reads_and_adds_no_copy(tmp_path: Path) -> None:
    path = FileStore(tmp_path, compress_from=1_000).write("stdout", LARGE).path
    plain = FileStore(tmp_path, compress_from=None)
    assert content(plain, path) == LARGE.encode()
    assert plain.write("stdout", LARGE).path == path
    assert len(files(plain)) == 1


@pytest.mark.parametrize(
    "path",
    [
        "artifacts/0123456789abcdef/stdout.txt",
        "artifacts/../../../etc/passwd",
        "artifacts/0123456789abcdef/../../x",
        "/etc/passwd",
        "0" * 64,
        "ab",
        "",
        "artifacts/0123456789abcdef\x00/stdout.txt",
    ],
)
def test_a_path_that_names_nothing_stored_is_missing(store: FileStore, path: str) -> None:
    store.write("stdout", "hello\n")
    with pytest.raises(MissingArtifact), store.open(path):
        pass


def test_digits_that_fit_two_contents_name_neither(store: FileStore) -> None:
    path = store.write("stdout", "hello\n").path
    sha256 = digest("hello\n")
    (store.root / sha256[:2] / (sha256[:16] + "0" * 48)).write_bytes(b"made to collide")
    with pytest.raises(MissingArtifact):
        store.read_window(path, 0, 9)
    assert store.read_window(sha256, 0, 5) == b"hello"


def test_a_link_in_the_store_is_not_followed(store: FileStore, tmp_path: Path) -> None:
    path = store.write("stdout", "hello\n").path
    (tmp_path / "secret").write_text("secret")
    file = store.root / files(store)[0]
    file.unlink()
    file.symlink_to(tmp_path / "secret")
    with pytest.raises(Damaged, match="not a regular file"), store.open(path):
        pass
    assert [fault.reason for fault in store.check()] == ["is not a regular file"]


def test_a_pipe_in_the_store_is_not_waited_for(store: FileStore) -> None:
    path = store.write("stdout", "hello\n").path
    file = store.root / files(store)[0]
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(Damaged, match="not a regular file"):
        store.read_window(path, 0, 9)


@pytest.mark.parametrize(
    ("text", "damage", "reason"),
    [
        ("hello\n", lambda data: b"jello\n", f"holds content with sha256 {digest('jello' + chr(10))}"),
        ("hello\n", lambda data: data[:3], f"holds content with sha256 {digest('hel')}"),
        (LARGE, lambda data: data[:-7], "cannot be read (Damaged: it does not end in a table"),
        (LARGE, lambda data: data[:3], "cannot be read (Damaged: it is too short for a table"),
        (LARGE, lambda data: b"x" + data, "cannot be read (Damaged: its table of frames does not fit"),
        (
            LARGE,
            lambda data: data[:-13] + bytes([data[-13] ^ 1]) + data[-12:],
            "cannot be read (Damaged: frame 3 holds",
        ),
        (LARGE, lambda data: data[:900] + bytes([data[900] ^ 1]) + data[901:], "cannot be read (Damaged: frame 0:"),
    ],
)
def test_damage_is_found(store: FileStore, text: str, damage: Callable[[bytes], bytes], reason: str) -> None:
    store.write("stdout", text)
    store.write("stdout", "whole")
    (name,) = (name for name in files(store) if digest(text) in name)
    (store.root / name).write_bytes(damage((store.root / name).read_bytes()))
    (fault,) = store.check()
    assert fault.name == name
    assert fault.reason.startswith(reason)


def test_a_large_content_has_its_line_index_beside_it_and_check_compares_them(store: FileStore) -> None:
    stored = store.put(io.BytesIO(LARGE.encode() * 2))
    index = store.indexes.load(stored.sha256, stored.size)
    with store.open(stored.sha256) as stream:
        stream.seek(index.line_start(stream, 40_001))
        assert stream.read(len("line 0 of the log\n")) == b"line 0 of the log\n"
    assert (stored.lines, index.lines, store.check()) == (80_000, 80_000, ())
    path = store.indexes.path(stored.sha256)
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    assert [fault.reason for fault in store.check()] == ["is not the index of this content"]
    (store.root / stored.sha256[:2] / f"{stored.sha256}.zst").unlink()
    assert [fault.reason for fault in store.check()] == ["is the index of nothing"]


def test_an_index_that_cannot_be_read_is_named_and_the_lock_of_those_who_use_the_store_is_not(store: FileStore) -> None:
    stored = store.put(io.BytesIO(LARGE.encode() * 2))
    (store.root / LOCK).touch()
    path = store.indexes.path(stored.sha256)
    path.write_bytes(path.read_bytes()[:5])
    (fault,) = store.check()
    assert fault.name == f"{stored.sha256[:2]}/{path.name}"
    assert fault.reason.startswith("cannot be read (")


def test_a_folder_that_is_a_link_is_not_followed(store: FileStore, tmp_path: Path) -> None:
    sha256 = store.put(io.BytesIO(b"hello\n")).sha256
    (store.root / sha256[:2]).rename(tmp_path / "elsewhere")
    (store.root / sha256[:2]).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Damaged, match="not a regular file"):
        store.open(sha256)


@pytest.mark.parametrize("fault", ["gone", "empty", "in a circle"])
def test_a_folder_that_cannot_be_the_store_says_nothing_of_what_is_missing(store: FileStore, fault: str) -> None:
    sha256 = store.put(io.BytesIO(b"hello\n")).sha256
    store.root.rename(store.root.with_name("not mounted"))
    {"gone": lambda: None, "empty": store.root.mkdir, "in a circle": lambda: store.root.symlink_to(store.root)}[fault]()
    with pytest.raises(StoreUnreachable, match="symbolic links" if fault == "in a circle" else "is its disk mounted"):
        store.open(sha256)


def test_a_store_that_cannot_be_listed_reports_no_faults(store: FileStore) -> None:
    store.root.symlink_to(store.root)
    for ask in (store.check, store.sizes):
        with pytest.raises(StoreUnreachable):
            ask()


def test_an_object_that_is_not_an_artifact_is_reported_by_its_name(store: FileStore) -> None:
    store.write("stdout", "hello\n")
    (store.root / "notes.txt").write_text("mine")
    (store.root / "58" / "x").write_text("mine")
    (store.root / "incoming-1").write_text("hel")
    assert store.check() == (
        StoreFault("58/x", "is not named as an artifact is"),
        StoreFault("incoming-1", "left by a write that did not end"),
        StoreFault("notes.txt", "is not named as an artifact is"),
    )


def test_the_size_of_each_content_is_reported_with_its_indexes_and_for_an_index_alone(store: FileStore) -> None:
    small, large = store.put(io.BytesIO(b"hello\n")), store.put(io.BytesIO(LARGE.encode() * 2))
    (store.root / "notes.txt").write_text("mine")
    sizes = store.sizes()
    assert sizes == {
        small.sha256: 6,
        large.sha256: sum(path.stat().st_size for path in (store.root / large.sha256[:2]).iterdir()),
    }
    (store.root / large.sha256[:2] / f"{large.sha256}.zst").unlink()
    assert store.sizes() == {small.sha256: 6, large.sha256: store.indexes.path(large.sha256).stat().st_size}


def test_what_goes_while_the_store_is_listed_takes_nothing(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = store.put(io.BytesIO(b"hello\n"))
    with (store.root / "incoming-old").open("wb"):
        pass
    lstat = Path.lstat

    def gone(path: Path) -> os.stat_result:
        path.unlink()
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", gone)
    assert store.sizes() == {stored.sha256: 0}
    assert store.unfinished(0) == ()


def test_removing_takes_the_content_with_its_indexes_and_nothing_else(store: FileStore) -> None:
    stored = store.put(io.BytesIO(LARGE.encode() * 2))
    other = store.root / stored.sha256[:2] / (stored.sha256[:2] + "0" * 62)
    other.write_bytes(b"of its own")
    for _ in range(2):
        store.remove(stored.sha256)
        assert files(store) == [other.relative_to(store.root).as_posix()]


def test_what_a_killed_write_left_is_unfinished_when_it_is_old(store: FileStore) -> None:
    store.write("stdout", "hello\n")
    old, fresh = store.root / "incoming-old", store.root / "incoming-fresh"
    for path in (old, fresh):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    assert store.unfinished(3600) == (old,)


def test_a_truncated_artifact_is_written_anew(store: FileStore) -> None:
    path = store.write("stdout", "hello\n").path
    (store.root / files(store)[0]).write_bytes(b"hel")
    assert store.write("stdout", "hello\n").path == path
    assert content(store, path) == b"hello\n"


@pytest.mark.parametrize("text", ["hello\n", LARGE])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_stores_nothing_and_the_next_one_works(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, call: str, text: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store.write("stdout", "before")
    with monkeypatch.context() as broken:
        broken.setattr(os, call, full)
        with pytest.raises(OSError, match="No space left"):
            store.write("stdout", text)
    assert files(store) == [f"{digest('before')[:2]}/{digest('before')}"]
    assert content(store, store.write("stdout", text).path) == text.encode()


def test_file_and_folders_are_synced_before_a_write_returns(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("stdout", "before")
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def noted_sync(descriptor: int) -> None:
        steps.append(f"sync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name[:9]}")
        sync(descriptor)

    def noted_replace(source: str, target: Path) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    store.write("stdout", "hello\n")
    assert steps == ["sync store", "sync incoming-", "rename", "sync 58", "sync store"]


def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    acknowledged: dict[int, str] = {}
    for last in (3, 17, 40):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
        )
        assert writer.stdout is not None
        for line in writer.stdout:
            number, path = line.split()
            acknowledged[int(number)] = path
            if int(number) == last:
                break
        writer.send_signal(signal.SIGKILL)
        for line in writer.stdout:
            number, path = line.split()
            acknowledged[int(number)] = path
        writer.wait()
        writer.stdout.close()
    store = FileStore(tmp_path)
    assert {fault.reason for fault in store.check()} <= {"left by a write that did not end"}
    assert len(acknowledged) >= 41
    for number, path in acknowledged.items():
        assert content(store, path) == (f"{number} " + "some output\n" * (number % 7 * 1_000)).encode()


def test_without_pyzstd_the_store_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = FileStore(tmp_path, compress_from=1_000).write("stdout", LARGE).path
    monkeypatch.setitem(sys.modules, "pyzstd", None)
    with pytest.raises(ModuleNotFoundError, match=r"install it, or pass compress_from=None"):
        FileStore(tmp_path)
    plain = FileStore(tmp_path, compress_from=None)
    assert content(plain, plain.write("stdout", "hello\n").path) == b"hello\n"
    with pytest.raises(ModuleNotFoundError, match="pyzstd"), plain.open(path):
        pass


@given(st.lists(st.text(max_size=400) | st.text(alphabet="ab\n\udc80é", min_size=200, max_size=3_000), max_size=6))
def test_every_text_comes_back_whole_by_its_path(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    store = FileStore(tmp_path_factory.mktemp("store"), compress_from=500)
    paths = {text: store.write("stdout", text).path for text in texts}
    for text, path in paths.items():
        data = text.encode("utf-8", "surrogatepass")
        assert content(store, path) == data
        assert store.read_window(path, len(data) // 3, 50) == data[len(data) // 3 :][:50]
    assert len(files(store)) == len(set(texts))
    assert store.check() == ()
