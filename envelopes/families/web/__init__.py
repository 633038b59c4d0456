"""Tools that read the web: WebFetch and WebSearch, ours and those of Claude Code.

    FetchedPage    one address as our WebFetch read it
    FoundPages     what our WebSearch found, and which providers were asked
    Page           one address as a foreign agent recorded it
    SearchResults  links as a foreign agent recorded them, and the text that was written about them

The text comes from outside and is untrusted; the receipt says so before it.
"""

from __future__ import annotations

from pathlib import Path

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.base import Family
from envelopes.families.web import claude_code, tools
from envelopes.families.web.receipts import receipt
from envelopes.families.web.results import WEB_CHARACTERS, FetchedPage, FoundPages, Page, SearchResults, project
from envelopes.schema.budget import ProjectionPolicy

FAMILY = Family(
    name="web",
    title="Web",
    results=(FetchedPage, FoundPages, Page, SearchResults, RecordedText),
    project=project,
    renderers={"receipt": receipt},
    projection=ProjectionPolicy(preview=WEB_CHARACTERS),
    mappings=claude_code.TOOLS,
    tools=tools.TOOLS,
    examples=Path(__file__).with_name("examples.json"),
)
