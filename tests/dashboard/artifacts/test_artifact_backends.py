"""One contract of two artifact stores: a folder, and a bucket behind a real S3 API."""

from __future__ import annotations

import hashlib
import io
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from dashboard.artifacts.bucket import LARGEST_RANGE, SMALLEST_RANGE, ObjectReader
from dashboard.artifacts.stores import ArtifactStore, configured_store
from envelopes.storage.file_store import MissingArtifact, StoredContent, StoreFault, StoreUnreachable
from envelopes.storage.line_index import NotIndexed
from envelopes.storage.sinks import MemorySink
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.stored_artifacts import (
    names_in_store,
    open_page,
    read_stored,
    remove_stored,
    replace_stored,
    rows_of,
)
from tests.dashboard.stored_artifacts import stored as stored_for

LOG = b"".join(b"line %d of a log that is long enough to be kept compressed\n" % number for number in range(60_000))
NOISE = random.Random(7).randbytes(9_000_000)


@pytest.fixture
def store(artifact_store: str) -> ArtifactStore:
    return configured_store()


def put(store: ArtifactStore, content: bytes) -> StoredContent:
    return store.put(io.BytesIO(content))


def content(store: ArtifactStore, path: str) -> bytes:
    with store.open(path) as stream:
        return stream.read()


def name_of(stored: StoredContent, form: str = "") -> str:
    return f"{stored.sha256[:2]}/{stored.sha256}{form}"


@pytest.mark.parametrize(("data", "lines"), [(b"", 0), (b"a", 1), (b"a\nb", 2), (b"\0\xff\n", 1)])
def test_what_is_put_comes_back_and_is_counted(store: ArtifactStore, data: bytes, lines: int) -> None:
    stored = put(store, data)
    assert stored == StoredContent(hashlib.sha256(data).hexdigest(), len(data), lines)
    assert content(store, stored.sha256) == data
    assert names_in_store() == [name_of(stored)]
    assert store.check() == ()


def test_a_text_has_the_path_that_every_sink_gives_it(store: ArtifactStore) -> None:
    reference = store.write("stderr", "warning: \udcff")
    assert reference == MemorySink().write("stderr", "warning: \udcff")
    assert store.read_window(reference.path, 0, 8) == b"warning:"


def test_large_text_is_compressed_with_its_index_beside_it_and_read_in_windows(store: ArtifactStore) -> None:
    stored = put(store, LOG)
    assert names_in_store() == [name_of(stored, ".lines"), name_of(stored, ".zst")]
    assert store.read_window(stored.sha256, 2_000_000, 40) == LOG[2_000_000:2_000_040]
    assert store.read_window(stored.sha256, len(LOG) - 3, 40) == LOG[-3:]
    assert store.read_window(stored.sha256, len(LOG) + 9, 40) == b""
    assert content(store, stored.sha256) == LOG
    index = store.indexes.load(stored.sha256, stored.size)
    with store.open(stored.sha256) as stream:
        assert index.line_start(stream, 50_000) == LOG.index(b"line 49999 ")
    assert store.check() == ()
    assert store.sizes().keys() == {stored.sha256}
    assert sum(store.sizes().values()) < len(LOG) // 4


def test_the_same_content_is_stored_once(store: ArtifactStore) -> None:
    assert put(store, LOG) == put(store, LOG)
    assert len(names_in_store()) == 2


def test_a_virtual_path_finds_its_content_unless_two_fit_it(store: ArtifactStore) -> None:
    stored = put(store, b"hello\n")
    path = f"artifacts/{stored.sha256[:16]}/stdout.txt"
    replace_stored(f"{stored.sha256[:2]}/{stored.sha256[:15]}" + "f" * 49, b"of other digits")
    assert content(store, path) == b"hello\n"
    replace_stored(f"{stored.sha256[:2]}/{stored.sha256[:16]}" + "0" * 48, b"made to collide")
    with pytest.raises(MissingArtifact):
        store.open(path)


@pytest.mark.parametrize("path", ["0" * 64, "artifacts/" + "0" * 16 + "/x", "../secret_key", "/etc/passwd", "ab", ""])
def test_what_is_not_there_is_missing(store: ArtifactStore, path: str) -> None:
    put(store, b"hello\n")
    with pytest.raises(MissingArtifact):
        store.open(path)


@pytest.mark.parametrize("data", [b"hello\n", LOG])
def test_what_was_cut_short_is_named_and_written_anew(store: ArtifactStore, data: bytes) -> None:
    stored = put(store, data)
    name = name_of(stored, ".zst" if data is LOG else "")
    replace_stored(name, read_stored(name)[:3])
    (fault,) = store.check()
    assert fault.name == name
    put(store, data)
    assert content(store, stored.sha256) == data
    assert store.check() == ()


def test_other_bytes_of_the_same_size_are_named(store: ArtifactStore) -> None:
    stored = put(store, b"hello\n")
    replace_stored(name_of(stored), b"jello\n")
    (fault,) = store.check()
    assert fault == StoreFault(
        name_of(stored), f"holds content with sha256 {hashlib.sha256(b'jello' + bytes([10])).hexdigest()}"
    )


def test_an_index_of_something_else_or_of_nothing_is_named(store: ArtifactStore) -> None:
    stored = put(store, LOG)
    name = name_of(stored, ".lines")
    raw = read_stored(name)
    replace_stored(name, raw[:-1] + bytes([raw[-1] ^ 1]))
    assert store.check() == (StoreFault(name, "is not the index of this content"),)
    replace_stored(name, raw[:5])
    assert [fault.reason for fault in store.check()] == ["cannot be read (BadIndex)"]
    remove_stored(name_of(stored, ".zst"))
    assert store.check() == (StoreFault(name, "is the index of nothing"),)
    assert store.sizes() == {stored.sha256: 5}


def test_an_object_that_is_not_an_artifact_is_reported_by_its_name(store: ArtifactStore) -> None:
    replace_stored("notes.txt", b"mine")
    replace_stored("58/x", b"mine")
    assert store.check() == (
        StoreFault("58/x", "is not named as an artifact is"),
        StoreFault("notes.txt", "is not named as an artifact is"),
    )


def test_a_lost_or_damaged_index_is_built_again(store: ArtifactStore, settings: Settings) -> None:
    stored = put(store, LOG)
    name = name_of(stored, ".lines")
    for spoil in (lambda: remove_stored(name), lambda: replace_stored(name, b"damaged")):
        spoil()
        for copy in Path(settings.ARTIFACT_CACHE).glob("*/*.lines"):
            copy.unlink()
        with pytest.raises(NotIndexed):
            store.indexes.load(stored.sha256, stored.size)
        with store.open(stored.sha256) as stream:
            assert store.indexes.build(stored.sha256, stream)
            assert not store.indexes.build(stored.sha256, stream)
        assert store.indexes.load(stored.sha256, stored.size).lines == 60_000
        assert store.indexes.head(stored.sha256).size == 0
        assert store.check() == ()


def test_removing_takes_the_content_and_every_index(store: ArtifactStore) -> None:
    stored, other = put(store, LOG), put(store, b"other\n")
    with store.open(stored.sha256) as stream:
        store.indexes.build(stored.sha256, stream, "utf-16-le")
    store.remove(stored.sha256)
    store.remove(stored.sha256)
    assert names_in_store() == [name_of(other)]
    with pytest.raises(MissingArtifact):
        store.open(stored.sha256)
    with pytest.raises(NotIndexed):
        store.indexes.load(stored.sha256, stored.size)


def test_many_writers_of_one_content_leave_one_whole(store: ArtifactStore) -> None:
    threads = [threading.Thread(target=put, args=(store, LOG)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names_in_store()) == 2
    assert store.check() == ()


def test_content_of_many_parts_is_whole(store: ArtifactStore) -> None:
    stored = put(store, NOISE)
    assert content(store, stored.sha256) == NOISE
    assert store.read_window(stored.sha256, 8_388_600, 20) == NOISE[8_388_600:8_388_620]


def test_an_index_that_this_machine_lost_comes_from_the_bucket(
    bucket_address: str, settings: Settings, tmp_path: Path
) -> None:
    settings.ARTIFACTS, settings.ARTIFACT_CACHE = bucket_address, tmp_path / "one"
    stored = put(configured_store(), LOG)
    settings.ARTIFACT_CACHE = tmp_path / "another"
    assert configured_store().indexes.load(stored.sha256, stored.size).lines == 60_000
    assert not list(tmp_path.rglob("incoming-*"))


@pytest.mark.rendering
@pytest.mark.django_db
def test_the_pages_show_and_search_and_serve_what_either_holds(artifact_store: str, client: Client) -> None:
    call = create_call(create_run(create_project("ledger")))
    client.force_login(create_user("olga", project=call.project))
    artifact = stored_for(call, LOG)
    assert rows_of(open_page(client, artifact, "?line=50000"))[0][0] == 50_000
    assert "line 49999 of a log" in open_page(client, artifact, "find/?q=line+49999+of").text
    served = client.get(f"/artifacts/{artifact.pk}/raw", headers={"range": "bytes=2000000-2000039"})
    assert served.status_code == 206
    assert b"".join(served) == LOG[2_000_000:2_000_040]
    remove_stored(f"{artifact.sha256[:2]}/{artifact.sha256}.zst")
    assert "The content is lost" in open_page(client, artifact).text


class Served:
    """An object, and the ranges that were requested of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.requested: list[tuple[int, int]] = []

    def fetch(self, start: int, length: int) -> bytes:
        self.requested.append((start, length))
        return self.data[start : start + length]

    def reader(self, tail: int = 0) -> ObjectReader:
        return ObjectReader(self.fetch, len(self.data), self.data[len(self.data) - tail :])


def test_a_window_asks_for_one_range_and_reading_on_for_ever_larger_ones() -> None:
    served = Served(NOISE)
    reader = served.reader(tail=1_000)
    reader.seek(-500, io.SEEK_END)
    assert reader.read() == NOISE[-500:]
    assert served.requested == []
    reader.seek(5_000_000)
    assert reader.read(4_096) == NOISE[5_000_000:5_004_096]
    reader.seek(4_999_000)
    assert reader.read(65_536) == NOISE[4_999_000:5_064_536]
    assert [length for _, length in served.requested] == [SMALLEST_RANGE]
    reader.seek(0)
    while reader.read(250_000):
        pass
    sizes = [length for _, length in served.requested[1:]]
    assert sizes[:3] == [250_000, 2 * SMALLEST_RANGE, 4 * SMALLEST_RANGE]
    assert LARGEST_RANGE in sizes
    assert len(sizes) < 12


@given(st.lists(st.tuples(st.integers(0, 700_000), st.integers(0, 300_000)), max_size=12), st.integers(0, 70_000))
def test_reads_of_an_object_give_its_bytes(reads: list[tuple[int, int]], tail: int) -> None:
    data = NOISE[:600_000]
    reader = Served(data).reader(tail)
    for start, count in reads:
        reader.seek(start)
        assert reader.read(count) == data[start : start + count]


def test_a_range_that_comes_short_is_no_content() -> None:
    reader = ObjectReader(lambda start, length: b"x", 1_000_000, b"")
    with pytest.raises(OSError, match="gave 1 bytes"):
        reader.read(10)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://", "has to be s3://BUCKET/PREFIX"),
        ("s3://key:secret@bucket/x", "keys come from the environment"),
        ("s3://bucket/x?region=y", "has to be s3://BUCKET/PREFIX"),
        ("gs://bucket/x", "a folder, or s3://BUCKET/PREFIX"),
    ],
)
def test_an_address_that_names_no_store_is_refused_and_no_secret_repeated(
    settings: Settings, address: str, message: str
) -> None:
    settings.ARTIFACTS = address
    with pytest.raises(ImproperlyConfigured, match=message) as error:
        configured_store()
    assert "secret" not in str(error.value)


def test_without_the_extra_it_says_what_to_install(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ARTIFACTS = "s3://another-bucket/x"
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ImproperlyConfigured, match=r"pip install 'counterfoil\[s3\]', or name a folder"):
        configured_store()


ASKS: dict[str, Callable[[ArtifactStore], object]] = {
    "put": lambda store: put(store, b"x"),
    "check": lambda store: store.check(),
    "open": lambda store: store.open("0" * 64),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_a_bucket_that_is_not_there_is_an_error_of_one_line(
    s3_environment: dict[str, str], settings: Settings, tmp_path: Path, ask: Callable[[ArtifactStore], object]
) -> None:
    settings.ARTIFACTS, settings.ARTIFACT_CACHE = "s3://no-such-bucket/x", tmp_path
    with pytest.raises(StoreUnreachable) as error:
        ask(configured_store())
    assert "\n" not in str(error.value)
    assert not list(tmp_path.rglob("incoming-*"))
