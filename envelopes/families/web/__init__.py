"""Tools that read the web: WebFetch and WebSearch, ours and those of Claude Code.

    FetchedPage    one address as our WebFetch read it
    FoundPages     what our WebSearch found, and which providers were asked
    Page           one address as a foreign agent recorded it
    SearchResults  links as a foreign agent recorded them, and the text that was written about them

The text comes from outside and is untrusted; the receipt says so before it.
"""

from __future__ import annotations

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.base import Facet, Family
from envelopes.families.web import claude_code, tools
from envelopes.families.web.gallery import GALLERY
from envelopes.families.web.receipts import receipt
from envelopes.families.web.results import WEB_CHARACTERS, FetchedPage, FoundPages, Page, SearchResults, project
from envelopes.families.web.samples import SAMPLES
from envelopes.schema.budget import ProjectionPolicy

FAMILY = Family(
    name="web",
    title="Web",
    results=(FetchedPage, FoundPages, Page, SearchResults, RecordedText),
    project=project,
    renderers={"receipt": receipt},
    projection=ProjectionPolicy(preview=WEB_CHARACTERS),
    foreign=claude_code.TOOLS,
    tools=tools.TOOLS,
    facets=(
        Facet("Text", "/result/text", "text"),
        Facet("Address", "/result/url", "link"),
        Facet("Results", "/result/results", "table"),
    ),
    samples=(*SAMPLES, *GALLERY.values()),
    gallery=GALLERY,
)
