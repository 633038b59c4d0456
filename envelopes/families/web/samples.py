"""Outputs of a foreign agent that show the family: success, large, empty, error."""

from __future__ import annotations

from envelopes.families.web.results import Link, Page, SearchResults
from envelopes.schema.result import CompleteOutput, ToolError

SAMPLES = (
    CompleteOutput(
        tool_name="WebFetch",
        status="success",
        summary_text="Fetched https://example.org/changes with status 200",
        result=Page(
            url="https://example.org/changes",
            status=200,
            status_text="OK",
            bytes_read=5_120,
            text="# Changes\n\nNone.",
        ),
    ),
    CompleteOutput(
        tool_name="WebFetch",
        status="success",
        summary_text="Fetched https://example.org/log with status 200",
        result=Page(
            url="https://example.org/log",
            status=200,
            bytes_read=90_000,
            text="\n".join(f"Entry {number}: a line of the page" for number in range(1_500)),
        ),
    ),
    CompleteOutput(
        tool_name="WebSearch",
        status="success",
        summary_text="1 web result for 'receipts'",
        result=SearchResults(query="receipts", results=(Link("Receipt", "https://example.org/receipt"),)),
    ),
    CompleteOutput(
        tool_name="WebSearch",
        status="success",
        summary_text="No web results for 'zxqv'",
        result=SearchResults(query="zxqv"),
    ),
    CompleteOutput(
        tool_name="WebFetch",
        status="error",
        summary_text="Request failed with status code 404",
        error=ToolError(kind="network_failed", message="Request failed with status code 404", retryable=True),
    ),
)
