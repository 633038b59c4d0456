"""What the filter box completes at the cursor."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.filters.names import complete
from dashboard.models import Project
from tests.dashboard.factories import create_project, create_run
from tests.dashboard.page_text import parse_page


@pytest.fixture
def names(project: Project) -> Project:
    create_run(project, facets={"tool": ["Bash", "BashOutput", "my tool"], "model": ["claude-opus-4", "gpt-5"]})
    create_run(create_project("other"), facets={"tool": ["Basement"]})
    return project


# What was typed with the cursor at |, the labels, and the filter with the first of them, cursor at |.
COMPLETED = [
    ("to|", ["tokens:", "took:", "tool:"], None),
    ("too|", ["took:", "tool:"], "tool:|"),
    ("tool:b|", ["tool:Bash", "tool:BashOutput"], "tool:Bash |"),
    ("-(cut:yes or tool:OUT|)", ["tool:BashOutput"], "-(cut:yes or tool:BashOutput|)"),
    ("tool:my|", ['tool:"my tool"'], 'tool:"my tool" |'),
    ('tool:"my t|', ['tool:"my tool"'], 'tool:"my tool" |'),
    ("bas|", ["tool:Bash", "tool:BashOutput"], "tool:Bash |"),
    ("x status:f|ail cut:yes", ["status:failed"], "x status:failed| cut:yes"),
    ("model:opus|", ["model:claude-opus-4"], "model:claude-opus-4 |"),
    ("child:|", ["child:any", "child:no", "child:yes"], "child:any |"),
    ("nowhere|", [], None),
    ("foo:b|", [], None),
    ("tokens:>5|", [], None),
    ('"quoted wor|', [], None),
]


def test_keys_words_and_names_are_completed_at_the_cursor(names: Project) -> None:
    for typed, labels, filled in COMPLETED:
        completions = complete(names, typed.replace("|", ""), typed.index("|"))
        assert (typed, sorted(completion.label for completion in completions)) == (typed, sorted(labels))
        if filled:
            first = completions[0]
            assert first.text[: first.at] + "|" + first.text[first.at :] == filled


def test_an_empty_box_lists_the_first_keys_with_their_meaning(names: Project) -> None:
    completions = complete(names, "", 0)
    assert (completions[0].label, completions[0].help, len(completions)) == ("tool:", "the tool", 8)


def test_the_fragment_has_an_option_for_each_completion(operator_client: Client, names: Project) -> None:
    page = parse_page(operator_client.get("/filters/completions/?q=tool:bash&at=6"))
    options = page.select("[role=option]")
    assert [option["data-text"] for option in options] == ["tool:Bash ", "tool:BashOutput "]
    assert (options[1]["data-at"], options[1].text.split()) == ("16", ["tool:BashOutput"])
    for query in ("q=tool:&at=99", "q=%00(&at=-1", "q=" + "x" * 5_000, ""):
        assert operator_client.get(f"/filters/completions/?{query}").status_code == 200
