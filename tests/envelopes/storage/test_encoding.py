"""The encoding of bytes: stated, fitting, guessed, or none."""

from __future__ import annotations

import sys

import pytest

from envelopes.storage.encoding import ENCODINGS, Encoding, decode, detect_encoding, whole_characters

RUSSIAN = "Привет мир, это проверка кодировки. " * 20
JAPANESE = "こんにちは世界、今日は良い天気です。\n" * 10


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"", Encoding("utf-8", "fits")),
        (b"plain\n", Encoding("utf-8", "fits")),
        ("é€".encode() * 50, Encoding("utf-8", "fits")),
        ("é€😀".encode()[:-1], Encoding("utf-8", "fits")),  # cut within a character
        (b"\xef\xbb\xbfa", Encoding("utf-8", "stated")),
        ("hello\n".encode("utf-16"), Encoding("utf-16-le", "stated")),
        (b"\xfe\xff" + "hello\n".encode("utf-16-be"), Encoding("utf-16-be", "stated")),
        ("hello\nworld\n".encode("utf-16-le"), Encoding("utf-16-le", "guess")),
        ("hello\nworld\n".encode("utf-16-be"), Encoding("utf-16-be", "guess")),
        (b"one bad \xff byte\n", Encoding("utf-8", "guess")),
        ("naïve café déjà vu ".encode("latin-1") * 10, Encoding("cp1252", "guess")),
        (RUSSIAN.encode("cp1251"), Encoding("cp1251", "guess")),
        (JAPANESE.encode("shift_jis"), Encoding("shift_jis", "guess")),
        (b"\x7fELF" + bytes(range(32)) * 20, Encoding("", "guess")),
        (b"a log with one \0 NUL " + b"and much text " * 30, Encoding("utf-8", "fits")),
    ],
)
def test_an_encoding_is_stated_fits_or_is_guessed(head: bytes, expected: Encoding) -> None:
    assert detect_encoding(head) == expected


@pytest.mark.parametrize("name", ENCODINGS)
def test_any_bytes_can_be_read_in_every_encoding(name: str) -> None:
    assert decode(bytes(range(256)) * 4 + b"\xd8", name)


@pytest.mark.parametrize("name", sorted(set(ENCODINGS) - {"utf-16-le", "utf-16-be"}))
def test_a_line_ends_at_one_byte_in_every_encoding_but_utf_16(name: str) -> None:
    for first in range(256):
        assert decode(bytes([first, 10]), name).endswith("\n")


def test_an_encoding_has_a_name_for_people_and_bytes_have_none() -> None:
    assert (Encoding("cp1252").label, Encoding("").label) == (ENCODINGS["cp1252"], "")


def test_without_the_library_that_guesses_the_letters_are_latin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    assert detect_encoding(RUSSIAN.encode("cp1251")) == Encoding("cp1252", "guess")


@pytest.mark.parametrize("text", ["a", "é", "€", "😀", "x€", ""])
def test_a_cut_anywhere_leaves_whole_characters(text: str) -> None:
    data = ("ab" + text).encode()
    for end in range(2, len(data) + 1):
        whole = whole_characters(data[:end])
        assert whole[:2] == b"ab"
        assert whole.decode() == ("ab" + text)[: len(whole.decode())]
    assert whole_characters(data) == data
    assert whole_characters(b"\x80\x80\x80\x80\x80") == b"\x80\x80\x80\x80\x80"
