"""A project's own masking rules: tried on recorded data, saved, switched, applied wherever its text is shown."""

from __future__ import annotations

import io
import json
import logging
from itertools import accumulate
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.ingest.importer import import_paths
from dashboard.middleware import OneLineFormatter
from dashboard.models import Artifact, AuditEntry, Call, Project, Run
from dashboard.project_rules import RuleDraft, RuleRefused, as_rule, load_rules, save_rule, switch_rule
from dashboard.rule_trials import try_rule
from dashboard.text.clean_text import MaskSpan
from dashboard.text.find_secrets import NOT_SEARCHED, PIECE, RuleSet, with_all_letters
from dashboard.text.masking_rules import RULES, KeyRule, MaskingRule, PatternRule
from dashboard.text.masks import COMPILED, HIDDEN, Masks, apply_masks
from dashboard.worker import work_until_idle
from envelopes.text.deadline import NO_DEADLINE, Deadline
from tests.cases import each
from tests.dashboard.factories import create_project
from tests.dashboard.page_text import parse_page
from tests.dashboard.sessions import answers, asks, user, write
from tests.dashboard.stored_artifacts import stored
from tests.dashboard.test_masking import addresses, digest

NUMBER, BADGE = "EMP-004711", "tango-8"
OUTPUT = f'employee {NUMBER} came in\n{{"badge_code": "{BADGE}", "badge_code_count": 3}}\nbadge-code: {BADGE}'
RECORDED = ("run-list", "run-detail", "run-context", "call-", "artifact-", "problem-", "audit-", "tool-")
PATTERN = {"name": "employee-number", "pattern": "EMP-[0-9]{6}"}
KEYS = {"name": "badge", "keys": "badge_code"}


@pytest.fixture
def store(project: Project, tmp_path: Path, alice: object, settings: Settings) -> Run:
    settings.ARTIFACTS = tmp_path / "artifacts"
    lines = [
        user(f"who is {NUMBER}?", uuid="u1"),
        asks("toolu_01", "Bash", {"command": f"lookup {NUMBER}", "description": f"Look {NUMBER} up"}),
        answers("toolu_01", OUTPUT, {"stdout": OUTPUT, "stderr": "", "interrupted": False, "isImage": False}),
    ]
    import_paths(project, [write(tmp_path / f"{NUMBER}.jsonl", lines)])
    stored(Call.objects.get(), OUTPUT.encode(), path=f"/logs/{NUMBER}.txt")
    return Run.objects.get()


def shown_at(client: Client, run: Run, *secrets: str) -> dict[str, list[str]]:
    """The secrets that each address with recorded text shows; test_masking.py opens every address."""
    shown = {}
    for name, address in addresses(run):
        if not name.startswith(RECORDED):
            continue
        response = client.get(address)
        assert response.status_code < 500, name
        body = b"".join(response.streaming_content) if response.streaming else response.content
        text = body.decode("utf-8", "replace") + " ".join(response.headers.values())
        if leaks := [secret for secret in secrets if secret in text]:
            shown[address] = leaks
    return shown


def test_a_rule_is_tried_on_recorded_data_and_then_masks_it_everywhere(
    store: Run, project: Project, client: Client, tmp_path: Path
) -> None:
    for draft, places in ((PATTERN, 6), (KEYS, 6)):
        trial = parse_page(client.post("/masking/", draft)).select_one("[data-trial]")
        assert trial.texts("strong") == [str(places), "1"]
        assert "Read: all 1 run." in trial.text
        assert not project.masking_rules.filter(name=draft["name"]).exists()
        example = trial.select_one(".excerpt")
        assert not {NUMBER, BADGE} & set(example.text.split())
        assert "*" in example.select_one(".masked").text
        assert client.post("/masking/", draft | {"do": "save"}).url == "/masking/"
    assert shown_at(client, store, NUMBER, BADGE) == {}
    client.post("/masking/badge/", {"do": "off"})
    assert BADGE in parse_page(client.get(f"/calls/{Call.objects.get().pk}/")).text
    client.post("/masking/badge/", {"do": "on"})
    page = parse_page(client.get(f"/calls/{Call.objects.get().pk}/"))
    assert {"employee-number", "badge"} <= set(page.texts("[data-masked-note] b"))
    assert '"badge_code_count": 3' in page.text
    call_command("export_run", str(store.pk), str(tmp_path / "masked"), "--masked", stdout=io.StringIO())
    files = [path.read_text("utf-8") for path in (tmp_path / "masked").rglob("*") if path.is_file()]
    assert files
    assert not any(secret in text for text in files for secret in (NUMBER, BADGE))
    record = logging.LogRecord("dashboard", logging.ERROR, __file__, 1, "no %s, %s", (NUMBER, OUTPUT), None)
    line = OneLineFormatter("%(message)s").format(record)
    assert not any(secret in line for secret in (NUMBER, BADGE))


@pytest.mark.postgresql
def test_a_rule_is_switched_off_and_on_and_deleted_and_the_audit_log_has_it(store: Run, client: Client) -> None:
    call = f"/calls/{Call.objects.get().pk}/raw/receipt"
    client.post("/masking/", PATTERN | {"do": "save"})
    assert NUMBER not in client.get(call).content.decode()
    for name, do, is_shown in (
        ("employee-number", "off", True),
        ("employee-number", "on", False),
        ("employee-number", "delete", True),
        ("password", "off", True),
        ("password", "on", True),
    ):
        client.post(f"/masking/{name}/", {"do": do})
        assert (NUMBER in client.get(call).content.decode()) == is_shown, (name, do)
    subjects = list(AuditEntry.objects.filter(action="setting").order_by("pk").values_list("subject", flat=True))
    assert subjects == [
        "masking rule employee-number added, by a pattern",
        "masking rule employee-number switched off",
        "masking rule employee-number switched on",
        "masking rule employee-number deleted",
        "masking rule password switched off",
        "masking rule password switched on",
    ]
    assert client.post("/masking/password/", {"do": "delete"}).status_code == 404
    assert client.post("/masking/nothing/", {"do": "off"}).status_code == 404


@pytest.mark.postgresql
def test_a_built_in_rule_that_is_switched_off_masks_nothing_in_this_project_alone(
    project: Project, store: Run, client: Client
) -> None:
    switch_rule(project, "password", is_off=True)
    text = "password=hunter2-a token=at-99f8e7d6"
    assert [span.rule for span in load_rules(project).find(text)] == ["token"]
    assert [span.rule for span in load_rules(create_project("other")).find(text)] == ["password", "token"]
    (row,) = parse_page(client.get("/masking/")).select("tr[data-rule=password]")
    assert row.texts(".badge") == ["off"]
    counted = parse_page(client.post("/masking/password/")).select_one("[data-trial]")
    assert "It matches nothing." in counted.text


def test_the_rules_of_a_project_are_read_once_in_a_process(
    project: Project, store: Run, django_assert_num_queries: DjangoAssertNumQueries, alice: Any
) -> None:
    save_rule(project, RuleDraft(**PATTERN), alice)
    rules = load_rules(project)
    with django_assert_num_queries(0):
        assert load_rules(Project(pk=project.pk, masking_stamp=project.masking_stamp)) is rules
    switch_rule(project, "employee-number", is_off=True)
    assert load_rules(project).find(NUMBER) == []


REFUSED = [
    ({"name": "Bad Name", "keys": "a_b"}, "name", "lower-case letters"),
    ({"name": "password", "keys": "a_b"}, "name", "built-in rule has this name"),
    ({"name": "taken", "keys": "a_b"}, "name", "has a rule of this name"),
    ({"name": "none"}, "keys", "either names of keys or a pattern"),
    ({"name": "both", "keys": "a_b", "pattern": "a"}, "keys", "either names of keys or a pattern"),
    ({"name": "signs", "keys": "a_b, x|y"}, "keys", "begins and ends with no sign"),
    ({"name": "many", "keys": " ".join(f"key{n}" for n in range(51))}, "keys", "at most 50 names"),
    ({"name": "long", "pattern": "a" * 501}, "pattern", "501 characters"),
    ({"name": "unseen", "pattern": "a\u200bb"}, "pattern", "visible characters only"),
    ({"name": "nul", "pattern": "a\0b"}, "pattern", "visible characters only"),
    ({"name": "word", "keys": "ключ…"}, "keys", "begins and ends with no sign"),
    ({"name": "ahead", "pattern": "(?=a)b"}, "pattern", "tests the text around"),
    ({"name": "counts", "pattern": "((((a{9}){9}){9}){9}){9}"}, "pattern", "too"),
    ({"name": "large", "pattern": "[a-z]{900}[0-9]{900}"}, "pattern", "too large"),
    ({"name": "empty", "pattern": "a*"}, "pattern", "matches the empty text"),
]


def test_a_rule_that_cannot_be_used_is_refused_beside_its_field(project: Project, client: Client, alice: Any) -> None:
    save_rule(project, RuleDraft("taken", keys="a_b"), alice)
    for form, field, reason in REFUSED:
        response = client.post("/masking/", form | {"do": "save"})
        page = parse_page(response)
        assert response.status_code == 422, form
        assert reason in page.select_one("[role=alert]").text, form
        (invalid,) = page.select("[aria-invalid=true]")
        assert invalid["name"] == field, form
    assert project.masking_rules.count() == 1
    for n in range(49 + len(RULES)):
        project.masking_rules.create(name=f"rule-{n}", keys="x_y")
    with pytest.raises(RuleRefused, match="limit"):
        save_rule(project, RuleDraft("more", keys="a_b"), alice)


def rule(**fields: str) -> MaskingRule:
    return as_rule(RuleDraft("own", **fields).build(Project()))


ESCAPED = r'{"\u043f\u0430\u0440\u043e\u043b\u044c": "*000000*"}'
# Keys or a pattern of a rule, a text, and the text masked by it and the built-in rules.
OWN = [
    ({"keys": "employee_id"}, '{"employeeId": "x"}', '{"employeeId": "*"}'),
    ({"keys": "employee_id"}, "EMPLOYEE-ID=smith employee.id: 42", "EMPLOYEE-ID=***** employee.id: **"),
    ({"keys": "employee_id"}, '{"employee_id": 42, "n": 1}', '{"employee_id": "", "n": 1}'),
    ({"keys": "employee_id"}, '{"employee_id": -12.5, "n": 1}', '{"employee_id": "***", "n": 1}'),
    ({"keys": "employee_id"}, '{"employee_id": null, "x": true}', '{"employee_id": null, "x": true}'),
    ({"keys": "employee_id"}, "employee_id_count: 100, employee_ids: ab", "employee_id_count: 100, employee_ids: ab"),
    ({"keys": "employee_id"}, '"employee_id": "a b, c"', '"employee_id": "******"'),
    ({"keys": "pass-no"}, "--pass-no smith", "--pass-no *****"),
    # No own rule hides a place from a built-in one:
    ({"keys": "pa"}, "password=hunter2", "password=*******"),
    ({"keys": "mypass"}, "mypassword=hunter2", "mypassword=*******"),
    ({"keys": "auth_token_count"}, "auth_token_count=1234", "auth_token_count=****"),
    ({"pattern": "EMP-[0-9]{6}"}, "ä EMP-123456 \x1b[1mEMP\x1b[0m-123456", "ä *000000*** \x1b[1m***\x1b[0m*******"),
    ({"pattern": "(?i)^badge .+$"}, "a\nBadge 7\nb", "a\n*******\nb"),
    ({"pattern": "[a-z]{2}[0-9]"}, r'"\u0061b1 ab1"', r'"*000000* ***"'),
    ({"pattern": "hunter.+"}, "password=hunter2 now", "password=*000000****"),
    # Letters of every script, in names, patterns and values:
    ({"keys": "пароль"}, 'пароль: ключ1 "МойПароль": "x y" паролька=1', 'пароль: ***** "МойПароль": "***" паролька=1'),
    ({"keys": "код_входа"}, "КодВхода=123 --код-входа 77", "КодВхода=*** --код-входа **"),
    ({"keys": "पासवर्ड"}, '{"पासवर्ड": "गुप्त"}', '{"पासवर्ड": "*****"}'),
    ({"keys": "пароль"}, r'{"\u043f\u0430\u0440\u043e\u043b\u044c": "\u0436 2"}', ESCAPED),
    ({"pattern": "ПОЛ-[0-9]{3}"}, "é ПОЛ-123 ПОЛ-4 \x1b[1mПОЛ\x1b[0m-456", "é ******* ПОЛ-4 \x1b[1m***\x1b[0m****"),
    ({"pattern": r"N-\w{2}[\w-]*"}, "x N-жук-é, N-a", "x *******, N-a"),
    ({"pattern": r"(?i)straße \w+"}, "é STRAßE Ünü 5", "é *000000*** 5"),
    ({"keys": "pa"}, "x://app:Секрет9@h/ pass\u200bword=hunter2", "x://app:*******@h/ pass\u200bword=*******"),
    ({"keys": "pa"}, "password_имя=hunter2 password=Секрет\u00a07", "password_имя=******* password=*000000*"),
]


@each(("fields", "text", "masked"), OWN)
def test_an_own_rule_masks(fields: dict[str, str], text: str, masked: str) -> None:
    """A text, and the same places of its bytes, as a download has them."""
    rules = RuleSet(RULES, [rule(**fields)])
    spans = rules.find(text)
    assert apply_masks(text, spans, digest) == masked
    assert rules.may_mask(text) or not spans
    units = text.encode().decode("latin-1")
    lengths = [0, *accumulate(len(letter.encode()) for letter in text)]
    places = [(lengths[span.start], lengths[span.end]) for span in spans]
    assert [(span.start, span.end) for span in rules.find(units, is_bytes=True)] == places


@each(
    ("pattern", "expected"),
    [
        (r"\w+", r"[\w\x{80}-\x{10ffff}]+"),
        (r"[^\w-]\W", r"[^\w\x{80}-\x{10ffff}-]\W"),
        (r"[][:digit:]\w[]\w\\w", r"[][:digit:]\w\x{80}-\x{10ffff}[][\w\x{80}-\x{10ffff}]\\w"),
        (r"\Q\w\E\[\w", r"\Q\w\E\[[\w\x{80}-\x{10ffff}]"),
    ],
)
def test_a_word_of_a_pattern_has_all_letters(pattern: str, expected: str) -> None:
    assert with_all_letters(pattern) == expected


def test_a_match_is_masked_wherever_it_is_in_a_long_text() -> None:
    rules = RuleSet(RULES, [rule(pattern="EMP-[0-9]{6}"), rule(keys="badge")])
    for filler in ("x", "x\n", "é"):
        for offset in range(PIECE - 40, PIECE + 40, 7):
            text = (filler * PIECE)[:offset] + " EMP-123456 badge=abcdef password=hunter2 " + (filler * PIECE)[:PIECE]
            assert [(text[span.start : span.end], span.rule) for span in rules.find(text)] == [
                ("EMP-123456", "own"),
                ("abcdef", "own"),
                ("hunter2", "password"),
            ], (filler, offset)


# Texts in which each character may begin a secret, and rules that are slow on them.
SLOW: dict[str, tuple[str, list[MaskingRule]]] = {
    "references": ("password=$password=$" * 40_000, []),
    "keys": ("-----BEGIN RSA PRIVATE KEY-----" * 30_000, []),
    "colours": ("\x1b[1m" * 200_000, []),
    "all": ("a" * 400_000, [PatternRule("own", "", ".")]),
    "any": ("k: v, " * 100_000, [KeyRule("own", "", "k", masks_any=True)]),
}


@each("name", SLOW)
def test_masking_stops_at_its_time_budget_and_hides_the_rest(name: str) -> None:
    text, own = SLOW[name]
    masks = Masks(RuleSet(RULES, own), seconds=0.02)
    began = thread_time()
    masked = masks.mask(text)
    assert thread_time() - began < 1.0
    assert len(masked) == len(text)
    assert masks.hidden > 0
    assert HIDDEN in masked
    assert set(masked[masked.index(HIDDEN) + len(HIDDEN) :]) == {"*"}
    hidden = masks.hidden
    masks.renew()
    masks.mask("password=hunter2")
    assert masks.hidden == hidden


def test_a_hidden_rest_begins_where_the_last_mask_ends() -> None:
    spans = [MaskSpan(0, 4, "own"), MaskSpan(6, 9, NOT_SEARCHED)]
    assert apply_masks("abcd-\nsecret", spans, digest) == "****-\n***ret"


def test_a_page_that_is_not_searched_in_time_says_so_and_shows_none_of_it(
    store: Run, client: Client, settings: Settings
) -> None:
    artifact = stored(Call.objects.get(), b"password=$" * 60_000)
    client.post("/masking/", PATTERN | {"do": "save"})
    settings.MASK_SECONDS = 0.0
    page = parse_page(client.get(f"/calls/{Call.objects.get().pk}/"))
    note = page.select_one("[data-masked-note]").text
    assert "characters are hidden: looking for secrets in them took longer than the time limit" in note
    assert NUMBER not in page.select_one("main").text
    assert HIDDEN in page.text
    assert all(link["href"].startswith("/static/") for link in page.select("link"))
    document = client.get(f"/calls/{Call.objects.get().pk}/?as=json")
    assert document.status_code == 503
    assert json.loads(document.content) == {"error": HIDDEN}
    file = b"".join(client.get(f"/artifacts/{artifact.pk}/raw").streaming_content)
    assert len(file) == 600_000
    assert b"password" not in file


def test_a_trial_stops_at_its_deadline_and_says_how_far_it_came(
    project: Project, client: Client, alice: Any, tmp_path: Path, settings: Settings
) -> None:
    for number in range(3):
        lines = [user(f"{NUMBER} " * 5_000, uuid=f"u{number}", session=f"session-{number}")]
        import_paths(project, [write(tmp_path / f"{number}.jsonl", lines)])
    employee = rule(pattern="EMP-[0-9]{6}")
    whole = try_rule(project, employee, NO_DEADLINE)
    assert (whole.places, whole.runs, whole.searched, whole.total, whole.is_whole) == (15_000, 3, 3, 3, True)
    part = try_rule(project, employee, Deadline(0.0))
    assert (part.searched, part.total, part.is_whole) == (1, 3, False)
    assert part.places < whole.places
    settings.ANSWER_SECONDS = 0.0
    text = parse_page(client.post("/masking/", PATTERN)).select_one("[data-trial]").text
    assert "Stopped after 0.0 s: read are the newest 1 of 3 runs, the last one in part" in text


@pytest.mark.postgresql
def test_a_trial_counts_what_is_masked_already(project: Project, store: Run, alice: Any) -> None:
    save_rule(project, RuleDraft(**PATTERN), alice)
    trial = try_rule(project, rule(pattern="EMP-[0-9]{3}|came"), NO_DEADLINE)
    assert (trial.places, trial.masked_already) == (9, 6)


def test_the_page_says_when_masking_is_off_for_the_server(store: Run, client: Client, settings: Settings) -> None:
    settings.MASK = False
    notice = parse_page(client.get("/masking/")).select_one("main .notice")
    assert "COUNTERFOIL_MASK=off" in notice.text


def test_a_trial_reads_the_files_of_artifacts(project: Project, store: Run, client: Client) -> None:
    """A place on the edge of two pieces counts once; a file that is gone is named."""
    call = Call.objects.get()
    text = "é" * (PIECE // 2 - 4) + f" имя {NUMBER} " + "x" * PIECE + f" {NUMBER}"
    artifact = stored(call, text.encode(), path="/srv/log.txt")
    before = try_rule(project, rule(pattern="имя EMP-[0-9]{6}|EMP-[0-9]{6}$"), NO_DEADLINE)
    assert (before.places, before.runs, before.unread, before.is_whole) == (2, 1, 0, True)
    [example] = before.examples
    assert (example.call, example.where) == (call.pk, "artifact /srv/log.txt")
    assert example.before == "é" * 23 + " "
    assert NUMBER not in example.mask + example.after
    Artifact.objects.filter(pk=artifact.pk).update(sha256="0" * 64)
    trial = parse_page(client.post("/masking/", {"name": "gone", "pattern": "имя"})).select_one("[data-trial]").text
    assert "It matches nothing" in trial
    assert "1 file of artifacts could not be read" in trial


@pytest.mark.postgresql
def test_the_log_of_a_background_process_is_masked_by_the_rules_of_every_project(project: Project, alice: Any) -> None:
    save_rule(project, RuleDraft(**PATTERN), alice)
    record = logging.LogRecord("dashboard", logging.ERROR, __file__, 1, "no %s", (NUMBER,), None)
    for work in (lambda: work_until_idle(), lambda: import_paths(project, [])):
        COMPILED.clear()
        assert NUMBER in OneLineFormatter("%(message)s").format(record)
        work()
        assert NUMBER not in OneLineFormatter("%(message)s").format(record)
