"""The operator documentation: what it says of the program is true, and it is only ever text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import resolve

from dashboard.docs import markdown
from dashboard.docs.markdown import Block, Span, blocks_of, spans_of
from dashboard.evidence.fidelity import RECEIPT
from dashboard.filters.language import KEYS
from tests.dashboard.factories import create_project, create_user

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


def test_every_kind_of_block_is_read() -> None:
    blocks = list(blocks_of(TEXT))
    assert [block.kind for block in blocks] == ["h1", "p", "ul", "ol", "pre", "h2"]
    paragraph, items, code = blocks[1], blocks[2], blocks[4]
    assert paragraph.text == "One line and its end, with code <b>, strong and a page."
    assert [span.kind for span in paragraph.spans] == ["text", "code", "text", "strong", "text", "link", "text"]
    assert [item[0].text for item in items.items] == ["first goes on", "second"]
    assert code.text == "## not a heading\n<script>"
    assert blocks[5] == Block("h2", ((Span("text", "Part "), Span("code", "two"), Span("text", "!")),), "part-two")


@pytest.mark.parametrize("address", ["javascript:alert(1)", "//evil.example", "data:text/html,x", "http://x"])
def test_an_address_that_leads_elsewhere_stays_text(address: str) -> None:
    spans = list(spans_of(f"[click]({address})"))
    assert {span.kind for span in spans} == {"text"}
    assert "".join(span.text for span in spans) == f"[click]({address})"


@pytest.mark.usefixtures("alice")
def test_the_index_leads_to_every_page_and_every_page_opens(client: Client) -> None:
    html = client.get("/docs/").content.decode()
    assert "How does this work?" in html
    for name in markdown.ORDER:
        assert f'href="/docs/{name}/"' in html
        assert client.get(f"/docs/{name}/").status_code == 200


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
    html = client.get("/docs/keys/").content.decode()
    markdown.document.cache_clear()
    assert "<script>alert" not in html
    assert "<i>T" not in html
    assert 'href="javascript' not in html


def test_the_query_page_names_every_key_and_value_of_the_language() -> None:
    text = (markdown.FOLDER / "query.md").read_text("utf-8")
    for keys in KEYS.values():
        for key, values in keys.items():
            assert f"`{key}:" in text, key
            for value in values or ():
                assert value in text, f"{key}:{value}"


def test_the_fidelity_page_explains_every_word() -> None:
    text = (markdown.FOLDER / "fidelity.md").read_text("utf-8")
    for word in (*RECEIPT, "structured", "bounded", "stringified", "parsed_from_receipt"):
        assert f"**{word}**" in text


def test_every_link_between_pages_leads_to_one() -> None:
    for found in markdown.documents():
        for block in found.blocks:
            for span in (span for item in block.items for span in item if span.kind == "link"):
                if span.address.startswith("/"):
                    assert resolve(re.sub(r"#.*", "", span.address)).func is not None
