"""What the Call page says about text of a receipt that is linked to the arguments, or to nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.models import Project, Run
from tests.cases import each
from tests.dashboard.factories import create_run
from tests.dashboard.recorded_calls import load_call, read_result, recorded


@pytest.fixture
def run(project: Project, alice: User) -> Run:
    return create_run(project, "session-one")


def test_a_receipt_without_a_result_says_that_there_is_nothing_to_link(client: Client, run: Run) -> None:
    page = load_call(client, recorded(run, "Bash", {"command": "x"}, None, "\x07"))
    note = "This recording has no separate result that the text could be linked to."
    assert page.select_one(".share").text == note


@each(
    ("tool", "args", "receipt", "linked", "share"),
    [
        (
            "Edit",
            {"file_path": "/srv/app/a.py", "old_string": "x", "new_string": "y"},
            "The file /srv/app/a.py has been updated. Here's the result of running `cat -n`:",
            [("/file_path", "/srv/app/a.py")],
            "13 of 79 characters come from the arguments.",
        ),
        (
            "Write",
            {"file_path": "/a.py", "content": "import os\nprint(1)"},
            "The file /a.py has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n"
            "     1→import os\n     2→print(1)\n",
            [("/file_path", "/a.py"), ("/content", "import os"), ("/content", "print(1)")],
            "22 of 137 characters come from the arguments.",
        ),
        (
            "WebSearch",
            {"query": "json canonicalization"},
            'Web search results for query: "json canonicalization"\n\nNo links found.',
            [("/query", "json canonicalization")],
            "21 of 70 characters come from the arguments.",
        ),
        (
            "Read",
            {"file_path": "/srv/app/b.py"},
            "<tool_use_error>File does not exist: /srv/app/b.py. Did you mean /srv/app/b.pyi?</tool_use_error>",
            [("/file_path", "/srv/app/b.py")],
            "13 of 97 characters come from the arguments.",
        ),
        ("Read", {"file_path": "/srv/app/b.py"}, "     1→# /srv/app/b.py\n", [], ""),
        ("Bash", {"command": "cat notes.txt"}, "cat notes.txt", [], ""),
    ],
)
def test_without_a_result_only_what_repeats_the_arguments_is_linked(
    client: Client, run: Run, tool: str, args: Any, receipt: str, linked: list[tuple[str, str]], share: str
) -> None:
    page = load_call(client, recorded(run, tool, args, None, receipt))
    assert [(link["data-args"], link.exact) for link in page.select(".segments .linked")] == linked
    note = "This recording has no separate result that the text could be linked to."
    assert page.select_one(".share").text == f"{note} {share}".strip()


def test_text_that_the_result_contains_is_never_called_the_runtimes_own(client: Client, run: Run) -> None:
    result = read_result("import os\nprint('a line of the file')", 1, 2)
    other_numbers = "     7→import os\n     8→print('a line of the file')\n"
    page = load_call(client, recorded(run, "Read", {"file_path": "/a"}, result, other_numbers))
    share = page.select_one(".share").text
    assert share == "The text is not linked to the result, because its place in it is not certain."
