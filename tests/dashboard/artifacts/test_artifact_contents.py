"""Pages of odd artifacts: each is readable, complete when read on, and names what it shows."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.artifacts.stores import configured_store
from dashboard.models import Call
from dashboard.text.ansi_markup import AnsiStyle, render_ansi_lines
from envelopes.storage.line_index import IndexFolder
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import parse_page, text_of
from tests.dashboard.stored_artifacts import open_page, rows_of, stored

pytestmark = pytest.mark.django_db
ANSI = "\x1b[31mred\x1b[0m \x1b[1;38;5;46mgreen\x1b[0m plain\n"
PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    + (40).to_bytes(4, "big")
    + (30).to_bytes(4, "big")
    + b"\x08\x06\0\0\0"
    + bytes(9)
    + b"\0\0\0\0IEND\xaeB`\x82"
)


@pytest.fixture
def call(client: Client, settings: Settings, tmp_path: Path) -> Call:
    settings.ARTIFACTS = tmp_path / "artifacts"
    project = create_project()
    client.force_login(create_user("alice", project=project))
    return create_call(create_run(project))


@pytest.mark.rendering
def test_an_empty_file_says_so(client: Client, call: Call) -> None:
    assert "The output is empty" in open_page(client, stored(call, b"")).text


@pytest.mark.rendering
def test_a_file_without_a_newline_at_the_end_has_its_last_line(client: Client, call: Call) -> None:
    page = open_page(client, stored(call, b"first\nlast"))
    assert rows_of(page) == [(1, "first"), (2, "last")]
    assert "Go on in this line" not in page.text


@pytest.mark.rendering
def test_carriage_returns_and_nul_bytes_are_marks_that_hide_nothing(client: Client, call: Call) -> None:
    page = open_page(
        client,
        stored(call, b"a\r\n10%\r20%\rdone\nnul \0 here, and so much text behind it that a NUL is a stray one\n" * 9),
    )
    assert rows_of(page)[:3] == [
        (1, "a\r"),
        (2, "10%\r20%\rdone"),
        (3, "nul \0 here, and so much text behind it that a NUL is a stray one"),
    ]


@pytest.mark.rendering
def test_bytes_that_are_no_utf_8_are_marks_and_the_encoding_is_called_a_guess(client: Client, call: Call) -> None:
    page = open_page(client, stored(call, b"good\nbad \xff\xfe bytes\n"))
    assert rows_of(page)[1] == (2, "bad \udcff\udcfe bytes")
    assert page.select("#L2 .mark")[0].html.endswith(r">\xff</i>")
    assert "guessed" in page.facts["Encoding"]


@pytest.mark.rendering
def test_a_guessed_encoding_can_be_switched(client: Client, call: Call) -> None:
    artifact = stored(call, "Привет мир, это проверка\n".encode("cp1251") * 20)
    page = open_page(client, artifact)
    assert rows_of(page)[0] == (1, "Привет мир, это проверка")
    assert page.by_role("combobox", "Encoding").select_one("[selected]")["value"] == "cp1251"
    other = open_page(client, artifact, "?encoding=latin-1")
    assert rows_of(other)[0][1].startswith("Ïðèâåò")
    assert other.by_role("combobox", "Encoding").select_one("[selected]")["value"] == "latin-1"
    assert "Latin-1 chosen by you" in other.facts["Encoding"]
    assert rows_of(open_page(client, artifact, "?encoding=nonsense"))[0] == (1, "Привет мир, это проверка")


@pytest.mark.rendering
def test_utf_16_is_read_by_its_mark_and_its_lines_are_found(client: Client, call: Call) -> None:
    text = "".join(f"строка {number} \u010a\u0a0a\n" for number in range(1, 3_001))
    artifact = stored(call, text.encode("utf-16"))
    page = open_page(client, artifact, "?line=2500")
    assert rows_of(page)[0] == (2_500, "строка 2500 \u010a\u0a0a")
    assert "UTF-16, little end first" in page.facts["Encoding"]
    assert "guessed" not in page.text


@pytest.mark.rendering
def test_a_million_lines_of_terminal_output_are_windows_of_a_size(client: Client, call: Call) -> None:
    artifact = stored(call, (ANSI * 1_000_000).encode())
    page = open_page(client, artifact, "?line=999990")
    assert [number for number, _ in rows_of(page)] == list(range(999_990, 1_000_001))
    line = page.select_one("#L999999 pre")
    assert line.exact == "red green plain"
    assert [(part.classes, part.text) for part in line.select("span")] == [
        (["a-1"], "red"),
        (["a-10", "a-bold"], "green"),
    ]
    assert page.facts["Lines"] == "1,000,000"
    middle = open_page(client, artifact, "?line=500000")
    assert [number for number, _ in rows_of(middle)] == list(range(500_000, 500_400))
    assert len(middle.markup) < 300_000


@pytest.mark.rendering
@pytest.mark.parametrize(
    ("sequence", "shown"),
    [
        ("\x1b[2J", "erase"),
        ("\x1b[10;10H", "cursor"),
        ("\x1b]0;a title\x07", "title"),
        ("\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;aGk=\x07", "clipboard"),
        ("\x1bP+q544e\x1b\\", "string"),
        ("\x1b[?1049h", "mode"),
        ("\x1b[6n", "query"),
        ("\x1bc", "control"),
        ("\x9b31;\x9b", "\u241b"),
    ],
)
def test_what_would_act_on_a_terminal_is_a_mark(client: Client, call: Call, sequence: str, shown: str) -> None:
    page = open_page(client, stored(call, f"\x1b[32mok\x1b[0m before{sequence}after\n".encode()), "?as=ansi")
    line = page.select_one("#L1 pre")
    assert "before" in line.text
    assert "after" in line.text
    assert not re.search("[\x1b\x07\x9b]", page.markup)
    assert not page.has('[href^="javascript"]')
    if shown != "\u241b":
        assert shown in line.texts(".mark")


@pytest.mark.rendering
def test_a_colour_goes_on_over_the_lines_before_a_window(client: Client, call: Call) -> None:
    text = "\x1b[34mblue begins\n" + "still\n" * 100
    page = open_page(client, stored(call, text.encode()), "?line=50&as=ansi")
    assert page.select_one("#L50 pre .a-4").exact == "still"


@pytest.mark.parametrize(
    "line",
    ["plain", "\x1b[31mred\x1b[0m", "a\x1b[1;38;5;46mb\x1b[mc\x1b[39m", "\x1b[32m", "\x1b[31m<b>\x1b[4m&\x1b[0m "],
)
def test_a_line_of_colours_alone_is_rendered_like_one_with_more(line: str) -> None:
    """The fast path for most lines gives the result of the slow one."""
    style = AnsiStyle(ink="4", weights=frozenset({"bold"}))
    title_sequence = "\x1b]0;x\x07"
    lines = (line, title_sequence + line, title_sequence)
    (short,), (long,), (title,) = (render_ansi_lines([text], style) for text in lines)
    assert long == title + short


@pytest.mark.parametrize(
    ("parameters", "classes"),
    [
        ("4:3", "a-underline"),
        ("4;4:0", ""),
        ("38:2::255:0:0", "a-9"),
        ("38;2;255;0;0", "a-9"),
        ("38:5:4", "a-4"),
        ("58:2::1:3:9", ""),
        ("58;5;1", ""),
        ("58;2;1;3;9;31", "a-1"),
    ],
)
def test_what_belongs_to_one_number_changes_nothing_else(parameters: str, classes: str) -> None:
    (row,) = render_ansi_lines([f"\x1b[{parameters}mx"])
    spans = parse_page(f"<div>{row}").select("span")
    assert [(span.text, " ".join(span.classes)) for span in spans] == ([("x", classes)] if classes else [])
    assert text_of(row) == "x"


@pytest.mark.rendering
def test_a_diff_is_marked_line_by_line(client: Client, call: Call) -> None:
    diff = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,4 +1,3 @@\n same\n--- a comment\n-old\n+new\n"
    page = open_page(client, stored(call, diff))
    kinds = [row.get("data-diff", "") for row in page.select(".line")]
    assert kinds == ["file", "file", "file", "at", "", "del", "del", "add"]


@pytest.mark.rendering
def test_a_table_keeps_line_numbers_and_bounds_its_columns(client: Client, call: Call) -> None:
    wide = ",".join(str(number) for number in range(500))
    artifact = stored(call, f'name,note,n\n"a, b",<b>x</b>,1\n{wide}\n"open,2\n'.encode(), path="/x/rows.csv")
    page = open_page(client, artifact)
    assert page.texts(".cells td[data-exact]")[:6] == ["name", "note", "n", "a, b", "<b>x</b>", "1"]
    assert "and 440 more columns" in page.text
    assert page.has("tr#L4")


@pytest.mark.rendering
@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (
            b'a,b,c\n1,"x\ny ""z""\n\n=w",3\n4,5,6\n',
            [["a", "b", "c"], ["1", 'x\ny "z"\n\n=w', "3"], [], [], [], ["4", "5", "6"]],
        ),
        (b'a,b,c\r\n1,"x\r\ny",3\r\n', [["a", "b", "c"], ["1", "x\ny", "3"], []]),
        (
            b'a,b,c\n1,"open,3\n4,"x, y",6\n7,"8",9\n',
            [["a", "b", "c"], ["1", "open,3"], ["4", "x, y", "6"], ["7", "8", "9"]],
        ),
        (b'a,b,c\n1,5" pipe,3\n4,7" pipe,6\n', [["a", "b", "c"], ["1", '5" pipe', "3"], ["4", '7" pipe', "6"]]),
        (b'a,b,c\n1,"' + b"x\n" * 60 + b'",3\n', [["a", "b", "c"], ["1", "x"], *[["x"]] * 59, [",3"]]),
    ],
    ids=["a cell of four lines", "CRLF", "never closed", "inches", "too long"],
)
def test_a_cell_over_several_lines_is_in_the_row_of_its_first_line(
    client: Client, call: Call, content: bytes, rows: list[list[str]]
) -> None:
    page = open_page(client, stored(call, content, path="/x/rows.csv"))
    table_rows = page.select(".cells tr[id]")
    assert [row["id"] for row in table_rows] == [f"L{number}" for number in range(1, len(rows) + 1)]
    assert [[cell.exact for cell in row.select("td[data-exact]")] for row in table_rows] == rows
    assert page.text.count("continued from the cell above") == sum(not row for row in rows)


@pytest.mark.rendering
def test_a_window_of_a_table_keeps_the_heads_of_its_columns(client: Client, call: Call) -> None:
    table = b'id;"name; first";note\n' + b"1;a;b\n" * 900
    artifact = stored(call, table, path="/home/x/rows.csv")
    page = open_page(client, artifact, "?line=700")
    assert page.texts(".cells thead td") == ["id", "name; first", "note"]
    assert page.select_one(".cells thead a")["href"] == "?line=1#L1"
    assert not open_page(client, artifact).has(".cells thead")


@pytest.mark.rendering
def test_unusual_line_ends_are_reported(client: Client, call: Call) -> None:
    assert open_page(client, stored(call, b"a\r\nb\r\n")).facts["Line ends"] == "CRLF"
    assert open_page(client, stored(call, b"a\r\nb\n")).facts["Line ends"] == "CRLF and LF"
    assert "Line ends" not in open_page(client, stored(call, b"10%\r20%\rdone\n")).text
    assert open_page(client, stored(call, "\ufeffa\r\nb\r\n".encode("utf-16-le"))).facts["Line ends"] == "CRLF"


@pytest.mark.rendering
def test_what_is_shown_as_bytes_says_why_and_leads_to_its_text(client: Client, call: Call) -> None:
    artifact = stored(call, b"record\0field\0\n" * 900)
    page = open_page(client, artifact)
    assert "it does not begin like text" in page.text
    assert page.by_role("link", "View as text")["href"] == "?as=text&offset=0"
    assert "does not begin like text" not in open_page(client, artifact, "?as=text").text
    assert "does not begin like text" not in open_page(client, stored(call, b"text"), "?as=hex").text


@pytest.mark.rendering
def test_a_picture_is_measured_before_anything_decodes_it(client: Client, call: Call) -> None:
    artifact = stored(call, PNG)
    page = open_page(client, artifact)
    image = page.by_role("img", "The artifact as a picture")
    assert (image["src"], image["width"], image["height"]) == (f"/artifacts/{artifact.pk}/picture", "40", "30")
    response = client.get(f"/artifacts/{artifact.pk}/picture")
    assert b"".join(response.streaming_content) == PNG
    assert response["Content-Type"] == "image/png"
    assert response["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
    assert rows_of(open_page(client, artifact, "?as=hex")) == []
    assert "89 50 4e 47" in open_page(client, artifact, "?as=hex").text
    assert "may be incomplete" not in page.text
    assert "may be incomplete" in open_page(client, stored(call, PNG[:-4])).text


@pytest.mark.rendering
def test_a_flood_of_pixels_is_never_served_as_a_picture(client: Client, call: Call) -> None:
    flood = PNG[:16] + (20_000).to_bytes(4, "big") * 2 + PNG[24:]
    artifact = stored(call, flood)
    page = open_page(client, artifact)
    assert "20,000 × 20,000 pixels are too many to show" in page.text
    assert "which cannot be shown" in open_page(client, stored(call, PNG[:16] + bytes(8) + PNG[24:])).text
    assert not page.has("img")
    assert client.get(f"/artifacts/{artifact.pk}/picture").status_code == 404


@pytest.mark.rendering
@pytest.mark.parametrize("content", [b"<svg xmlns='http://www.w3.org/2000/svg'><script>x</script></svg>", b"<html>hi"])
def test_html_and_svg_are_text(client: Client, call: Call, content: bytes) -> None:
    artifact = stored(call, content)
    assert rows_of(open_page(client, artifact)) == [(1, content.decode())]
    assert client.get(f"/artifacts/{artifact.pk}/picture").status_code == 404


@pytest.mark.rendering
def test_bytes_can_be_walked_to_the_end(client: Client, call: Call) -> None:
    artifact = stored(call, bytes(range(256)) * 100)
    page = open_page(client, artifact, "?tail")
    assert "@25,584" in page.text
    assert open_page(client, artifact).has('a[href^="?offset="]')
    assert "f0 f1 f2 f3" in page.text
    for typed in ("4096", "0x1000", "4,096", "16 %"):
        assert open_page(client, artifact, f"?as=hex&go={quote(typed)}").select(".line")[0]["id"] == "B4096"
    assert open_page(client, artifact, "?as=hex&go=elsewhere").select(".line")[0]["id"] == "B0"


def test_the_same_content_of_another_call_is_linked_and_of_another_project_is_not(client: Client, call: Call) -> None:
    artifact = stored(call, b"the same\n")
    twin = stored(create_call(call.run, tool="Read", external_id="toolu_twin"), b"the same\n")
    stranger = stored(create_call(create_run(create_project("other"))), b"the same\n")
    page = open_page(client, artifact)
    assert page.by_role("link", "Read toolu_twin")["href"] == twin.get_absolute_url()
    assert str(stranger.pk) not in page.markup


@pytest.mark.parametrize("fault", ["shrinks", "is replaced", "is cut"])
def test_a_stored_file_that_changed_is_shown_by_state_and_never_fails(client: Client, call: Call, fault: str) -> None:
    artifact = stored(call, b"".join(b"line %d of it\n" % number for number in range(200_000)))
    (path,) = configured_store().root.glob("*/*.zst")
    damaged = {"shrinks": b"", "is replaced": b"other content\n" * 9, "is cut": path.read_bytes()[:5_000]}[fault]
    path.write_bytes(damaged)
    page = open_page(client, artifact, "?line=150000")
    assert "The content is not what was stored" in page.text
    assert client.get(f"/artifacts/{artifact.pk}/raw").status_code == 404


@pytest.mark.rendering
def test_the_head_is_readable_while_the_lines_are_counted(
    client: Client, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = stored(call, b"".join(b"line %d of it\n" % number for number in range(1, 600_001)))
    configured_store().indexes.remove(artifact.sha256)
    go_on, others = threading.Event(), set(threading.enumerate())
    build = IndexFolder.build

    def waiting(self: IndexFolder, sha256: str, stream: BinaryIO, encoding: str = "utf-8") -> bool:
        assert go_on.wait(120)
        return build(self, sha256, stream, encoding)

    monkeypatch.setattr(IndexFolder, "build", waiting)
    page = open_page(client, artifact)
    assert "The lines of this output are being counted, 0% so far" in page.text
    assert rows_of(page)[0] == (1, "line 1 of it")
    middle = open_page(client, artifact, "?at=50")
    rows = middle.select(".line")
    assert [row.select_one("a")["href"] for row in rows] == [f"?offset={row['id'][1:]}#{row['id']}" for row in rows]
    assert rows[0]["id"].startswith("B")
    go_on.set()
    for counting in set(threading.enumerate()) - others:
        counting.join(120)
    assert rows_of(open_page(client, artifact, "?line=500000"))[0] == (500_000, "line 500000 of it")
