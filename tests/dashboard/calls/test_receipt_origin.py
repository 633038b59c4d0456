"""Who wrote the text that the model got: the tool, a hook, or one of the parts of an MCP result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.filters.language import parse
from dashboard.ingest.compute_derived import compute_calls, compute_portion, load_recorded_calls, pack_calls
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, Run
from dashboard.runs.export_run import export_run
from tests.cases import each
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.recorded_calls import read_result
from tests.dashboard.sessions import SESSION, answers, asks, user, write

pytestmark = pytest.mark.django_db
Line = dict[str, Any]

OWN = "user=alice\nplan=merge-with-acme\nregion=north"
MASKED = "user=alice\nplan=[removed by policy]\nregion=north"
TOOL = "mcp__vault__read"


def stdout(text: str) -> Line:
    return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}


def blocks(text: str) -> list[Line]:
    return [{"type": "text", "text": text}]


def hook(call: str, answer: Any, event: str = "PostToolUse") -> Line:
    """The line of a hook that ended well; `answer` is what it printed."""
    attachment = {
        "type": "hook_success",
        "hookName": f"{event}:Bash",
        "hookEvent": event,
        "toolUseID": call,
        "content": "",
        "stdout": answer if isinstance(answer, str) else json.dumps(answer),
        "stderr": "",
        "exitCode": 0,
        "command": "scrub --secrets",
        "durationMs": 12,
    }
    return {"type": "attachment", "uuid": f"h-{call}", "sessionId": SESSION, "attachment": attachment}


def returns(output: Any, name: str = "updatedToolOutput") -> Line:
    return {"hookSpecificOutput": {"hookEventName": "PostToolUse", name: output}}


# Releases differ in which of the two they take.
TWO = {"hookSpecificOutput": {"updatedMCPToolOutput": blocks(MASKED), "updatedToolOutput": blocks("[removed]")}}
# By call: the tool, the receipt, the recorded result and the hook's answer.
HOOKED: dict[str, tuple[str, Any, Any, Any]] = {
    "replaced": ("Bash", MASKED, stdout(OWN), returns(stdout(MASKED))),
    "both_replaced": (TOOL, blocks(MASKED), blocks(MASKED), returns(blocks(MASKED), "updatedMCPToolOutput")),
    "first_of_two": (TOOL, blocks(MASKED), blocks(OWN), TWO),
    "second_of_two": (TOOL, blocks("[removed]"), blocks(OWN), TWO),
    "both_first_of_two": (TOOL, blocks(MASKED), blocks(MASKED), TWO),
    "ignored": ("Bash", OWN, stdout(OWN), returns("[removed]")),
    "a_tool_of_no_server": ("Bash", OWN, stdout(OWN), returns(stdout(MASKED), "updatedMCPToolOutput")),
    "either": ("Bash", "no output at all", stdout(OWN), returns(stdout(MASKED))),
    "by_chance": (
        "Read",
        "     1→x = 1\n     2→y = 2\n     3→z = 3",
        read_result("a\nb\nc", 1, 3),
        returns(read_result("x = 1", 1, 1)),
    ),
    "shortened": (
        "Read",
        "     1→user=[removed by policy]\n     2→plan=[removed by policy]",
        read_result(OWN, 1, 3),
        returns(read_result("user=[removed by policy]\nplan=[removed by policy]\nregion=north", 1, 3)),
    ),
    "only_context": ("Bash", OWN, stdout(OWN), {"hookSpecificOutput": {"additionalContext": "Mind the token."}}),
    "no_json": ("Bash", OWN, stdout(OWN), "checked"),
}

# By call whose receipt may not be the tool's own text: its author, and whether it is cut.
AUTHORS = {
    "replaced": ("hook", False),
    "both_replaced": ("unclear", False),
    "first_of_two": ("hook", False),
    "second_of_two": ("hook", False),
    "both_first_of_two": ("unclear", False),
    "either": ("unclear", False),  # its receipt has nothing of any output, so it is not known what it is of
    "by_chance": ("unclear", False),
    "shortened": ("hook", True),
}


@pytest.fixture(scope="module")
def imported(kept_project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = [user("read it", uuid="u1")]
    for name, (tool, receipt, result, answer) in HOOKED.items():
        call = f"toolu_{name}"
        answered = [answers(call, receipt, result), hook(call, answer)]
        # Clients differ in whether the hook's line comes before the tool's answer.
        lines += [asks(call, tool, {"command": "env"}, step=f"msg_{name}"), *answered[:: -1 if "both" in name else 1]]
    import_paths(kept_project, [write(tmp_path_factory.mktemp("sessions") / f"{SESSION}.jsonl", [*lines])])


@pytest.fixture
def run(project: Project, imported: None) -> Run:
    return project.runs.get(external_id=SESSION)


def open_call(client: Client, name: str) -> Page:
    call = Call.objects.get(external_id=f"toolu_{name}")
    return parse_page(client.get(f"/calls/{call.pk}/?run={call.run_id}"))


def origin(page: Page) -> tuple[list[str], list[str]]:
    """The badges and the notice about hooks."""
    return [text for text in page.texts(".step-line .badge") if "hook" in text], page.texts("[data-hook] p")


def test_a_text_that_a_hook_wrote_stands_beside_the_tools_own(operator_client: Client, run: Run) -> None:
    page = open_call(operator_client, "replaced")
    badges, notice = origin(page)
    assert badges == ["written by a hook"]
    assert page.select_one('[data-half="receipt"] .share').text.startswith("The text comes from the output of a hook")
    assert not page.all_by_text("cut before the model", exact=True)
    assert not page.all_by_text("word for word")
    assert notice[0] == (
        "A hook wrote the text that the model got, by the recording: PostToolUse:Bash (scrub --secrets) returned "
        "another output in place of the tool's own, and the recorded receipt is made from that."
    )
    rows = page.select("[data-hook] table.diff tbody tr")
    changed = [row.texts("td pre") for row in rows if row["data-kind"] == "changed"]
    assert changed == [["plan=merge-with-acme", "plan=[removed by policy]"]]
    heads = page.texts("[data-hook] table.diff th")
    assert (heads[1], heads[3]) == ("The tool's own output, as recorded", "What the hook returned")


@pytest.mark.postgresql("either-badges2-A hook returned another output")
@pytest.mark.parametrize(
    ("name", "badges", "beginning"),
    [
        ("both_replaced", ["output returned by a hook"], "The recorded output is what a hook returned"),
        ("ignored", [], "A hook returned another output"),
        ("either", ["a hook returned another output"], "A hook returned another output"),
        ("by_chance", ["a hook returned another output"], "A hook returned another output"),
    ],
)
def test_no_rewrite_is_claimed_that_the_recording_does_not_show(
    operator_client: Client, run: Run, name: str, badges: list[str], beginning: str
) -> None:
    page = open_call(operator_client, name)
    assert origin(page)[0] == badges
    [sentence, *_] = origin(page)[1]
    assert sentence.startswith(beginning)
    assert "A hook wrote the text" not in page.text
    endings = {
        "both_replaced": "Whether the tool's own output was another one is not recorded.",
        "ignored": "but the recorded receipt is made from the tool's own output.",
    }
    assert sentence.endswith(endings.get(name, "Which of the two the recorded receipt was made from is not certain."))
    assert page.has("[data-hook] table.diff") == (name != "both_replaced")


@each("name", ["only_context", "no_json", "a_tool_of_no_server"])
def test_a_hook_that_returned_no_output_leaves_the_receipt_the_tools(
    operator_client: Client, run: Run, name: str
) -> None:
    page = open_call(operator_client, name)
    assert origin(page) == ([], [])
    assert not page.has("[data-hook]")


def test_the_model_view_names_receipts_with_another_author_than_the_tool(operator_client: Client, run: Run) -> None:
    page = parse_page(operator_client.get(f"/runs/{run.pk}/context"))
    receipts = page.select('.entry[data-kind="receipt"]')
    noted = [[text for text in entry.texts(".badge") if "hook" in text] for entry in receipts]
    words = {"hook": ["written by a hook"], "unclear": ["a hook returned an output"], "": []}
    assert noted == [words[AUTHORS.get(name, ("", False))[0]] for name in HOOKED]
    cut = [any("cut before" in text for text in entry.texts(".badge")) for entry in receipts]
    assert cut == [AUTHORS.get(name, ("", False))[1] for name in HOOKED]


def authors(project: Project) -> dict[str, tuple[str, bool]]:
    """The author of the receipt and whether it counts as cut, by call, where the author may not be the tool."""
    receipts = dict(project.calls.values_list("pk", "receipts__author"))
    calls = project.calls.all()
    assert receipts == {call.pk: call.author for call in calls}
    return {call.external_id.removeprefix("toolu_"): (call.author, call.is_cut) for call in calls if call.author}


def test_a_receipt_that_a_hook_wrote_is_no_cut_by_itself_and_a_filter_finds_it(
    operator_client: Client, project: Project, run: Run
) -> None:
    assert authors(project) == AUTHORS
    queries = {
        "author:hook": ["replaced", "first_of_two", "second_of_two", "shortened"],
        "author:unclear": ["both_replaced", "both_first_of_two", "either", "by_chance"],
        "author:hook cut:yes": ["shortened"],
        "-author:hook cut:yes": [],
    }
    for query, names in queries.items():
        calls = parse(query, over="calls").calls(run)
        assert [call.external_id.removeprefix("toolu_") for call in calls] == names
        assert list(parse(query).runs(project)) == [run] * (query[0] != "-")
    assert parse("author:tool").problems
    page = parse_page(operator_client.get(f"/runs/{run.pk}/?q=author:hook"))
    assert page.texts(".row-summary em") == ["written by a hook"] * 4
    assert page.texts('.chips[aria-label="By author"] a.chip') == ["hook 4", "unclear 4"]
    facets = parse_page(operator_client.get("/runs/")).select_one(".facets")
    assert facets.by_role("link", name="written by a hook")["href"] == "?q=author%3Ahook"


@pytest.mark.parametrize("part", [1, 2], ids=["the hook's line last", "the answer last"])
def test_the_author_is_known_however_the_recording_grew(project: Project, tmp_path: Path, part: int) -> None:
    tool, receipt, result, answer = HOOKED["replaced"]
    ends = [answers("toolu_replaced", receipt, result), hook("toolu_replaced", answer)][:: 3 - 2 * part]
    path = tmp_path / f"{SESSION}.jsonl"
    for end in (1, 2, 3):
        import_paths(project, [write(path, [asks("toolu_replaced", tool), *ends][:end])])
    assert authors(project) == {"replaced": ("hook", False)}
    assert project.runs.get().cut_count == 0


def test_an_export_keeps_what_a_hook_returned(
    operator_client: Client, project: Project, run: Run, tmp_path: Path
) -> None:
    expected = origin(open_call(operator_client, "replaced")), authors(project)
    export_run(run, tmp_path / "exported")
    run.delete()
    import_paths(project, [tmp_path / "exported"])
    assert (origin(open_call(operator_client, "replaced")), authors(project)) == expected


def test_a_cut_of_what_a_hook_returned_is_counted_in_lines_of_that(operator_client: Client, run: Run) -> None:
    page = open_call(operator_client, "shortened")
    assert "cut before the model" in page.texts(".step-line .badge")
    [sentence] = page.texts(".cuts .cut p")
    assert sentence.startswith("content, as the hook returned it ")
    assert sentence.endswith("the model got lines 1\u20132 of 3; 1 not seen.")
    call = Call.objects.get(external_id="toolu_shortened")
    assert (call.seen_lines, call.output_lines) == (2, 3)


# By call: the receipt, the recorded result and what is recorded beside it.
MCP: dict[str, tuple[Any, Any, Line | None]] = {
    "content": (blocks("3 issues"), blocks("3 issues"), {"structuredContent": {"issues": 3}, "_meta": {"took": 12}}),
    "structured": ('{"issues":3}', "3 issues", {"structuredContent": {"issues": 3}}),
    "same_value": (blocks('{"issues": 3}'), blocks('{"issues": 3}'), {"structuredContent": {"issues": 3}}),
    "some": (blocks("first"), [*blocks("first"), *blocks("second")], None),
    "refused": ("a person refused this", "Error: a person refused this", None),
    "object": (blocks("3 issues"), {"content": blocks("3 issues"), "_meta": {"took": 12}}, None),
}


@each(
    ("name", "sentence", "rows"),
    [
        (
            "content",
            "the model got content; structuredContent and _meta stayed with the client.",
            [("1 block", "all"), ("12 characters", "none"), ("11 characters", "none")],
        ),
        (
            "structured",
            "the model got structuredContent; content stayed with the client.",
            [("10 characters", "none"), ("12 characters", "all"), None],
        ),
        (
            "same_value",
            "the model got content and structuredContent.",
            [("1 block", "all"), ("12 characters", "all"), None],
        ),
        ("some", "the model got some of content.", [("2 blocks", "some"), None, None]),
        (
            "object",
            "the model got content; _meta stayed with the client.",
            [("1 block", "all"), None, ("11 characters", "none")],
        ),
    ],
)
def test_the_parts_of_an_mcp_result_are_shown_with_those_who_got_them(
    operator_client: Client, mcp: Run, name: str, sentence: str, rows: list[tuple[str, str] | None]
) -> None:
    audiences = open_call(operator_client, name).select_one("[data-audiences]")
    assert audiences.select_one("summary").text == f"Parts of the MCP result: By the recording, {sentence}"
    cells = [row.texts("td") for row in audiences.select("tbody tr")]
    assert [tuple(row) if len(row) == 2 else None for row in cells] == rows
    recorded = [part for part, row in zip(("content", "structuredContent", "_meta"), rows, strict=True) if row]
    assert list(audiences.facts) == recorded
    assert audiences.texts("tbody th .mono") == ["content", "structuredContent", "_meta"]


@pytest.fixture
def mcp(project: Project, tmp_path: Path) -> Run:
    lines = [user("count them", uuid="u1")]
    for name, (receipt, result, meta) in MCP.items():
        is_error = isinstance(result, str) and result.startswith("Error: ")
        answer = answers(f"toolu_{name}", receipt, result, is_error=is_error) | ({"mcpMeta": meta} if meta else {})
        lines += [asks(f"toolu_{name}", TOOL, {"id": 7}, step=f"msg_{name}"), answer]
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", [*lines])])
    return project.runs.get(external_id=SESSION)


def test_parts_of_an_mcp_result_are_listed_once(operator_client: Client, mcp: Run) -> None:
    assert "mcpMeta" not in open_call(operator_client, "content").text


def test_the_text_of_a_failed_call_is_no_part_of_a_servers_result(operator_client: Client, mcp: Run) -> None:
    assert not open_call(operator_client, "refused").has("[data-audiences]")


def test_a_call_of_no_mcp_tool_has_no_such_parts(operator_client: Client, run: Run) -> None:
    assert not open_call(operator_client, "replaced").has("[data-audiences]")


def test_a_process_without_a_database_derives_the_same_from_what_it_is_sent(run: Run) -> None:
    keys = list(Call.objects.in_run(run).values_list("pk", flat=True))
    calls = load_recorded_calls(keys)
    assert any(call.hooks for call in calls)
    assert compute_portion(pack_calls(calls), ()) == compute_calls(keys)
