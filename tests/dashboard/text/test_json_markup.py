"""JSON on the page: the recorded tokens, their pointers, and windows that join without a seam."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from dashboard.text.json_markup import first_chunk, indent_json, later_chunk
from dashboard.text.text_markup import TextChunk
from envelopes.text.pointer import resolve
from tests.dashboard.page_text import parse_page, text_of

TRICKY = (
    b'{"a":1,"a":1.00,"big":123456789012345678901234567890,"n":-0.0,"e":1E5}',
    rb'{"b":[1,{},{"k/~\"":[[]]},[],"two\nlines \"q\" \u001b[31m"],"c":{"d":[]}}',
    b'{"a":NaN,"b":[ ],"c":{"d":Infinity}}',
    rb'["lone \ud800", "pair \ud83d\ude00"]',
    '{"ü <b>":"\u202e\u2028 \\\\"}'.encode(),
    b'"text"',
    b"[]",
    b"17",
    b"",
    b"not { json",
)


def chunks_of(text: str, first: int, later: int) -> list[TextChunk]:
    chunks = [first_chunk(text, first, "data-pointer")]
    while chunks[-1].has_more:
        chunks.append(later_chunk(text, chunks[-1].end, later))
    return chunks


@pytest.mark.parametrize("raw", TRICKY)
def test_windows_in_a_row_are_exactly_the_text(raw: bytes) -> None:
    text = indent_json(raw)
    for first in range(len(text) + 1):
        assert "".join(text_of(chunk.html) for chunk in chunks_of(text, first, 3)) == text


def test_indenting_changes_no_token() -> None:
    text = indent_json(rb'{"a":1,"a":1.00,"s":"\u00e9\/ \ud800","n":12345678901234567890123,"l":[],"o":{}}')
    assert text == (
        '{\n  "a": 1,\n  "a": 1.00,\n  "s": "\\u00e9\\/ \\ud800",\n'
        '  "n": 12345678901234567890123,\n  "l": [],\n  "o": {}\n}'
    )


def test_every_value_carries_its_pointer() -> None:
    document = {"a": [{"b": 1}, "x"], "c/d~": {"": None}, "e": {}}
    text = indent_json(json.dumps(document).encode())
    page = parse_page(first_chunk(text, len(text), "data-pointer").html)
    pointers = [value["data-pointer"] for value in page.select("[data-pointer]")]
    assert pointers == ["", "/a", "/a/0", "/a/0/b", "/a/1", "/c~1d~0", "/c~1d~0/", "/e"]
    assert [resolve(document, pointer) for pointer in pointers[:2]] == [document, document["a"]]


def test_objects_and_lists_fold_without_a_script() -> None:
    page = parse_page(first_chunk('{\n  "a": [\n    1\n  ]\n}', 100, "data-pointer").html)
    assert len(page.select("details[open]")) == len(page.select("details[open] > summary")) == 2


def test_a_window_that_ends_inside_leaves_nothing_open() -> None:
    text = indent_json(json.dumps({"a": {"b": ["x" * 50] * 50}}).encode())
    window = first_chunk(text, 400, "data-pointer")
    assert window.has_more
    after = parse_page(f'<details id="around">{window.html}<hr></details>').select_one("hr")
    around = after.closest("details")
    assert around is not None
    assert around["id"] == "around"  # as many are closed as opened


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps([1] * 400_000).encode(),
        json.dumps(["\n" * 300_000]).encode(),
        json.dumps(["\u202e" * 300_000], ensure_ascii=False).encode(),
        json.dumps({"x" * 5_000: [{"y" * 5_000: list(range(1_000))}]}).encode(),
        b'{"a":' * 190 + b"1" + b"}" * 190,
    ],
    ids=["numbers", "newlines", "marks", "long pointers", "deep"],
)
def test_no_window_grows_past_its_room(raw: bytes) -> None:
    text = indent_json(raw)
    first = first_chunk(text, 32 * 1024, "data-pointer")
    assert first.end > 0
    assert len(first.html) < 450_000
    assert len(later_chunk(text, first.end, 64 * 1024).html) < 950_000


def test_a_key_or_value_cannot_leave_its_place() -> None:
    raw = json.dumps({'"><script>alert(1)</script>': "</span><b hx-get=/ hx-trigger=load>"}).encode()
    page = parse_page(first_chunk(indent_json(raw), 1_000, "data-pointer").html)
    assert not page.has("script, b, [hx-get]")


def test_escapes_of_a_text_of_several_lines_that_can_be_drawn_are_named_and_stay_as_written() -> None:
    text = indent_json(rb'{"a": "one\n\"two\"\t\\ \u001b"}')
    html = first_chunk(text, 1_000, "data-pointer").html
    names = re.findall(r'<i class="se ?([a-z]*)">', html)
    assert names == ["nl", "dq", "dq", "tb", "bs", ""]
    assert unescape(re.sub("<[^>]+>", "", html)) == text
