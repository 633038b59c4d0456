"""The label of a call's arguments: what it is, and that every page shows the same one."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

import dashboard
from dashboard.evidence.argument_labels import (
    argument_labels,
    find_printed,
    label_arguments,
    label_calls,
    show_first_line,
    show_label,
    store_first_line,
    store_label,
)
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project
from envelopes.schema.result import JsonValue
from tests.dashboard.factories import create_call, create_run
from tests.dashboard.measured_comparisons import compared
from tests.dashboard.page_text import Page, parse_page

SAMPLES = Path(dashboard.__file__).parent / "samples"


@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        (b'{"description":"Run it","command":"make\\n  test"}', "make test"),
        (b'{"replace_all":false,"file_path":"/src/a.py","old_string":"x"}', "/src/a.py"),
        (b'{"questions":[{"header":"Which?"}],"n":1}', "Which?"),
        (b'{"command":"echo \\"a\\" \\ud83d', 'echo "a" \\ud83d…'),
        (b'{"command":"cut in an escape \\u00', "cut in an escape…"),
        ('{"command":"cut in a letter é'.encode()[:-1], "cut in a letter \ufffd…"),
        (b'{"command":"' + 300 * b"x" + b'"}', 159 * "x" + "…"),
        (b'{"todos":[]}', '{"todos":[]}'),
        (b'{"x": 1,\n "deep": true}', '{"x": 1, "deep": true}'),
        (b'{"numbers":[' + 400 * b"7," + b"7]}", f'{{"numbers":[{147 * "7,"}'[:159] + "…"),
        (b"{}", ""),
        (b'{"path":"/src","pattern":"def \\\\w+","glob":"*.py"}', "def \\w+ in /src"),
        (b'{"pattern":"**/*.py"}', "**/*.py"),
        (b'{"pattern":"a","path":"/' + 700 * b"x" + b'"}', "a"),
        (b'{"pattern":"' + 700 * b"x" + b'","path":"/src"}', 159 * "x" + "…"),
        (b'{"command":"view","path":"/srv/a.txt"}', "/srv/a.txt"),
        (b'{"command":"view"}', "view"),
        (b'{"command":""}', '{"command":""}'),
        (b'{"command":["bash","-lc","make test"],"workdir":"/srv"}', "make test"),
        (b'{"command":["git","log","-1"],"workdir":"/srv"}', "git log -1"),
        (b'{"commands": ["echo \\"a\\"", "make"], "timeout": 5}', 'echo "a", make'),
        (b'{"paths":["a.py","' + 700 * b"x" + b'"]}', f"a.py, {153 * 'x'}…"),
        (b'{"queries":["one","two",' + 300 * b'"x",' + b'"y"]}', f"one, two{', x' * 50},…"),
        (b'{"command":["python",{"x":1}],"workdir":"/srv"}', "/srv"),
        (b'{"command":["a]b",{"x":1}],"workdir":"/srv"}', "/srv"),
        (b'{"todos":[{"id":"1","content":"one","status":"pending"}]}', "one"),
        (b'{"id":"SHOP-7","body":"done"}', "SHOP-7"),
        (b'{"ids":[{"id":"1"}]}', "1"),
        (b'{"command":"first","command":"last"}', "last"),
        (b'{"command":"first","comm\\u0061nd":"last"}', "last"),
        (b'{"command":"first","x":"' + 700 * b"x" + b'","command":"last"}', "last"),
        (b'{"command":"first","command":7}', '{"command":7}'),
        (b'{"command":"one","then":{"command":"another"}}', "one"),
        (b'{"questions":[{"header":"first","header":"last"}]}', "last"),
        (b'{"allowedPrompts":[{"tool":"Bash","prompt":"run tests"}],"plan":"# Move it"}', "# Move it"),
        (b'{"allowedPrompts":[{"prompt":"' + 700 * b"x" + b'"}],"plan":"# Move\\nit"}', "# Move it"),
        (b'{"allowedPrompts":[{"prompt":"' + 700 * b"x", 159 * "x" + "…"),
        (b'{"questions":[{"question":"Which?","options":[{"description":"Fast"}]},{"question":"Why?"}]}', "Which?"),
        (b'{"items":[{"prompt":"inner"}],"prompt":"outer"}', "outer"),
        (b'{"edits":[{"path":"a.py"}],"description":"Rename it"}', "Rename it"),
        (b'{"description":"Look around","prompt":"Read all"}', "Look around"),
        (b"not JSON", ""),
        (b'"*** Begin Patch\\n*** Add File: a.txt\\n+x = 1"', "*** Begin Patch *** Add File: a.txt +x = 1"),
        (b'"' + 30 * b"a\\n" + 700 * b"x" + b'"', 30 * "a " + 99 * "x" + "…"),
        (b'"cut in an escape \\u00', "cut in an escape…"),
        (b'"cut in an escape \\', "cut in an escape…"),
        (b'""', ""),
    ],
)
def test_a_label_is_the_argument_that_a_person_would_name(arguments: bytes, label: str) -> None:
    assert label_arguments(arguments) == label
    assert show_label(store_label(arguments), "") == label


@pytest.mark.parametrize(
    ("receipt", "line"),
    [
        ("\n  a\tb \nc", "a b"),
        ("<persisted-output>\nOutput too large", "Output too large"),
        ("<b>bold</b>\nrest", "<b>bold</b>"),
        (3_000 * "x", 159 * "x" + "…"),
        ("nul \x00", "nul ␀"),
        ('{\n  "city": "Oslo"\n}', '"city": "Oslo"'),
        ('Wall time: 0.0035 seconds\nOutput:\n{"result":"Hello"}', '{"result":"Hello"}'),
        (
            "Chunk ID: a\nWall time: 1 seconds\nProcess exited with code 0\nOriginal token count: 9\nOutput:\nhi",
            "hi",
        ),
        ("Script completed\nWall time 0.1 seconds\nOutput:\nhi", "hi"),
        ("Wall time: 0.1 seconds\nOutput:err: no value", "err: no value"),
        ("Exit code: 0\nWall time: 0 seconds\nTotal output lines: 900\nOutput:\nTotal output lines: 900\n\nhi", "hi"),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\n", ""),
        ("Chunk ID: a\nProcess running with session ID 7\nOutput:\nChunk ID: b\nOutput:\nhi", "hi"),
        ("Output:\nthe tool's own", "Output:"),
        ("<untrusted_context>\nHello Ada\n</untrusted_context>", "Hello Ada"),
        ("Command: cat <<E\none\nE\nDirectory: (root)\nOutput: one\nError: (none)\nExit Code: 0", "one"),
        ("Command: the best one\nof all", "Command: the best one"),
        ("---\n***", "---"),
        ("\n \n", ""),
    ],
)
def test_the_first_line_of_a_receipt_is_one_with_a_text(receipt: str, line: str) -> None:
    stored = store_first_line(receipt)
    assert len(stored) <= 500
    assert show_first_line(stored, "") == line


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("result", "printed"),
    [
        ({"exit_status": 0, "stdout": "\n", "stderr": "warning: old"}, "warning: old"),
        ({"stdout_preview": "hello", "stderr": "x"}, "hello"),
        ("done", "done"),
        ({"stdout": ["a"], "count": 3}, ""),
        (None, ""),
    ],
)
def test_what_a_tool_printed_is_found_in_its_result(result: JsonValue, printed: str) -> None:
    assert find_printed(result) == printed


def test_paths_are_relative_to_the_working_folder_of_the_run(project: Project) -> None:
    run = create_run(project, cwd="/srv/app/")
    inside = create_call(run, args={"file_path": "/srv/app/src/a.py"})
    outside = create_call(run, args={"file_path": "/srv/other/b.py"})
    nothing = create_call(run, args={})
    everywhere = create_call(run, args={"pattern": "x", "path": "/srv/app"})
    below = create_call(run, args={"pattern": "x", "path": "/srv/app/src"})
    waiting = create_call(run, args={"file_path": "/srv/app/src/c.py"}, derivation="")
    calls = [inside, outside, nothing, waiting, everywhere, below]
    labels = {everywhere.pk: "x", below.pk: "x in src"} | {
        inside.pk: "src/a.py",
        outside.pk: "/srv/other/b.py",
        waiting.pk: "src/c.py",
    }
    assert argument_labels([call.pk for call in calls]) == labels
    listed = list(Call.objects.in_run_with_ordinals(run))
    assert label_calls(listed, run.cwd) == labels | {nothing.pk: ""}


@pytest.mark.extended
@pytest.mark.usefixtures("alice")
@pytest.mark.rendering
def test_run_pages_and_comparisons_label_a_call_alike(client: Client, project: Project) -> None:
    import_paths(project, [SAMPLES])
    comparison, _ = compared(project, ["recorded", "receipt"])
    labels = {}
    for page in pages(client, f"/experiments/{comparison.pk}/calls/?column=1"):
        for row in page.select("tbody tr"):
            key = row.by_role("link")["href"].split("/")[4]
            labels[key] = row.select_one('[data-head="Arguments"]').text
    assert len(labels) > 190
    on_run_pages = {
        row["id"].removeprefix("c-"): row
        for run in project.runs.all()
        for page in pages(client, f"/runs/{run.pk}/?skip=0")
        for row in page.select("a.call-row[id^=c-]")
    }
    for key, label in labels.items():
        row = on_run_pages[key]
        assert row.texts("code") == [label] if row.has("code") else label in row.text


def pages(client: Client, address: str) -> list[Page]:
    """The page at an address and those that follow it."""
    parsed = []
    path = address.partition("?")[0]
    while address:
        page = parse_page(client.get(address))
        parsed.append(page)
        following = page.select("li.sentinel a, a[rel=next]")
        address = path + following[0]["href"] if following else ""
    return parsed
