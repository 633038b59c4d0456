from __future__ import annotations

import pytest

from envelopes.alignment.mapping import Evidence, ToolMapping
from envelopes.families.web import FAMILY
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.result import JsonValue
from envelopes.storage.sinks import MemorySink

TOOLS: dict[str, ToolMapping] = {tool: row for row in reversed(FAMILY.mappings) for tool in row.tools}
PAGE = {"url": "https://example.org/", "code": 200, "codeText": "OK", "bytes": 12, "result": "# Title\n\nText"}
FOUND = {
    "query": 'what "is" it',
    "results": [
        {
            "tool_use_id": "srvtoolu_1",
            "content": [
                {"title": 'A "b" c', "url": "https://a.example/"},
                {"title": "D", "url": "https://d.example/"},
            ],
        },
        "What was found.\n\nIn two lines.",
    ],
    "durationSeconds": 2.5,
}
FOUND_RECEIPT = (
    'Web search results for query: "what "is" it"\n\n'
    'Links: [{"title":"A \\"b\\" c","url":"https://a.example/"},{"title":"D","url":"https://d.example/"}]\n\n'
    "What was found.\n\nIn two lines.\n\n\n"
    "REMINDER: You MUST include the sources above in your response to the user using markdown hyperlinks."
)


def recorded(tool: str, result: JsonValue) -> Evidence:
    return Evidence(agent="claude-code", tool=tool, args={}, result=result, has_result=True)


def linked(tool: str, result: JsonValue, receipt: str) -> list[tuple[str, str]]:
    spans = TOOLS[tool].align(recorded(tool, result), receipt)
    return [(span.pointer, receipt[span.start : span.end]) for span in sorted(spans)]


def receipt_text(tool: str, result: JsonValue) -> str:
    complete = TOOLS[tool].read(recorded(tool, result)).complete
    return render(project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical, FAMILY, FAMILY.rendering).text


def test_a_fetched_page_is_the_whole_receipt() -> None:
    assert linked("WebFetch", PAGE, "# Title\n\nText\n") == [("/result", "# Title\n\nText")]
    assert [field.pointer for field in TOOLS["WebFetch"].read(recorded("WebFetch", PAGE)).outputs] == ["/result"]


def test_search_links_and_texts_are_linked_and_the_reminder_is_not() -> None:
    assert linked("WebSearch", FOUND, FOUND_RECEIPT) == [
        ("/query", 'what "is" it'),
        ("/results/0/content/0/title", "A "),
        ("/results/0/content/0/title", "b"),
        ("/results/0/content/0/title", " c"),
        ("/results/0/content/0/url", "https://a.example/"),
        ("/results/0/content/1/title", "D"),
        ("/results/0/content/1/url", "https://d.example/"),
        ("/results/1", "What was found.\n\nIn two lines."),
    ]


def test_a_search_receipt_with_another_link_keeps_only_the_text_before_it() -> None:
    receipt = FOUND_RECEIPT.replace("https://d.example/", "https://other.example/")

    assert linked("WebSearch", FOUND, receipt) == [("/query", 'what "is" it')]


def test_links_of_several_groups_lead_to_one_canonical_list() -> None:
    group = {"content": [{"title": "A", "url": "https://a.example/"}]}
    reading = TOOLS["WebSearch"].read(recorded("WebSearch", {"query": "q", "results": [group, "text", group]}))

    assert reading.links["/results/0/content/0"] == "/result/results/0"
    assert reading.links["/results/1"] == "/result/text"
    assert reading.links["/results/2/content/0"] == "/result/results/1"


def test_our_receipts_say_that_the_text_is_untrusted() -> None:
    assert receipt_text("WebFetch", PAGE) == (
        "Fetched https://example.org/ with status 200\nURL: https://example.org/\nStatus: 200\nBytes: 12\n\n"
        "Untrusted text from the web:\n# Title\n\nText"
    )
    assert receipt_text("WebSearch", FOUND).startswith(
        '2 web results for \'what "is" it\'\n- A "b" c\n  https://a.example/\n- D\n  https://d.example/\n\nUntrusted'
    )


def test_a_search_that_failed_upstream_shows_what_was_recorded() -> None:
    failed = {"query": "q", "results": [{"content": {"error_code": "max_uses_exceeded"}}]}

    assert "error_code: max_uses_exceeded" in receipt_text("WebSearch", failed)


@pytest.mark.parametrize(
    ("result", "receipt"),
    [
        (FOUND, "No search was made"),
        ({"query": "q", "results": ["Text"]}, 'Web search results for query: "other"\n\nText'),
        ({"query": "q", "results": ["Text"]}, 'Web search results for query: "q"\n\nElse'),
        ({"query": "q", "results": ["REMINDER"]}, 'Web search results for query: "q"\n\nText'),
        ({"query": "q", "results": [{"content": [{"title": "A"}]}]}, 'Web search results for query: "q"\n\nText'),
    ],
)
def test_of_a_search_receipt_that_says_something_else_only_the_query_is_linked(result: JsonValue, receipt: str) -> None:
    links = [("/query", "q")] if 'query: "q"' in receipt else []
    assert linked("WebSearch", result, receipt) == links


def test_a_text_that_only_goes_on_into_the_reminder_is_not_linked() -> None:
    text = "Text\n\nREMINDER: You MUST include the sources above"
    assert linked("WebSearch", {"query": "q", "results": [text]}, f'Web search results for query: "q"\n\n{text}') == [
        ("/query", "q")
    ]
