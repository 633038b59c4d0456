"""Secrets are masked wherever recorded text is shown: forty of them, in every place, at every address."""

from __future__ import annotations

import base64
import html
import io
import json
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from dashboard.ingest.importer import import_paths
from dashboard.middleware import OneLineFormatter
from dashboard.models import Artifact, AuditEntry, Call, Membership, Problem, Project, Run
from dashboard.text.find_secrets import RuleSet
from dashboard.text.masking_rules import RULES, KeyRule
from dashboard.text.masks import apply_masks
from envelopes.text.credentials import SHAPES, redact
from tests.dashboard.factories import create_call, create_project, create_run
from tests.dashboard.page_text import parse_page
from tests.dashboard.recorded_calls import bash
from tests.dashboard.sessions import answers, asks, user, write
from tests.dashboard.stored_artifacts import stored
from tests.dashboard.test_middleware import OPEN, SAMPLES, patterns

KEY_BODY = "MIIEowIBAAKCAQEAx7Zq3nB5m0Kc\nW9dT4sYp2vXhLqRfUeJgNaOiSkEb\n8tHw1yCzMlPrVuGdFoQx=="
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
BASIC = base64.b64encode(b"admin:Tr0ub4dor").decode()
GITHUB = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
# The text, and what of it nobody may read.
SECRETS = [
    ("password=hunter2-a", "hunter2-a"),
    ("DB_PASSWORD=letmeinplease", "letmeinplease"),
    ('"password": "correct horse 9"', "correct horse 9"),
    ("passwd: s3cr3t-b", "s3cr3t-b"),
    ("--password opensesame1", "opensesame1"),
    ('["--token", "tok-list-77"]', "tok-list-77"),
    ('{"name": "API_PASSWORD", "value": "named-value-8"}', "named-value-8"),
    ("<password>element-pass-9</password>", "element-pass-9"),
    ("client_secret='cs-1f2e3d4c'", "cs-1f2e3d4c"),
    ("access_token=at-99f8e7d6", "at-99f8e7d6"),
    ('"refreshToken": "rt-55aa66bb"', "rt-55aa66bb"),
    ("api_key: k-1234-abcd", "k-1234-abcd"),
    ("X-Api-Key: xk-7777-zzzz", "xk-7777-zzzz"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI/K7MDENG"),
    ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"),
    ("ASIAJEXAMPLEXEG2JICEA", "JEXAMPLEXEG2"),
    ("Authorization: Bearer mF_9.B5f-4.1JqM", "mF_9.B5f-4.1JqM"),
    (f"Authorization: Basic {BASIC}", BASIC),
    ('"authorization": "plain-auth-4711"', "plain-auth-4711"),
    ("Cookie: session=c00kie-monster; theme=dark", "c00kie-monster"),
    ("Set-Cookie: sid=31d4d96e407aad42; Path=/", "31d4d96e407aad42"),
    (JWT, "eyJzdWIiOiIxMjM0NTY3ODkwIn0"),
    (GITHUB, "c3D4e5F6g7H8i9"),
    ("github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz", "0abcdefghijkl_mnop"),
    ("glpat-AbCdEfGhIjKlMnOpQrSt", "AbCdEfGhIjKlMnOp"),
    ("xoxb-123456789012-abcdefABCDEF", "123456789012-abcdef"),
    ("https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXX1234", "B00000000/XXXX"),
    ("sk-ant-api03-QwErTyUiOpAsDfGhJkLzXcVbNm1234567890", "QwErTyUiOpAsDf"),
    ("sk-proj-4f5g6h7j8k9l0q1w2e3r4t5y", "4f5g6h7j8k9l"),
    ("AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "SyD-9tSrke72Pou"),
    ("ya29.a0AfH6SMBx-yz_1234567890", "a0AfH6SMBx-yz"),
    ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "4eC39HqLyjWDar"),
    ("SG.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf-09kqeF8tAmbihYzrnopKc", "ngeVfQFYQlKU0ufo"),
    ("npm_1234567890abcdefghijABCDEFGHIJ1234", "1234567890abcdefghij"),
    ("hf_AbCdEfGhIjKlMnOpQrStUvWxYz123456", "AbCdEfGhIjKlMnOpQr"),
    ("postgres://app:pg-p4ss!word@db.internal/app", "pg-p4ss!word"),
    ("Server=db;Password=ado-9911;User=sa", "ado-9911"),
    ("4111 1111 1111 1111", "4111 1111 1111 1111"),
    (f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_BODY}\n-----END RSA PRIVATE KEY-----", "W9dT4sYp2vXhLqRfUeJgNaOiSkEb"),
    ("\x1b[1mgh\x1b[0mp_z9Y8x7W6v5U4\x1b[31mt3S2r1Q0p9O8n7M6l5K4j3I2\x1b[0m", "t3S2r1Q0p9O8n7M6l5K4j3I2"),
]
SESSIONS = Path("dashboard/samples")
MOST_MASKED = 0.01
ALL = "\n".join(text for text, _ in SECRETS)
READABLE = [*(secret for _, secret in SECRETS), "structured-pw-1"]


def digest(_secret: str, _rule: str) -> str:
    return "0" * 6


def readable(body: str) -> list[str]:
    """The secrets that a reader of the page, its source, its links or its JSON gets."""
    text = re.sub("<[^>]*>", "", body)
    forms = [body, text, html.unescape(text), html.unescape(unquote(body)), body.replace("\\/", "/")]
    return [secret for secret in READABLE if any(secret in form for form in forms)]


def test_each_secret_of_the_table_is_masked_by_itself_and_in_json() -> None:
    rules = RuleSet(RULES)
    assert len(SECRETS) == 40
    for text, secret in SECRETS:
        for form, hidden in ((text, secret), (json.dumps({"output": f"a\n{text}\nb"}), json.dumps(secret)[1:-1])):
            masked = apply_masks(form, rules.find(form), digest)
            assert hidden not in masked, form
            assert len(masked) == len(form)
            assert masked.count("\n") == form.count("\n")
            if form is not text:
                json.loads(masked)
        for end in range(len(text)):  # a title is cut anywhere
            document = json.dumps({"title": text[:end], "next": [4111111111111111, "x"]})
            spans = rules.find(document)
            assert rules.may_mask(document) or not spans
            json.loads(apply_masks(document, spans, digest))


def test_the_first_look_at_a_text_passes_over_none_that_a_rule_masks() -> None:
    """Every way in which a key and its value may stand, and numbers, addresses and keys among letters and signs."""
    rules = RuleSet()
    keys = ("password", "API_KEY", "refreshToken", "db_pass", "X-Auth-x9", "--token", 'n "secret', "[`cookie`]")
    signs = (
        "=",
        ": ",
        ' "=>"',
        "' := '",
        '\\": \\"',
        '", "value": "',
        '", ',
        " ",
        "\t",
        '",\n"value":"',
        ">",
        "'] = '",
    )
    texts = [f"{before}{key}{sign}a=hunter-2-b" for before in ("", "<x ") for key in keys for sign in signs]
    for shape in ("4111-1111-1111-1111", "378282246310005", "sk-" + "a1é-" * 5, "x://u\u2003é:p,w@h", "ftp://:pw@h/"):
        texts += [
            f"{before}{shape}{after}" for before in ("", "\\n", "é", "é ", "x=", "-") for after in ("", " x", "1")
        ]
    masked = [text for text in texts if rules.find(text)]
    assert len(masked) > len(texts) / 3
    assert [text for text in masked if not rules.may_mask(text)] == []


def test_pages_previews_and_lint_use_one_list_of_shapes() -> None:
    shapes = [rule for rule in RULES if not isinstance(rule, KeyRule)]
    assert shapes == list(SHAPES)
    for text, secret in SECRETS:
        rules = {span.rule for span in RuleSet(SHAPES).find(text)}
        if rules and "\x1b" not in text:
            assert secret not in redact(text), rules


def test_few_ordinary_outputs_are_masked() -> None:
    """Texts of the bundled sessions: source code, listings, test output; a few of them do contain key=value pairs."""
    outputs = [text for path in sorted(SESSIONS.rglob("*.jsonl")) for text in long_texts(path)]
    rules = RuleSet(RULES)
    masked = [text for text in outputs if rules.find(text)]
    searched = {text for text in outputs if rules.may_mask(text)}
    print(
        f"\nmasked: {len(masked)} of {len(outputs)} outputs, {len(masked) / len(outputs):.2%}; {len(searched)} searched"
    )
    assert searched.issuperset(masked)
    assert len(outputs) >= 1_000
    assert len(masked) / len(outputs) <= MOST_MASKED


def long_texts(path: Path) -> Iterator[str]:
    documents = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    while documents:
        value = documents.pop()
        if isinstance(value, str) and len(value) >= 80:
            yield value
        elif isinstance(value, dict | list):
            documents += value.values() if isinstance(value, dict) else value


@pytest.fixture
def store(project: Project, tmp_path: Path, alice: object) -> Run:
    return build_store(project, tmp_path)


def build_store(project: Project, tmp_path: Path) -> Run:
    """One run whose arguments, result, receipt, messages, title, events, artifact and file names hold all secrets."""
    output = {"stdout": ALL, "stderr": ALL, "interrupted": False, "isImage": False}
    numbered = "\n".join(f"{number:6}→{line}" for number, line in enumerate(ALL.split("\n"), 1))
    lines = [
        user(f"deploy with {ALL}", uuid="u1"),
        asks("toolu_01", "Bash", {"command": f"deploy <<EOF\n{ALL}\nEOF", "description": ALL}),
        answers("toolu_01", ALL, output),
        asks("toolu_02", "Read", {"file_path": f"/home/{GITHUB}/password=hunter2-a"}, step="msg_2"),
        answers("toolu_02", numbered, None, is_error=True),
        asks("toolu_03", "mcp__vault__put", {"password": "structured-pw-1", "note": ALL}, step="msg_3"),
        answers("toolu_03", [{"type": "text", "text": ALL}], {"content": [{"type": "text", "text": ALL}]}),
        b'{"type": "user", "message": ' + json.dumps(ALL).encode(),
    ]
    import_paths(project, [write(tmp_path / f"{GITHUB}.jsonl", lines)])
    stored(Call.objects.get(external_id="toolu_01"), ALL.encode(), path=f"/home/{GITHUB}/log.txt")
    return Run.objects.get()


def addresses(run: Run) -> Iterator[tuple[str, str]]:
    """Name and address of every page and file, with the objects of the run in the place of its parameters."""
    objects: dict[str, Iterable[Any]] = {
        "runs/<uuid:pk>": [run.pk],
        "calls/<uuid:pk>": Call.objects.values_list("pk", flat=True),
        "artifacts/<uuid:pk>": Artifact.objects.values_list("pk", flat=True)[:1],
        "problems/<int:pk>": Problem.objects.values_list("pk", flat=True)[:1],
        "tools/<str:name>": Call.objects.values_list("tool", flat=True),
        "/<str:half>/": ["canonical", "envelope", "recorded", "receipt", "args"],
        "/<str:surface>": ["args", "result", "receipt", "canonical"],
    }
    for pattern in patterns():
        routes = [str(pattern.pattern)]
        if pattern.name in OPEN or "delete" in routes[0]:
            continue
        route = routes[0]
        for part, values in objects.items():
            before, _, after = part.partition("<")
            if part in route:
                routes = [
                    route.replace(part, f"{before}{value}{after.partition('>')[2]}")
                    for route in routes
                    for value in values
                ]
        for route in routes:
            for query in ["", *QUERIES.get(str(pattern.name), [])]:
                yield str(pattern.name), f"/{re.sub('<.*?>', SAMPLES['str'], route)}{query}"


# Windows and forms of the main pages, by the names of their addresses.
QUERIES = {
    "call-detail": ["?as=text", "?as=json", "?what=receipt&as=text", "?left=recorded", "?left=envelope", "?spaces=1"],
    "call-half": ["?offset=9", "?offset=1500"],
    "artifact-detail": ["?as=hex", "?as=ansi", "?line=20", "?offset=1200", "?q=password", "?tail"],
    "artifact-find": ["?q=ghp_", "?q=hunter", "?q=eyJ&any_case=1"],
    "call-list": ["?q=any%3Astructured", "?q=any%3Ahunter"],
    "call-found": ["?find=structured", "?find=hunter"],
}


@pytest.mark.extended
def test_no_address_shows_a_secret_of_the_store(store: Run, client: Client) -> None:
    answered, shown = set(), {}
    wanted = [(name, address, accept) for name, address in addresses(store) for accept in ("*/*", "application/json")]
    for name, address, accept in wanted:
        response = client.get(address, headers={"Accept": accept})
        body = b"".join(response.streaming_content) if response.streaming else response.content
        assert response.status_code < 500
        if response.status_code == 200:
            answered.add(name)
        if leaks := readable(body.decode("utf-8", "replace") + " ".join(response.headers.values())):
            shown[f"{address} as {accept}"] = leaks
    assert not shown
    assert {
        "run-detail",
        "run-context",
        "call-detail",
        "call-raw",
        "artifact-raw",
        "artifact-find",
        "problem-raw",
    } <= answered


def test_equal_secrets_have_equal_masks_and_the_page_names_the_rules(store: Run, client: Client) -> None:
    page = parse_page(client.get(f"/calls/{Call.objects.get(external_id='toolu_01').pk}/"))
    note = page.select_one("[data-masked-note]")
    assert "by rule github-token" in note.text
    titles = {mask["title"].partition(":")[0] for mask in page.select(".masked")}
    assert {"Masked by rule jwt", "Masked by rule private-key"} <= titles
    assert "no secrets" not in page.select_one("body").text.lower()
    names = {mask["title"] for mask in page.select(".masked") if "rule jwt" in mask["title"]}
    assert len(names) == 1  # in the arguments, the result and the receipt
    keys = {mask["title"] for mask in page.select(".masked") if "rule private-key" in mask["title"]}
    assert len(keys) == 1
    # In a title, which is masked once, as in the receipt, which is masked before it is cut and with the page.
    passwords = [text for text in page.text.split() if text.startswith("password=*")]
    assert len(passwords) >= 3
    assert {text[: len("password=*") + 6] for text in passwords} == {passwords[0][: len("password=*") + 6]}


def test_masks_in_the_list_of_steps_are_not_counted_as_those_of_the_open_step(
    project: Project, client: Client, alice: User
) -> None:
    run = create_run(project, call_count=2)
    create_call(run, line=1, args={"command": f"deploy {GITHUB}"}, receipt="done")
    create_call(run, line=2, args={"command": "ls"}, receipt="a.txt")
    notes = [parse_page(client.get(f"/runs/{run.pk}/{step}/halves")).select_one("[data-masked-note]") for step in "12"]
    listed = "Masked in the list of steps: 1 by rule github-token."
    assert listed in notes[0].text
    assert notes[0].text.startswith("Masked on this page: ")
    assert notes[1].text.startswith(listed)


@pytest.mark.postgresql
def test_an_operator_reveals_a_page_until_it_is_left_and_the_audit_log_has_it(store: Run, client: Client) -> None:
    call, artifact = Call.objects.get(external_id="toolu_01"), Artifact.objects.get(role="log")
    form = parse_page(client.get(f"/calls/{call.pk}/?spaces=1")).select_one("[data-masked-note] form")
    step = f"/runs/{call.run_id}/1/halves"
    assert form["action"] == f"{step}/reveal/?spaces=1"
    revealed = client.post(form["action"])
    assert {"hunter2-a", "k-1234-abcd"} <= set(readable(revealed.content.decode()))
    assert parse_page(revealed).select_one("[data-revealed-note]").text.startswith("Secrets are shown")
    assert client.get(form["action"]).url == f"{step}?spaces=1"
    assert readable(client.get(f"/calls/{call.pk}/").content.decode()) == []
    file = client.post(f"/artifacts/{artifact.pk}/reveal/", {"download": "1"})
    assert b"".join(file.streaming_content) == ALL.encode()
    subjects = [f"download of artifact log ({artifact.pk})", f"call toolu_01 ({call.pk})"]
    rows = parse_page(client.get("/audit/")).rows("tbody tr")
    assert [row[1:2] + row[3:] for row in rows] == [["alice", "reveal", subject] for subject in subjects]
    lines = client.get("/audit/export/jsonl").content.decode().splitlines()
    assert [json.loads(line)["subject"] for line in lines] == subjects
    assert client.get("/audit/export/csv").content.decode().count("alice,127.0.0.1,reveal") == 2
    Membership.objects.update(role="viewer")
    assert client.post(form["action"]).status_code == 403
    assert not parse_page(client.get(f"/calls/{call.pk}/")).has("[data-masked-note] form")
    entry = AuditEntry.objects.latest("pk")
    for change in (
        entry.save,
        entry.delete,
        AuditEntry.objects.all().delete,
        lambda: AuditEntry.objects.update(person="x"),
    ):
        with pytest.raises(TypeError):
            change()


@pytest.mark.postgresql
def test_a_masked_export_has_no_secret_and_is_read_again(store: Run, project: Project, tmp_path: Path) -> None:
    call_command("export_run", str(store.pk), str(tmp_path / "masked"), "--masked", stdout=io.StringIO())
    files = [path for path in (tmp_path / "masked").rglob("*") if path.is_file()]
    assert [path.name for path in files if readable(path.read_text("utf-8", "replace"))] == []
    assert import_paths(create_project("copy"), [tmp_path / "masked"]).problems == []
    assert AuditEntry.objects.get(project=project).subject == f"run {store.external_id}, masked"


def test_the_switch_shows_everything(store: Run, client: Client, settings: Any) -> None:
    settings.MASK = False
    call = Call.objects.get(external_id="toolu_01")
    assert set(readable(client.get(f"/calls/{call.pk}/raw/receipt").content.decode())) > {"hunter2-a", "k-1234-abcd"}
    assert not parse_page(client.get(f"/calls/{call.pk}/")).has(".masked")


PAGES = ("/runs/", "/calls/", "/calls/{0}/?left=recorded", "/runs/{1}/", "/runs/{1}/context", "/runs/{1}/1/context")


@pytest.mark.parametrize("address", PAGES)
def test_nothing_that_a_page_says_itself_looks_like_a_secret(
    client: Client, project: Project, alice: object, address: str
) -> None:
    """Else each page would be searched twice: for what may be a secret, and then for what is one."""
    call = bash(create_run(project, title="Fix the login"), "hello\n")
    page = parse_page(client.get(address.format(call.pk, call.run_id), follow=True))
    assert page.has("tbody tr, .half, [data-item], .history")
    named = ("title", "aria-label", "placeholder", "value", "alt")
    # The token against forgery is drawn by chance: one in 200 has letters that a shape of secrets begins with.
    drawn = ":not([name=csrfmiddlewaretoken])"
    texts = [page.exact, *(element[name] for name in named for element in page.select(f"[{name}]{drawn}"))]
    assert [text for text in texts if RuleSet().may_mask(text)] == []


def test_no_log_line_and_no_traceback_has_a_secret() -> None:
    try:
        raise ValueError(ALL)
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("dashboard", logging.ERROR, __file__, 1, "failed on %s", (ALL,), info)
    assert readable(OneLineFormatter("%(message)s").format(record)) == []
