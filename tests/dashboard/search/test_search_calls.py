"""The search by half on the Calls page: what it finds, says and shows; on both databases the same."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from dashboard.ingest.importer import import_paths
from dashboard.models import Project
from dashboard.search.index import index_waiting, reset_index
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.sessions import SESSION, answers, asks, write

pytestmark = [pytest.mark.usefixtures("alice")]
# Receipt, result and command of each call, by a name that is its argument's first word.
CALLS = {
    "both": ("Permission denied", "permission denied\nmore"),
    "receipt": ("a permission denied error", "nothing"),
    "apart": ("permission was denied", "denied permission"),
    "escaped": ('say "denied"', 'C:\\new "line"\nnext <b>bold</b>'),
    "unseen": ("cut here", "cut here\npermission denied below"),
    "script": ("größe 漢字テスト", "STRASSE permission_denied"),
}


@pytest.fixture(scope="module")
def imported(kept_project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = []
    for name, (receipt, result) in CALLS.items():
        lines += [
            asks(name, args={"command": f"{name} --flag"}),
            answers(name, receipt, {"stdout": result, "stderr": "", "interrupted": False}),
        ]
    import_paths(kept_project, [write(tmp_path_factory.mktemp("sessions") / f"{SESSION}.jsonl", lines)])


@pytest.fixture
def calls(project: Project, imported: None) -> Project:
    return project


def load(client: Client, query: str) -> Page:
    response = client.get(f"/calls/?q={quote(query)}")
    assert response.status_code == 200
    return parse_page(response)


def names(page: Page) -> set[str]:
    return {text.partition(" ")[0] for text in page.texts("tbody .c-asked")}


FINDS = {
    "receipt:permission": {"both", "receipt", "apart"},
    'receipt:"permission denied"': {"both", "receipt"},
    'receipt:"PERMISSION-denied"': {"both", "receipt"},
    'receipt:"permission denied" -canonical:"permission denied"': {"receipt"},
    'canonical:"permission denied" -receipt:"permission denied"': {"unseen"},
    '-any:"permission denied"': {"apart", "escaped", "script"},
    "receipt:permission receipt:was": {"apart"},
    'receipt:was or canonical:"denied below"': {"apart", "unseen"},
    "-(receipt:permission or canonical:permission)": {"escaped", "script"},
    "(receipt:permission -receipt:was) tool:Bash": {"both", "receipt"},
    'status:ok -receipt:permission any:"unseen flag"': {"unseen"},
    "canonical:permiss*": {"both", "apart", "unseen", "script"},
    "canonical:*sion*den*": {"both", "unseen", "script"},
    "-canonical:*sion*den* canonical:permission": {"apart"},
    "args:flag": set(CALLS),
    "args:unseen": {"unseen"},
    'any:"unseen flag"': {"unseen"},
    "receipt:flag": set(),
    "canonical:new": {"escaped"},
    "canonical:nline": set(),
    'canonical:"line next"': {"escaped"},
    "canonical:stdout": set(),
    "canonical:straße": {"script"},
    "receipt:GRÖSSE": {"script"},
    "receipt:字テ": {"script"},
    "receipt:字ス": set(),
    "canonical:denied tool:Read": set(),
    "canonical:denied tool:bash": {"both", "apart", "unseen"},
}


@pytest.mark.postgresql
@pytest.mark.parametrize("few", [3_000, pytest.param(0, marks=pytest.mark.extended)])
def test_a_term_finds_the_calls_whose_half_has_its_words(
    client: Client, calls: Project, settings: Settings, few: int
) -> None:
    """Both ways to the candidates: along the list of all calls, and by the entries of a rare word."""
    settings.FEW_CALLS = few
    pages = {query: load(client, query) for query in FINDS}
    assert {query: names(page) for query, page in pages.items()} == FINDS
    assert not any(page.texts("[role=alert]") for page in pages.values())


def test_a_page_has_as_many_calls_as_are_looked_through_at_once(
    client: Client, calls: Project, settings: Settings
) -> None:
    settings.HITS_PER_PAGE = 2
    first = load(client, "any:permission")
    second = parse_page(client.get("/calls/" + first.select_one("a[rel=next]")["href"]))
    assert [len(names(page)) for page in (first, second)] == [2, 2]
    assert names(first) | names(second) == {"both", "receipt", "apart", "unseen"}
    assert ("4 calls" in first.text, second.select("a[rel=next]")) == (True, [])


@pytest.mark.postgresql
def test_a_row_shows_the_line_of_the_hit_and_leads_to_it(client: Client, calls: Project) -> None:
    row = load(client, 'canonical:"denied below"')
    assert row.texts(".row-hit mark") == ["denied below"]
    assert row.texts(".row-hit code") == ["permission denied below"]
    assert row.texts(".row-hit .badge") == ["in the recorded result"]
    response = client.get(row.select(".row-hit a")[0]["href"])
    page = parse_page(response)
    assert (response.status_code, page.texts("mark")) == (200, ["denied below"])
    assert "Occurrence 1 of 1; characters 0 to 32 of 32" in page.text
    assert load(client, "receipt:was").texts(".row-hit .badge") == ["recorded as seen"]


@pytest.mark.parametrize(
    ("receipt", "stdout", "half", "sentence"),
    [
        ("a needle", "a needle", "canonical", "The receipt contains it too: see it there."),
        ("a straw", "a needle", "canonical", "The receipt does not contain it."),
        ("a straw " * 20_000, "a needle", "canonical", "The receipt does not contain it, as far as it is searched."),
        ("a needle", "a straw", "receipt", "The recorded result does not contain it."),
        ("", "a needle", "canonical", "The call has no receipt to search."),
    ],
)
def test_a_match_says_whether_the_other_half_has_it_too(
    client: Client, project: Project, tmp_path: Path, receipt: str, stdout: str, half: str, sentence: str
) -> None:
    lines = [asks("toolu_1"), answers("toolu_1", receipt, {"stdout": stdout, "stderr": ""})]
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", list(lines))])
    page = parse_page(client.get(f"/calls/{project.calls.get().pk}/found/{half}/?find=needle"))
    assert sentence in " ".join(page.text.split())


def test_markup_and_secrets_of_a_payload_are_text_and_masked(client: Client, project: Project, tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4" * 5
    text = f"<script>alert(1)</script> needle {token}"
    lines = [asks("toolu_1"), answers("toolu_1", text, {"stdout": text, "stderr": ""})]
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", list(lines))])
    row = load(client, "receipt:needle")
    page = parse_page(client.get(row.select(".row-hit a")[0]["href"]))
    for shown in (row, page):
        assert shown.texts("mark") == ["needle"]
        assert token not in shown.text
        assert "<script>alert(1)</script> needle" in shown.text


@pytest.mark.postgresql
def test_calls_that_are_not_indexed_yet_are_counted_and_never_listed(client: Client, calls: Project) -> None:
    reset_index()
    page = load(client, "-canonical:permission")
    assert (names(page), "6 calls are not searchable yet." in page.text) == (set(), True)
    index_waiting(calls)
    page = load(client, "-canonical:permission")
    assert (names(page), "not searchable" in page.text) == ({"receipt", "escaped", "script"}, False)


def test_the_part_that_is_not_searched_is_told(client: Client, project: Project, tmp_path: Path) -> None:
    text = "needle " + "straw " * 20_000 + "pin"
    lines = [asks("toolu_1"), answers("toolu_1", text, {"stdout": text, "stderr": ""})]
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", list(lines))])
    assert not names(load(client, "receipt:pin"))
    page = load(client, "receipt:needle -receipt:pin")
    assert page.texts(".row-hit .muted") == ["receipt: searched the first 65,536 of 120,010 characters"]


def test_json_without_a_space_is_searched_and_an_encoded_picture_is_not(
    client: Client, project: Project, tmp_path: Path
) -> None:
    dense = '{"name":"needle","values":[' + ",".join(map(str, range(900))) + "]}"
    picture = "data:image/png;base64," + "QmFzZTY0" * 200
    lines = []
    for key, text in {"dense": dense, "picture": picture}.items():
        lines += [asks(key, args={"command": f"{key} it"}), answers(key, text, {"stdout": text, "stderr": ""})]
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", lines)])
    assert names(load(client, "receipt:needle canonical:needle")) == {"dense"}
    assert names(load(client, "receipt:base64")) == set()


@pytest.mark.postgresql
def test_a_search_that_runs_out_of_time_says_how_far_it_came_and_goes_on(
    client: Client, calls: Project, settings: Settings
) -> None:
    settings.ANSWER_SECONDS, settings.ROWS_PER_PAGE = 0.0, 1
    page = load(client, "canonical:*sion*den*")
    looked, notes = set(names(page)), [page.text]
    for _ in CALLS:
        following = page.select("a[rel=next]")
        if not following:
            break
        page = parse_page(client.get("/calls/" + following[0]["href"]))
        looked |= names(page)
        notes.append(page.text)
    assert any("of 6 calls; “Next” goes on." in note for note in notes)
    assert looked == {"both", "unseen", "script"}


def test_as_many_texts_are_read_next_as_the_share_that_matches_lets_expect(
    client: Client, project: Project, tmp_path: Path, settings: Settings
) -> None:
    settings.HITS_PER_PAGE = 4
    lines = []
    for number in range(40):
        text = "first second" if number % 5 == 0 else "second first"
        asked = asks(f"c{number}", args={"command": f"c{number}"}, at=f"2026-03-01T09:00:{number:02}.000Z")
        lines += [asked, answers(f"c{number}", text, {"stdout": text}, at=f"2026-03-01T09:00:{number:02}.500Z")]
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", lines)])
    client.get("/calls/")
    with CaptureQueriesContext(connection) as queries:
        page = load(client, "canonical:*first*second*")
    assert len(page.select("tbody .c-asked")) == 4
    reads = [query for query in queries if 'FROM "dashboard_observation"' in query["sql"] and "surface" in query["sql"]]
    assert len(reads) == 2  # five calls, of which one matches; then as many as have the other four


def test_other_pages_refuse_what_only_texts_can_tell(client: Client, calls: Project) -> None:
    page = parse_page(client.get("/runs/?q=canonical:*sion*"))
    assert "is looked for call by call, which only the Calls page does" in page.text
    assert "needs a letter or a digit" in load(client, 'receipt:"--"').text


@pytest.mark.postgresql
@pytest.mark.extended
def test_a_common_term_finds_the_same_calls_where_its_entries_are_not_read_first(
    client: Client, calls: Project, settings: Settings
) -> None:
    settings.FEW_CALLS = settings.LISTED_ENTRIES = 0
    assert {query: names(load(client, query)) for query in FINDS} == FINDS
