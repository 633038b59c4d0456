"""Lines of files of any size: the index beside the content, and windows by line, byte and percentage."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envelopes.storage.line_index import (
    BLOCK,
    IndexBuilder,
    IndexFolder,
    LineIndex,
    NotIndexed,
    build_index,
    load_line_end_counter,
)
from envelopes.storage.line_window import LineWindow, WindowStart, read_window
from tests.cases import each

SHA = "ab" + "0" * 62
NUMBERED = "".join(f"line {number}\n" for number in range(1, 20_001)).encode()
SHAPES = {
    "empty": b"",
    "one line": b"a",
    "no newline at the end": b"a\nb",
    "newlines alone": b"\n" * 40_000,
    "a line over many blocks": b"x" * (3 * BLOCK + 5) + b"\ny\n",
    "a line end at a block's edge": b"x" * (BLOCK - 1) + b"\n" + b"y" * BLOCK + b"\nz",
    "carriage returns": b"a\r\nb\r\n" * 9_000,
    "numbered": NUMBERED,
}


def window(data: bytes, lines: int = 400, encoding: str = "utf-8", **begin: object) -> LineWindow:
    stream = io.BytesIO(data)
    return read_window(stream, build_index(stream, encoding), WindowStart(**begin), lines=lines)


@each("data", SHAPES.values())
@each("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_each_line_is_found_where_splitting_finds_it(data: bytes, encoding: str) -> None:
    data = data.decode().encode(encoding)
    stream, index = io.BytesIO(data), build_index(io.BytesIO(data), encoding)
    end = "\n".encode(encoding)
    parts = data.decode(encoding).split("\n")
    lines = parts if parts[-1] else parts[:-1]
    assert (index.size, index.lines) == (len(data), len(lines))
    at, step = 0, max(1, len(lines) // 200)
    for number, line in enumerate(lines, 1):
        if number % step == 0 or number < 5 or number > len(lines) - 5:
            assert index.line_start(stream, number) == at
            assert index.line_at(stream, at) == number
        at += len(line.encode(encoding)) + len(end)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.binary(max_size=40_000).map(lambda piece: piece.replace(b"e", b"\n")), max_size=6))
def test_pieces_of_any_size_give_one_index(pieces: list[bytes]) -> None:
    builder = IndexBuilder()
    for piece in pieces:
        builder.add(piece)
    whole = build_index(io.BytesIO(b"".join(pieces)))
    assert (builder.finished().lines, list(builder.before)) == (whole.lines, list(whole.before))


def test_without_rapidfuzz_the_index_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = [build_index(io.BytesIO(data)).before for data in SHAPES.values()]
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    load_line_end_counter.cache_clear()
    try:
        without = [build_index(io.BytesIO(data)).before for data in SHAPES.values()]
        assert load_line_end_counter()(b"a\nb\n", b"\n" * 4) == 2
    finally:
        load_line_end_counter.cache_clear()
    assert without == with_it


def test_half_of_two_other_characters_is_no_line_end() -> None:
    text = "\u0a00\u000a\u0100\u010a\u0a0a"  # 00 0a | 0a 00 | 00 01 | 0a 01 | 0a 0a
    index = build_index(io.BytesIO(text.encode("utf-16-le")), "utf-16-le")
    assert index.lines == 2
    assert index.line_start(io.BytesIO(text.encode("utf-16-le")), 2) == 4


@pytest.mark.parametrize(
    ("begin", "first", "start"),
    [
        ({"line": 12_345}, 12_345, NUMBERED.index(b"line 12345\n")),
        ({"line": 10**12}, 20_000, NUMBERED.index(b"line 20000\n")),
        ({"line": 0}, 1, 0),
        ({"percent": 0}, 1, 0),
        ({"percent": 200}, 20_001, len(NUMBERED)),
        ({"offset": 7}, 2, 7),
        ({"offset": 10}, 2, 10),
        ({"is_tail": True}, 19_601, NUMBERED.index(b"line 19601\n")),
        ({}, 1, 0),
    ],
)
def test_a_window_begins_at_the_requested_offset(begin: dict[str, object], first: int, start: int) -> None:
    shown = window(NUMBERED, **begin)
    assert (shown.first, shown.start) == (first, start)
    assert shown.data == b"".join(NUMBERED[start:].splitlines(keepends=True)[:400])


@pytest.mark.parametrize("data", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_windows_in_a_row_are_the_whole_content(data: bytes, encoding: str) -> None:
    data = data.decode().encode(encoding)
    read, offset = b"", 0
    while offset < len(data):
        shown = window(data, encoding=encoding, offset=offset)
        assert shown.start == offset
        assert shown.data.decode(encoding)  # no half character
        read += shown.data
        offset = shown.end
    assert read == data


@pytest.mark.parametrize("cut", range(5))
def test_a_window_never_begins_or_ends_in_a_character(cut: int) -> None:
    data = ("é€😀" * 40_000).encode()
    shown = window(data, offset=90_000 + cut)
    assert shown.is_continued
    assert shown.start <= 90_000 + cut < shown.start + 4
    assert shown.data.decode()


def test_the_tail_of_one_long_line_is_its_end() -> None:
    tail = window(b"x" * 300_000, is_tail=True)
    assert (tail.start, tail.end, tail.is_continued) == (300_000 - 65_536, 300_000, True)


def test_an_index_is_kept_and_loaded_and_one_of_other_content_is_not(tmp_path: Path) -> None:
    folder = IndexFolder(tmp_path)
    with pytest.raises(NotIndexed):
        folder.load(SHA, len(NUMBERED))
    folder.keep(SHA, build_index(io.BytesIO(NUMBERED)))
    loaded = folder.load(SHA, len(NUMBERED))
    assert (loaded.lines, loaded.line_start(io.BytesIO(NUMBERED), 9_000)) == (20_000, NUMBERED.index(b"line 9000\n"))
    with pytest.raises(NotIndexed):
        folder.load(SHA, len(NUMBERED) + 1)


@pytest.mark.parametrize(
    "damage",
    [lambda raw: raw[:-8], lambda raw: b"x" + raw[1:], lambda raw: b""],
    ids=["cut", "other", "empty"],
)
def test_a_damaged_index_is_none(tmp_path: Path, damage: object) -> None:
    folder = IndexFolder(tmp_path)
    folder.keep(SHA, build_index(io.BytesIO(NUMBERED)))
    path = folder.path(SHA)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(NotIndexed):
        folder.load(SHA, len(NUMBERED))


class Gate(io.BytesIO):
    """Content of which only a head can be read until the gate is opened."""

    def __init__(self, data: bytes, head: int) -> None:
        super().__init__(data)
        self.head, self.opened, self.waiting = head, threading.Event(), threading.Event()

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() >= self.head:
            self.waiting.set()
            assert self.opened.wait(120)
        return super().read(size)


def test_the_head_is_indexed_while_the_rest_is_read_and_nobody_reads_twice(tmp_path: Path) -> None:
    folder, data = IndexFolder(tmp_path), b"a line\n" * 12_000_000
    gate = Gate(data, 64 * 2**20)
    thread = threading.Thread(target=folder.build, args=(SHA, gate))
    thread.start()
    try:
        assert gate.waiting.wait(120)
        head = folder.head(SHA)
        assert head.size == 64 * 2**20
        assert head.line_start(io.BytesIO(data), 5_000_000) == 7 * 4_999_999
        assert not IndexFolder(tmp_path).build(SHA, io.BytesIO(data))
    finally:
        gate.opened.set()
        thread.join()
    assert folder.load(SHA, len(data)).lines == 12_000_000
    assert not folder.build(SHA, io.BytesIO(data))
    assert os.listdir(tmp_path) == ["ab"]


def test_what_a_killed_build_left_is_not_trusted(tmp_path: Path) -> None:
    folder = IndexFolder(tmp_path)
    (tmp_path / f"incoming-{SHA}.lines").write_bytes(b"\xff" * 800)
    assert folder.head(SHA).size == 0
    assert folder.build(SHA, io.BytesIO(NUMBERED))
    assert folder.load(SHA, len(NUMBERED)).lines == 20_000


def test_a_damaged_index_is_built_again(tmp_path: Path) -> None:
    folder = IndexFolder(tmp_path)
    folder.build(SHA, io.BytesIO(NUMBERED))
    folder.path(SHA).write_bytes(b"damaged")
    assert folder.build(SHA, io.BytesIO(NUMBERED))
    assert not folder.build(SHA, io.BytesIO(NUMBERED))
    assert folder.load(SHA, len(NUMBERED)).lines == 20_000


def test_a_window_behind_the_indexed_head_has_no_line_number() -> None:
    head = LineIndex((0, 500), BLOCK, 501)
    stream = io.BytesIO(NUMBERED)
    assert read_window(stream, head, WindowStart(percent=50)).first is None
    assert read_window(stream, head, WindowStart(offset=7)).first == 2


def test_lines_that_are_too_long_for_a_window_of_them_end_it_sooner() -> None:
    data = (b"x" * 999 + b"\n") * 1_000
    shown = window(data, line=2)
    assert (shown.start, shown.end) == (1_000, 66_000)


@pytest.mark.parametrize(
    ("encoding", "begin", "start", "end"),
    [
        ("utf-16-le", {"offset": 90_001}, 90_000, 90_000 + 65_536),
        ("utf-16-le", {"is_tail": True}, 600_000 - 65_536, 600_000),
        ("cp1252", {"offset": 90_001}, 90_001, 90_001 + 65_536),
    ],
)
def test_a_window_within_one_long_line_holds_whole_characters(
    encoding: str, begin: dict[str, object], start: int, end: int
) -> None:
    shown = window(("é" * 300_000).encode(encoding), encoding=encoding, **begin)
    assert (shown.start, shown.end) == (start, end)


def test_a_place_in_text_of_two_bytes_is_the_start_of_its_line() -> None:
    data = ("a line\n" * 40_000).encode("utf-16-le")
    shown = window(data, encoding="utf-16-le", percent=50)
    assert shown.start % 14 == 0
    assert shown.data.decode("utf-16-le").startswith("a line\na line\n")


def test_an_index_that_was_never_begun_has_no_head(tmp_path: Path) -> None:
    assert IndexFolder(tmp_path).head(SHA).size == 0


def test_removing_takes_the_index_of_every_encoding(tmp_path: Path) -> None:
    folder = IndexFolder(tmp_path)
    folder.build(SHA, io.BytesIO(NUMBERED))
    folder.build(SHA, io.BytesIO(NUMBERED), "utf-16-le")
    folder.remove(SHA)
    assert list(tmp_path.rglob("*.lines")) == []


def test_half_of_two_other_characters_is_passed_over_between_two_lines() -> None:
    data = "\u0a61\u0000\nb".encode("utf-16-le")  # 61 0a | 00 00 | 0a 00 | 62 00
    assert build_index(io.BytesIO(data), "utf-16-le").line_start(io.BytesIO(data), 2) == 6


def test_a_place_far_from_any_line_end_is_the_start_of_its_character() -> None:
    data = b"x" + "€".encode() * 100_000
    shown = window(data, percent=50)
    assert (shown.start, shown.is_continued) == (149_998, True)
    assert shown.data.decode().startswith("€€")


def test_a_window_into_undecodable_bytes_begins_at_the_requested_offset() -> None:
    assert window(b"\x80" * 200_000, offset=90_001).start == 90_001
