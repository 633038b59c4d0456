"""The index of payloads: which texts it has, that it follows the evidence, and that nothing of a deleted run stays."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from pytest_django import Settings

from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Message, Project, Run, SourceFrame
from dashboard.models.search import HALVES, TABLE, matching_ids, prepare_entry
from dashboard.search import index
from dashboard.search.documents import load_call_texts
from dashboard.search.index import index_next_waiting
from envelopes.text.search_words import Phrase, parse_phrase
from tests.dashboard.sessions import SESSION, answers, asks, short_session, user, write

pytestmark = pytest.mark.django_db
OTHER = "0f5f6d8e-0000-4000-8000-00000000000b"


def session(folder: Path, name: str = SESSION, secret: str = "Zanzibar") -> Path:
    lines = [
        user(f"Look for {secret} müsli", uuid=f"u-{name}", session=name),
        asks(f"toolu_1{name}", session=name),
        answers(
            f"toolu_1{name}",
            f"permission denied\n{secret}",
            {"stdout": f'permission denied\n{secret}\nsecond "line"', "stderr": ""},
            session=name,
        ),
        asks(f"toolu_2{name}", session=name),
    ]
    return write(folder / f"{name}.jsonl", lines)


def entries(half: str, text: str) -> list[int]:
    phrase = parse_phrase(text)
    assert phrase
    ids = Call.objects.filter(search_id__in=matching_ids(half, phrase)).values_list("search_id", flat=True)
    messages = Message.objects.filter(search_id__in=matching_ids(half, phrase)).values_list("search_id", flat=True)
    return [*ids, *messages]


def indexed_words() -> set[str]:
    """Every word in the index, also of entries that nothing names any more."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab('main', {TABLE}, 'row')")
            cursor.execute("SELECT term FROM temp.vocabulary")
            words = {row[0] for row in cursor.fetchall()}
            cursor.execute("DROP TABLE temp.vocabulary")
            return words
        cursor.execute(f"SELECT words::text FROM {TABLE}")
        return {word.strip("'")[1:] for row in cursor.fetchall() for word in row[0].split()}


@pytest.mark.postgresql
def test_an_import_indexes_each_half_apart(project: Project, tmp_path: Path) -> None:
    import_paths(project, [session(tmp_path)])
    found = {
        (half, text): len(entries(half, text))
        for half in ("receipt", "canonical", "args", "any")
        for text in ("permission denied", "zanzibar second", "line", "ls", "müsli", "nothing")
    }
    assert {key: count for key, count in found.items() if count} == {
        ("receipt", "permission denied"): 1,
        ("canonical", "permission denied"): 1,
        ("canonical", "zanzibar second"): 1,
        ("canonical", "line"): 1,
        ("any", "permission denied"): 1,
        ("any", "zanzibar second"): 1,
        ("any", "line"): 1,
        ("any", "müsli"): 1,
    } | {(half, "ls"): 2 for half in ("args", "any")}
    assert not index_next_waiting()


@pytest.mark.postgresql
def test_a_text_that_both_halves_have_is_indexed_once_and_found_in_each(project: Project, tmp_path: Path) -> None:
    result = {"stdout": "permission denied", "stderr": "no such file"}
    lines = [asks("toolu_1"), answers("toolu_1", "permission denied", result)]
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", lines)])
    found = {half: len(entries(half, "permission denied")) for half in (*HALVES, "any")}
    assert found == {"receipt": 1, "canonical": 1, "args": 0, "any": 1}
    assert entries("canonical", "such file")
    assert not entries("receipt", "such file")
    entry = prepare_entry([["permission denied"], ["permission denied", "no such file"], [], []])
    assert " ".join(entry).count("permission") == 1


@pytest.mark.postgresql
def test_no_word_of_a_deleted_run_stays_and_the_others_are_indexed_again(project: Project, tmp_path: Path) -> None:
    import_paths(project, [session(tmp_path), session(tmp_path, OTHER, "Timbuktu")])
    assert {"zanzibar", "timbuktu", "müsli"} <= indexed_words()
    delete_run(Run.objects.get(external_id=SESSION))
    assert "zanzibar" not in indexed_words()
    assert index_next_waiting()
    assert {"timbuktu", "müsli"} <= indexed_words()
    assert "zanzibar" not in indexed_words()
    assert len(entries("receipt", "timbuktu")) == 1


@pytest.mark.postgresql
def test_new_evidence_is_indexed_anew_and_the_older_entry_finds_nothing(project: Project, tmp_path: Path) -> None:
    path = session(tmp_path)
    import_paths(project, [path])
    before = entries("args", "ls")
    with path.open("ab") as file:
        file.write(json.dumps(answers(f"toolu_2{SESSION}", "late")).encode() + b"\n")
    import_paths(project, [path])
    assert len(entries("receipt", "late")) == 1
    assert len(set(entries("args", "ls")) & set(before)) == 1


@pytest.mark.extended
def test_an_import_indexes_the_words_that_the_command_does(project: Project, tmp_path: Path) -> None:
    lines = [*short_session(), asks("toolu_late"), answers("toolu_late", [{"type": "text", "text": "one"}], "none")]
    replaced = answers("toolu_late", "two", "none")
    import_paths(project, [session(tmp_path, OTHER), write(tmp_path / f"{SESSION}.jsonl", [*lines, replaced])])

    def found() -> dict[tuple[str, str], set[str]]:
        words = indexed_words() - {"¶"}
        keys = [(half, word) for half in HALVES for word in words]
        matching = [Call.objects.filter(search_id__in=matching_ids(half, Phrase((word,)))) for half, word in keys]
        names = [set(calls.values_list("external_id", flat=True)) for calls in matching]
        return {key: external for key, external in zip(keys, names, strict=True) if external}

    imported = found()
    call_command("rederive", "--search", stdout=StringIO())
    assert found() == imported
    assert len(imported) > 10


@pytest.mark.postgresql
def test_damaged_evidence_has_no_text_and_keeps_no_other_from_being_found(
    project: Project, tmp_path: Path, operator_client: Client
) -> None:
    import_paths(project, [session(tmp_path), session(tmp_path, OTHER, "Timbuktu")])
    index.reset_index()
    SourceFrame.objects.filter(source__path__endswith=f"{SESSION}.jsonl").delete()
    assert index_next_waiting()
    assert not index_next_waiting()
    assert "zanzibar" not in indexed_words()
    assert len(entries("receipt", "timbuktu")) == 1
    for query in ("receipt:timbuktu", "-receipt:nothing", "canonical:*buk*"):
        assert operator_client.get("/calls/", {"q": query}).status_code == 200


def test_a_killed_process_leaves_calls_that_wait(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    import_paths(project, [session(tmp_path), session(tmp_path, OTHER)])
    index.reset_index()
    settings.INDEXED_AT_ONCE = 1
    insert = index.insert_entries
    done: list[Any] = []

    def insert_once(rows: Any) -> list[int]:
        if done:
            raise KeyboardInterrupt
        done.append(rows)
        return insert(rows)

    monkeypatch.setattr(index, "insert_entries", insert_once)
    with pytest.raises(KeyboardInterrupt):
        index_next_waiting()
    monkeypatch.undo()
    assert Call.objects.unsearchable().count() == 3
    assert index_next_waiting()
    assert len(entries("receipt", "permission denied")) == 2
    assert not index_next_waiting()


@pytest.mark.postgresql
def test_the_command_builds_the_index_anew(project: Project, tmp_path: Path, settings: Settings) -> None:
    import_paths(project, [session(tmp_path)])
    settings.SEARCH_CHARACTERS = 10
    out = StringIO()
    call_command("rederive", "--search", "--json", stdout=out)
    assert json.loads(out.getvalue()) == {"indexed": 3}
    assert "denied" not in indexed_words()
    texts = load_call_texts([Call.objects.get(external_id=f"toolu_1{SESSION}").pk], ["canonical"]).popitem()[1]
    assert (texts["canonical"].searched, texts["canonical"].total, texts["canonical"].is_partial) == (10, 40, True)
