"""`render CALL --variant NAME`: exactly the text that the variant writes, for a call that really happened."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from dashboard.ingest.importer import import_paths
from dashboard.models import AuditEntry, Call, CanonicalProjection, Project
from envelopes.families.registry import family
from envelopes.variants import variants_for
from tests.dashboard.factories import create_call, create_project, create_run
from tests.dashboard.sessions import FORK, answers, asks, short_session, user, write

LISTED = "stdout:\na\nb"


@pytest.fixture
def imported(project: Project, tmp_path: Path) -> Project:
    import_paths(project, [write(tmp_path / "session.jsonl", short_session())])
    return project


def printed(*arguments: str) -> str:
    out = StringIO()
    call_command("render", *arguments, stdout=out)
    return out.getvalue()


def test_the_receipt_is_printed_without_a_word_more(imported: Project) -> None:
    assert printed("toolu_01") == LISTED


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_no_control_characters_and_a_pipe_gets_the_exact_text(project: Project, tmp_path: Path) -> None:
    hostile = "a\tb\n\x08\u202ec"
    result = {"stdout": hostile, "stderr": "", "interrupted": False, "isImage": False}
    lines = [asks("toolu_2", session=FORK), answers("toolu_2", hostile, result, session=FORK)]
    import_paths(project, [write(tmp_path / f"{FORK}.jsonl", lines)])
    terminal = Terminal()
    call_command("render", "toolu_2", stdout=terminal)
    assert hostile in printed("toolu_2")
    assert terminal.getvalue().endswith("a\tb\n\\x08\\u202ec")
    create_call(create_run(project), "toolu_2", tool="\x1b]0;pwned\x07")
    with pytest.raises(CommandError, match="is the id of several calls") as refused:
        printed("toolu_2")
    assert "\x1b" not in str(refused.value)


def test_a_call_is_found_by_our_id_and_by_its_agents(imported: Project) -> None:
    call = Call.objects.get(external_id="toolu_01")
    assert printed(str(call.pk)) == printed("toolu_01", "--variant", "receipt")


def test_every_variant_of_the_family_can_be_printed(imported: Project) -> None:
    texts = {
        variant.name: printed("toolu_01", "--variant", variant.name) for variant in variants_for(family("command"))
    }
    assert texts["receipt"] == LISTED
    assert json.loads(texts["canonical_json"])["result"]["stdout_preview"] == "a\nb"
    assert json.loads(texts["outcome_json"])["stdout_preview"] == "a\nb"
    assert texts["tagged"].startswith("<tool_result>\n<status>success</status>\n<tool_name>Bash</tool_name>\n")
    assert texts["markdown"].startswith("**Bash succeeded**\n")
    assert len(texts) == 7


def test_secrets_are_masked_unless_the_stored_text_is_asked_for(project: Project, tmp_path: Path) -> None:
    secret = "password=hunter22-xq"
    result = {"stdout": secret, "stderr": "", "interrupted": False, "isImage": False}
    lines = [asks("toolu_2", session=FORK), answers("toolu_2", secret, result, session=FORK)]
    import_paths(project, [write(tmp_path / f"{FORK}.jsonl", lines)])
    masked = printed("toolu_2")
    assert "password=*" in masked
    assert "hunter22" not in masked
    assert "hunter22" not in printed("toolu_2", "--variant", "canonical_json", "--json")
    assert not AuditEntry.objects.exists()
    assert "hunter22-xq" in printed("toolu_2", "--stored")
    assert AuditEntry.objects.get().subject.endswith("as stored")


def test_a_call_that_nothing_answered_says_so(imported: Project) -> None:
    with pytest.raises(CommandError, match="Nothing answered this call"):
        printed("toolu_03", "--variant", "markdown")


def test_one_json_document_says_which_variant_wrote_the_text(imported: Project) -> None:
    (tagged,) = [variant for variant in variants_for(family("command")) if variant.name == "tagged"]
    document = json.loads(printed("toolu_01", "--variant", "tagged", "--json"))
    assert document == {
        "call": str(Call.objects.get(external_id="toolu_01").pk),
        "tool": "Bash",
        "family": "command",
        "variant": "tagged",
        "version": tagged.version,
        "hash": tagged.hash,
        "text": printed("toolu_01", "--variant", "tagged"),
    }


def test_an_unknown_variant_lists_those_that_there_are(imported: Project) -> None:
    with pytest.raises(CommandError, match="The file family has no variant 'poem'. It has: receipt, canonical_json, "):
        printed("toolu_02", "--variant", "poem")


def test_a_call_of_a_package_that_is_not_installed_is_an_error_in_words(imported: Project) -> None:
    CanonicalProjection.objects.update(mapping="tickets:claude-code:1")
    with pytest.raises(CommandError, match="by the family 'tickets', of a package that is not installed"):
        printed("toolu_01")


@pytest.mark.postgresql
def test_an_agent_may_have_uuids_of_its_own(project: Project) -> None:
    call = create_call(create_run(project), "0f5f6d8e-0000-4000-8000-000000000007")
    document = json.loads(printed(call.external_id, "--json"))
    assert document["call"] == str(call.pk)


def test_a_call_that_is_not_there_is_named(imported: Project) -> None:
    for named in ("toolu_99", "0f5f6d8e-0000-4000-8000-000000000001"):
        with pytest.raises(CommandError, match=f"There is no call '{named}'"):
            printed(named)


def test_an_id_that_occurs_in_several_projects_is_refused_with_the_candidates(project: Project) -> None:
    first, second = (create_call(create_run(owner, "one"), "call_0") for owner in (project, create_project("other")))
    with pytest.raises(CommandError, match="several calls") as refused:
        printed("call_0")
    for call in (first, second):
        assert f"{call.pk}  Bash in run {call.run.external_id}" in str(refused.value)


def test_text_that_no_terminal_can_take_is_printed_as_an_escape(project: Project, tmp_path: Path) -> None:
    result = {"stdout": "lone \ud800", "stderr": "", "interrupted": False, "isImage": False}
    lines = [user("go", uuid="u1"), asks("toolu_01"), answers("toolu_01", "lone", result)]
    encoded = [json.dumps(line).encode() for line in lines]
    import_paths(project, [write(tmp_path / "session.jsonl", encoded)])
    assert printed("toolu_01").endswith("lone \\ud800")
