"""RFC 6901 pointers: keys with its two special characters, and pointers to nothing."""

from __future__ import annotations

from envelopes.text.pointer import join, resolve, split, text_at

DOCUMENT = {"a/b": {"~": "deep"}, "rows": ["first", 2]}


def test_a_key_that_holds_a_slash_or_a_tilde_is_found_again() -> None:
    pointer = join(join("", "a/b"), "~")
    assert pointer == "/a~1b/~0"
    assert split(pointer) == ["a/b", "~"]
    assert resolve(DOCUMENT, pointer) == "deep"


def test_a_pointer_to_anything_but_a_text_gives_none() -> None:
    texts = {at: text_at(DOCUMENT, at) for at in ("/rows/0", "/rows/1", "/rows/2", "/none")}
    assert texts == {"/rows/0": "first", "/rows/1": None, "/rows/2": None, "/none": None}
