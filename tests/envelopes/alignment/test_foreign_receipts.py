"""What a runtime of unknown habits shows the model of a result: what is linked, and which cuts are claimed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.alignment.foreign_receipts import match_result
from envelopes.halves import Halves, read_halves
from envelopes.schema.result import JsonValue
from envelopes.text.pointer import text_at

LINES = [f"line {number} of the deploy log" for number in range(1, 401)]
LOG = "\n".join(LINES)
NUMBERED = "\n".join(f"{number:4}  {line}" for number, line in enumerate(LINES, 1))
FILES = [f"/srv/app/src/module_{number:03}.py" for number in range(500)]
ONE_LINE = "x".join(map(str, range(60_000)))
MARK = f"\n... [{len(ONE_LINE) - 2_000} characters truncated] ...\n"


def halves_of(result: JsonValue, receipt: JsonValue) -> Halves:
    recorded, content = json.dumps(result).encode(), json.dumps(receipt).encode()
    return read_halves(agent="native", tool="anything", args=b"{}", result=recorded, content=content, is_error=False)


def test_a_receipt_of_several_parts_is_measured_part_by_part() -> None:
    texts: JsonValue = [{"type": "text", "text": text} for text in ("Log:", LOG[:2_000], "[cut]")]
    (output,) = halves_of({"text": LOG}, texts).outputs
    assert (output.cut.shown_count, output.is_known) == (77, True)


def test_a_part_that_is_no_text_may_hold_the_rest() -> None:
    parts: JsonValue = [{"type": "text", "text": LOG[:2_000]}, {"type": "document", "url": "file:///deploy.log"}]
    assert not halves_of(LOG, parts).is_cut


@pytest.mark.parametrize(
    ("output", "receipt", "expected"),
    [
        pytest.param("two\nlines", "<r>two\n\nlines</r>", (False, False), id="in a form that nobody knows"),
        pytest.param(LOG, "\n".join(line.upper() for line in LINES), (False, False), id="as long as the output"),
        pytest.param(LOG, "The output was left out.", (True, True), id="too short to have it"),
        pytest.param(LOG, "", (True, True), id="nothing"),
        pytest.param(LOG, LOG[:2_000] + "\n\n... [323 lines truncated] ...", (True, True), id="linked in part"),
    ],
)
def test_a_family_that_knows_its_agent_claims_no_cut_of_an_output_that_it_did_not_find(
    output: str, receipt: str, expected: tuple[bool, bool]
) -> None:
    recorded = json.dumps({"stdout": output, "stderr": ""}).encode()
    content = json.dumps(receipt).encode()
    halves = read_halves(agent="claude-code", tool="Bash", args=b"{}", result=recorded, content=content, is_error=False)
    [field] = halves.outputs
    assert (halves.is_cut, field.is_known) == expected


def linked_share(halves: Halves) -> float:
    assert halves.receipt is not None
    linked = sum(len(segment.text) for segment in halves.receipt.segments if segment.source)
    return linked / len(halves.receipt.text)


@pytest.mark.parametrize(
    ("result", "receipt", "expected"),
    [
        pytest.param(LOG, LOG[:2_000] + "\n[truncated]", ("", 77, 400), id="the beginning"),
        pytest.param(LOG, LOG[:2_000] + "...", ("", 77, 400), id="the beginning, broken off in a line"),
        pytest.param(LOG, "Contents:\n" + LOG[:2_000] + "\n[cut]", ("", 77, 400), id="the beginning under a title"),
        pytest.param(LOG, NUMBERED[:2_000] + "\n…", ("", 62, 400), id="the beginning, numbered"),
        pytest.param(LOG, "(cleared to save space)", ("", 0, 400), id="a note in place of the output"),
        pytest.param({"text": LOG}, LOG[:2_000] + "\n[truncated]", ("/text", 77, 400), id="a text of an object"),
        pytest.param({"text": LOG, "n": 1}, f"Log:\n{LOG[:2_000]}\n[cut]", ("/text", 77, 400), id="under a title"),
        pytest.param(
            {"text": "first\nsecond\nerror: no such module"}, "error: no such module", ("/text", 1, 3), id="one"
        ),
        pytest.param({"text": ONE_LINE}, ONE_LINE[:1_000] + "…", ("/text", 0, 1), id="the beginning of one line"),
        pytest.param(
            {"text": ONE_LINE}, ONE_LINE[:1_000] + MARK + ONE_LINE[-1_000:], ("/text", 0, 1), id="both ends of one line"
        ),
        pytest.param({"out": LOG, "err": "slow disk"}, f"{LOG[:500]}\n[...]\nslow disk", ("/out", 19, 400), id="two"),
        pytest.param({"a": 1, "t": LOG}, json.dumps({"a": 1, "t": LOG})[:500] + "...", ("/t", 18, 400), id="its JSON"),
    ],
)
def test_a_cut_is_claimed_where_the_rest_of_the_receipt_has_no_room_for_the_missing_lines(
    result: JsonValue, receipt: str, expected: tuple[str, int, int]
) -> None:
    halves = halves_of(result, receipt)
    assert halves.is_cut
    assert [(cut.field.pointer, cut.cut.shown_count, cut.cut.total) for cut in halves.outputs] == [expected]


@pytest.mark.parametrize(
    ("result", "receipt"),
    [
        pytest.param(LOG, NUMBERED, id="every line, numbered"),
        pytest.param("42", "The answer is 42.", id="in a sentence"),
        pytest.param("created", "Done.", id="a short output in other words"),
        pytest.param(LOG, "; ".join(LINES), id="every line, joined in another way"),
        pytest.param(LOG, LOG.upper(), id="every line in capitals"),
        pytest.param({"text": LOG}, f"{LINES[0]}\n" + " / ".join(LINES[1:]), id="the first line, then all in one"),
        pytest.param({"text": LOG}, "400 lines, no errors", id="a summary of an object"),
        pytest.param({"files": FILES}, "\n".join(FILES[:50]) + "\n… and 450 more", id="items of a list"),
    ],
)
def test_no_cut_is_claimed_where_the_receipt_may_have_the_rest_in_another_form(result: JsonValue, receipt: str) -> None:
    halves = halves_of(result, receipt)
    assert not halves.is_cut
    assert all(cut.cut.is_whole or not cut.is_known for cut in halves.outputs)


@pytest.mark.parametrize(
    ("result", "receipt", "least"),
    [
        (LOG, NUMBERED, 0.78),  # all but the numbers
        ({"files": FILES}, "\n".join(FILES[:50]) + "\n… and 450 more", 0.95),
        ({"rows": [{"name": f"customer {number}"} for number in range(30)]}, "3\tcustomer 3\n7\tcustomer 7", 0.8),
        ({"text": "the same line\nanother\nthe same line"}, "see:\nthe same line\nbye", 0.0),  # which one is not known
    ],
)
def test_whole_lines_are_linked_wherever_they_stand_in_the_receipt(
    result: JsonValue, receipt: str, least: float
) -> None:
    share = linked_share(halves_of(result, receipt))
    assert share >= least
    assert least or not share


@pytest.mark.parametrize("form", [{}, {"separators": (",", ":")}, {"indent": 2}])
def test_json_that_was_broken_off_is_linked_up_to_there(form: dict[str, object]) -> None:
    result: JsonValue = {"ok": True, "text": 'tabs\tand "quotes" ' * 40, "count": 12_345}
    whole = json.dumps(result, **form)  # type: ignore[arg-type]
    for end in range(300, len(whole), 7):
        receipt = whole[:end] + " [truncated]"
        for span in match_result(result, receipt):
            value = text_at(result, span.pointer)
            assert value is None or value[span.value_start : span.value_end] == receipt[span.start : span.end]
        assert linked_share(halves_of(result, receipt)) > 0.6  # the marks of escapes are no text


TEXTS = st.lists(st.sampled_from([*LINES[:6], "}", "", "a b", "    return result", "12: x"]), max_size=12).map(
    "\n".join
)


@given(
    value=TEXTS,
    other=TEXTS,
    shown=st.lists(st.sampled_from([*LINES[:8], "}", "", " 3: line 3 of the deploy log"])),
    cut=TEXTS,
)
def test_every_link_has_the_characters_that_it_names(value: str, other: str, shown: list[str], cut: str) -> None:
    result: JsonValue = {"value": value, "other": [other]}
    receipt = "\n".join([*shown, cut])
    spans = sorted(match_result(result, receipt))
    for span in spans:
        text = text_at(result, span.pointer) or ""
        assert text[span.value_start : span.value_end] == receipt[span.start : span.end]
    assert all(before.end <= after.start for before, after in zip(spans, spans[1:], strict=False))


@given(value=TEXTS, before=st.sampled_from(["", "Output:\n", "  "]), number=st.booleans())
def test_an_output_that_is_shown_whole_is_never_called_cut(value: str, before: str, *, number: bool) -> None:
    lines = [f"{index}: {line}" if number else line for index, line in enumerate(value.split("\n"), 1)]
    assert not halves_of(value, before + "\n".join(lines)).is_cut
    assert not halves_of({"text": value}, before + "\n".join(lines)).is_cut
