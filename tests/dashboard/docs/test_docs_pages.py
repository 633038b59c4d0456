"""The operator documentation: what it says of the program is true, and it is only ever text."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import resolve

from dashboard.evidence.fidelity import RECEIPT
from dashboard.filters.keys import KEYS
from dashboard.text import markdown
from dashboard.text.formatting import find_agent
from dashboard.text.markdown import Section, render_document, render_inline
from envelopes.recordings import RECORDINGS
from tests.dashboard.factories import create_project, create_user
from tests.dashboard.page_text import assert_harmless, parse_page

TEXT = """# A title

One line
and its end, with `code <b>`, **strong** and [a page](/runs/).

- first
  goes on
- second

1. one

```
## not a heading
<script>
```

## Part `two`!
"""


@pytest.fixture
def alice(db: None, client: Client) -> User:
    person = create_user("alice", project=create_project())
    client.force_login(person)
    return person


def test_the_first_heading_is_the_title_and_the_rest_is_rendered() -> None:
    page = render_document("page", TEXT)
    assert (page.title, page.lead) == ("A title", "One line and its end, with code <b>, strong and a page.")
    assert page.sections == (Section("part-two", "Part two!"),)
    rendered = parse_page(page.html)
    (heading,) = rendered.all_by_role("heading")
    assert (heading.tag, heading["id"], heading.text) == ("h2", "part-two", "Part two!")
    assert heading.texts("code") == ["two"]
    assert "## not a heading\n<script>" in rendered.select_one("pre").exact
    assert not rendered.has("script")
    assert [link["href"] for link in rendered.all_by_role("link")] == ["/runs/"]


def test_a_page_links_another_one_as_files_do() -> None:
    assert '<a href="/docs/query/#calls">it</a>' in render_inline("[it](query.md#calls)")
    assert not [page.name for page in markdown.documents() if "](" in page.lead + page.html]


@pytest.mark.parametrize("address", ["javascript:alert(1)", "//evil.example", "data:text/html,x", "http://x"])
def test_an_address_that_leads_elsewhere_stays_text(address: str) -> None:
    assert render_inline(f"[click]({address})") == f"[click]({address})"


@pytest.mark.usefixtures("alice")
def test_the_index_leads_to_every_page_and_every_page_opens(client: Client) -> None:
    index = parse_page(client.get("/docs/"))
    for name in markdown.ORDER:
        assert index.has(f'main a[href="/docs/{name}/"]')
        assert client.get(f"/docs/{name}/").status_code == 200


def test_every_agent_has_a_section_that_the_facts_of_its_runs_link() -> None:
    page = markdown.document("agents")
    assert page is not None
    sections = {heading["id"] for heading in parse_page(page.html).all_by_role("heading")}
    assert {find_agent(recording.name) for recording in RECORDINGS} <= sections


@pytest.mark.usefixtures("alice")
def test_a_long_page_begins_with_links_to_its_sections(client: Client) -> None:
    page = parse_page(client.get("/docs/agents/"))
    links = page.by_role("navigation", "On this page").all_by_role("link")
    assert {"#codex", "#pi"} <= {link["href"] for link in links}
    assert all(page.has(f"h2{link['href']}") for link in links)
    assert not parse_page(client.get("/docs/run-against-run/")).has('nav[aria-label="On this page"]')


@pytest.mark.parametrize("name", ["nothing", "settings", "urls"])
@pytest.mark.usefixtures("alice")
def test_only_named_pages_are_served(client: Client, name: str) -> None:
    assert client.get(f"/docs/{name}/").status_code == 404


def test_every_file_of_the_folder_is_a_page() -> None:
    assert {path.stem for path in markdown.FOLDER.glob("*.md")} == set(markdown.ORDER)


@pytest.mark.usefixtures("alice")
def test_markup_in_a_document_is_text(client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "keys.md").write_text("# <i>T</i>\n\n<script>alert(1)</script> [x](javascript:alert(1))\n")
    monkeypatch.setattr(markdown, "FOLDER", tmp_path)
    monkeypatch.setattr(markdown, "ORDER", ("keys",))
    markdown.document.cache_clear()
    page = parse_page(client.get("/docs/keys/"))
    markdown.document.cache_clear()
    assert_harmless(page)
    assert page.title.startswith("<i>T</i>")
    assert not page.has('[href^="javascript"]')


def test_the_query_page_names_every_key_and_value_of_the_language() -> None:
    text = (markdown.FOLDER / "query.md").read_text("utf-8")
    for name in KEYS:
        assert f"`{name}:" in text, name
        for value in KEYS[name].words if name in KEYS else ():
            assert value in text, f"{name}:{value}"


def test_the_fidelity_page_explains_every_word() -> None:
    text = (markdown.FOLDER / "fidelity.md").read_text("utf-8")
    for word in (*RECEIPT, "structured", "bounded", "stringified", "parsed_from_receipt"):
        assert f"**{word}**" in text


def test_every_link_between_pages_leads_to_one() -> None:
    for page in markdown.documents():
        for link in parse_page(page.html).select('a[href^="/"]'):
            assert resolve(link["href"].partition("#")[0]).func is not None
