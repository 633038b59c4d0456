"""Every address, for everybody, with every method: what it answers is declared here, or the test fails.

The addresses come from the resolver. A row of the table declares reading, a row with `post` also what a POST with an
empty form answers; every other method answers 405. Members of another project see their own lists and no object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import reverse

from dashboard.accounts import create_link
from dashboard.models import AccessToken, FollowedPath, Note, Project, SavedView
from dashboard.variants.variant_list import save_version
from envelopes.families.registry import family
from tests.cases import each
from tests.dashboard.artifacts.test_artifact_contents import PNG
from tests.dashboard.factories import create_problem, create_project, create_user
from tests.dashboard.measured_comparisons import compared, import_commands, recalled
from tests.dashboard.stored_artifacts import stored
from tests.dashboard.test_middleware import patterns

ROLES = ("anonymous", "other project", "viewer", "operator", "administrator")
SIGN_IN, NOWHERE, REFUSED, NO_METHOD = 302, 404, 403, 405


class Answers(NamedTuple):
    """The status for each of ROLES. An administrator of the accounts is no member of any project."""

    anonymous: int
    other: int
    viewer: int
    operator: int
    administrator: int = REFUSED


def page(status: int = 200) -> Answers:
    """A page that each member has of the own project."""
    return Answers(SIGN_IN, status, status, status)


def thing(status: int = 200) -> Answers:
    """An object of a project."""
    return Answers(SIGN_IN, NOWHERE, status, status)


def action(status: int, *, other: int = NOWHERE, viewer: int = REFUSED) -> Answers:
    """What only operators do."""
    return Answers(SIGN_IN, other, viewer, status)


NOT_READ = Answers(SIGN_IN, NO_METHOD, NO_METHOD, NO_METHOD)
OPEN = Answers(*[200] * 5)
NO_TOKEN, NOT_THAT = Answers(*[401] * 5), Answers(*[405] * 5)  # a session opens no address of programs


class Row(NamedTuple):
    get: Answers
    post: Answers | None = None  # 405
    put: Answers | None = None


TABLE: Mapping[str, Row] = {
    "home": Row(page(302)),
    "healthz": Row(OPEN),
    "sign-in": Row(OPEN, Answers(*[403] * 5)),
    "sign-in-link": Row(OPEN, Answers(*[302] * 5)),
    "sign-out": Row(Answers(*[405] * 5), Answers(*[302] * 5)),
    "run-list": Row(page()),
    "filter-completions": Row(page()),
    "import-new": Row(action(200, other=200), action(422, other=422)),
    "followed-end": Row(NOT_READ, action(302)),
    "view-save": Row(NOT_READ, action(422, other=422)),
    "view-delete": Row(NOT_READ, action(302)),
    "run-against": Row(thing()),
    "run-against-chosen": Row(page()),
    "run-against-original": Row(thing(404)),  # the run copied nothing
    "run-detail": Row(thing()),
    "run-context": Row(thing()),
    "run-replay": Row(thing()),
    "run-plan": Row(thing(404)),  # the run has no plan
    "run-confirmation": Row(thing(404), Answers(SIGN_IN, NOWHERE, NOWHERE, NOWHERE)),
    "run-cancel": Row(NOT_READ, Answers(SIGN_IN, NOWHERE, NOWHERE, NOWHERE)),
    "run-model": Row(page(302)),  # these lead to pages, which look
    "run-old-replay": Row(page(302)),
    "run-variants": Row(page(302)),
    "run-delete": Row(action(200), action(302)),
    "search-index": Row(page()),
    "call-list": Row(page()),
    "call-export": Row(NOT_READ, page()),
    "run-step": Row(thing()),
    "call-detail": Row(thing(302)),
    "run-issue": Row(thing()),
    "call-issue": Row(thing()),
    "run-share": Row(NOT_READ, thing()),
    "call-share": Row(NOT_READ, thing()),
    "run-notes": Row(thing(), action(422)),
    "run-annotate": Row(NOT_READ, action(422)),
    "call-notes": Row(thing(), action(422)),
    "call-annotate": Row(NOT_READ, action(422)),
    "call-chosen": Row(NOT_READ, action(422, other=422)),
    "note-detail": Row(thing(), action(422)),
    "review-list": Row(page()),
    "review-next": Row(thing()),
    "call-half": Row(thing()),
    "call-found": Row(thing()),
    "call-raw": Row(thing()),
    "call-variants": Row(thing()),
    "artifact-detail": Row(thing()),
    "artifact-fold": Row(thing(302)),
    "artifact-difference": Row(thing()),
    "artifact-follow": Row(thing(302)),
    "artifact-find": Row(thing()),
    "artifact-raw": Row(thing()),
    "artifact-picture": Row(thing()),
    "step-reveal": Row(thing(302), action(200)),
    "artifact-reveal": Row(thing(302), action(200)),
    "audit-list": Row(action(200, other=200)),
    "audit-export": Row(action(200, other=200)),
    "mask-list": Row(action(200, other=200), action(422, other=422)),
    "mask-change": Row(NOT_READ, action(200, other=200)),
    "token-list": Row(action(200, other=200), action(422, other=422)),
    "token-revoke": Row(NOT_READ, action(302)),
    "experiment-list": Row(page()),
    "receipt-drift": Row(page()),
    "renderer-detail": Row(page()),
    "renderer-canonical": Row(Answers(SIGN_IN, 200, 200, 200)),
    "renderer-paste": Row(NOT_READ, action(422, other=422)),
    "comparison-new": Row(page(), action(302, other=422)),
    "comparison-detail": Row(thing(), action(404)),
    "comparison-calls": Row(thing()),
    "comparison-pair": Row(thing()),
    "comparison-verdicts": Row(thing()),
    "comparison-review": Row(action(404), action(404)),
    "comparison-export": Row(thing()),
    "template-new": Row(page(), action(200, other=200)),
    "template-detail": Row(thing(), action(200)),
    "template-retire": Row(NOT_READ, action(302)),
    "recall-list": Row(page(), action(302, other=422)),
    "recall-detail": Row(thing(), action(404)),
    "recall-calls": Row(thing()),
    "recall-call": Row(thing()),
    "recall-limits": Row(thing()),
    "old-renderer-list": Row(page(301)),
    "old-receipt-drift": Row(page(301)),
    "old-renderer": Row(page(301)),  # the address that it leads to looks for the object
    "old-comparison-list": Row(page(301)),
    "old-comparison": Row(page(301)),
    "tool-list": Row(page()),
    "tool-detail": Row(page()),
    "insights-index": Row(page()),
    "problem-list": Row(page()),
    "problem-raw": Row(thing()),
    "setup": Row(page()),
    "docs-index": Row(page()),
    "docs-page": Row(page()),
    "api-records": Row(NOT_THAT, NO_TOKEN),
    "api-logs": Row(NOT_THAT, NO_TOKEN),
    "api-mcp": Row(NOT_THAT, NO_TOKEN),
    "api-hook": Row(NOT_THAT, NO_TOKEN),
    "api-traces": Row(NOT_THAT, NO_TOKEN),
    "api-artifact": Row(NOT_THAT, put=NO_TOKEN),
    "api-limits": Row(NO_TOKEN),
    "api-openapi": Row(OPEN),
    **{
        f"api-{name}": Row(NO_TOKEN)
        for name in ("runs", "run", "context", "calls", "halves", "unseen", "variant", "artifacts", "artifact-text")
    },
    "api-experiments": Row(NO_TOKEN),
}
API = {name for name in TABLE if name.startswith("api-")}
WITHOUT_SIGN_IN = {"healthz", "sign-in", "sign-in-link", "sign-out"} | API
OTHER_METHODS = ("PUT", "PATCH", "DELETE", "OPTIONS")


@pytest.fixture
def addresses(project: Project, operator: User, tmp_path: Path) -> dict[str, str]:
    """Each name of the resolver with an object of `project` that exists."""
    call = import_commands(project, tmp_path, ["one", "two"])[0]
    comparison, _ = compared(project, ["recorded", "receipt"])
    artifact = stored(call, PNG)
    view = SavedView.objects.create(project=project, name="Mine", query="", sort="", created_by=operator)
    command = family("command")
    fields = {"title": "T", "source": "{{ status }}", "characters": "4000"}
    save_version(project, command, operator, name="mine", **fields)
    templates = {"name": "command", "template": "mine"}
    arguments: dict[str, dict[str, object]] = {
        "view": {"pk": view.pk},
        "token": {"pk": AccessToken.objects.create(project=project, name="ci", scope="ingest", key="k").pk},
        "followed": {"pk": FollowedPath.objects.create(project=project, path="/nowhere/sessions").pk},
        "review": {"pk": view.pk},
        "note": {"pk": Note.objects.create(project=project, call=call, created_by=operator, text="x").pk},
        "run": {"pk": call.run_id},
        "run-against": {"pk": call.run_id, "other": call.run_id},
        "run-against-chosen": {},
        "call": {"pk": call.pk},
        "artifact": {"pk": artifact.pk},
        "problem": {"pk": create_problem(project).pk},
        "comparison": {"pk": comparison.pk},
        "recall": {"pk": recalled(project, call).pk},
        "recall-call": {"pk": recalled(project, call).pk, "call": call.pk},
        "renderer": {"name": "command"},
        "template": templates,
        "tool": {"name": "ExecCommand"},
        "docs": {"name": "storage"},
        "run-step": {"pk": call.run_id, "position": 1, "tab": "context"},
        "step-reveal": {"pk": call.run_id, "position": 1, "tab": "halves"},
        "call-half": {"pk": call.pk, "half": "receipt"},
        "call-found": {"pk": call.pk, "half": "receipt"},
        "call-raw": {"pk": call.pk, "surface": "receipt"},
        "call-export": {},
        "call-chosen": {},
        "comparison-pair": {"pk": comparison.pk, "call": call.pk},
        "comparison-review": {"pk": comparison.pk, "ordinal": 1},
        "comparison-export": {"pk": comparison.pk, "what": "numbers"},
        "template-new": {"name": "command"},
        "audit-export": {"form": "csv"},
        "mask-change": {"name": "password"},
        "old-renderer": {"rest": "command/"},
        "old-comparison": {"rest": f"{comparison.pk}/"},
        "api": {},
        "api-artifact": {"sha256": "0" * 64},
        "api-run": {"pk": call.run_id},
        "api-context": {"pk": call.run_id, "position": 1},
        "api-halves": {"pk": call.pk},
        "api-unseen": {"pk": call.pk},
        "api-variant": {"pk": call.pk, "name": "receipt"},
        "api-artifact-text": {"pk": artifact.pk},
        **{f"api-{name}": {} for name in ("records", "logs", "mcp", "hook", "traces", "limits")},
        "sign-in-link": {"token": create_link(operator)[0].split("/")[2]},
    }
    return {name: _reverse(str(name), arguments) for name in names()}


def _reverse(name: str, arguments: Mapping[str, Mapping[str, object]]) -> str:
    if name.endswith(("-list", "-index", "-new", "-save")) and name != "template-new":
        return reverse(name)
    return reverse(name, kwargs=dict(arguments.get(name, arguments.get(name.split("-")[0], {}))))


def names() -> Iterator[str]:
    return (str(pattern.name) for pattern in patterns())


def clients(project: Project, operator: User) -> dict[str, Client]:
    users = {
        "other project": create_user("otto", project=create_project("other")),
        "viewer": create_user("vera", project=project, role="viewer"),
        "operator": operator,
        "administrator": User.objects.create(username="root", is_staff=True, is_superuser=True),
    }
    signed_in = {role: Client() for role in ROLES}
    for role, user in users.items():
        signed_in[role].force_login(user)
    return signed_in


def test_every_address_is_declared() -> None:
    assert set(TABLE) == set(names())


@pytest.mark.parametrize(
    "is_whole", [pytest.param(False, marks=pytest.mark.extended), pytest.param(True, marks=pytest.mark.long)]
)
def test_every_address_answers_everybody_as_it_is_declared(
    project: Project, operator: User, addresses: dict[str, str], *, is_whole: bool
) -> None:
    wrong = []
    for role, client in clients(project, operator).items():
        for number, name in enumerate(TABLE):
            for method, expected in cells(name, role, None if is_whole else number):
                status = status_of(client, method, addresses[name])
                if status != expected:
                    wrong.append(f"{method} {name} for {role}: {status}, declared {expected}")
    assert wrong == []


def cells(name: str, role: str, number: int | None) -> Iterator[tuple[str, int]]:
    """Method and status; with a number only one of the methods that no address has, another for the next address."""
    row, column = TABLE[name], ROLES.index(role)
    refused = NO_METHOD if name in WITHOUT_SIGN_IN else NOT_READ[column]
    yield "GET", row.get[column]
    yield "POST", row.post[column] if row.post else refused
    if number is None or role == "operator":
        yield "HEAD", row.get[column]
    for method in OTHER_METHODS if number is None else [OTHER_METHODS[number % len(OTHER_METHODS)]]:
        yield method, row.put[column] if row.put and method == "PUT" else refused


def status_of(client: Client, method: str, address: str) -> int:
    """The status of one request, of which nothing stays."""
    with transaction.atomic():
        cookies = client.cookies.copy()
        response = client.generic(method, address, content_type="application/x-www-form-urlencoded")
        client.cookies = cookies
        _ = response.getvalue()
        transaction.set_rollback(True)
    return response.status_code


@each("name", [name for name, row in TABLE.items() if row.post and name not in API])
def test_every_form_needs_its_token(operator: User, addresses: dict[str, str], name: str) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)
    assert strict.post(addresses[name]).status_code == 403


LEADS, FILE = "leads to another address", "is a file with a type of its own"
BLIND = "is blind: the data of the page name the variants that it hides"
NOT_THERE = "has nothing in this store: see tests/dashboard/plans/test_plan_page.py"
# Addresses that have no JSON for `Accept: application/json`, with the reason.
HTML_ALONE = {
    **dict.fromkeys(("home", "run-model", "run-old-replay", "run-variants", "artifact-fold", "artifact-follow"), LEADS),
    **dict.fromkeys(("old-renderer-list", "old-receipt-drift", "old-renderer"), LEADS),
    **dict.fromkeys(("old-comparison-list", "old-comparison", "run-against-original"), LEADS),
    **dict.fromkeys(("step-reveal", "artifact-reveal"), LEADS),
    **dict.fromkeys(("call-raw", "artifact-raw", "artifact-picture", "problem-raw", "audit-export"), FILE),
    **dict.fromkeys(("run-issue", "call-issue", "comparison-export"), FILE),
    **dict.fromkeys(("sign-in", "sign-in-link"), "is a form before there is a session"),
    "filter-completions": "is the list under a text box, whose values the query language lists",
    "comparison-review": BLIND,
    **dict.fromkeys(("docs-index", "docs-page"), "is documentation, no data of a project"),
    **dict.fromkeys(("run-plan", "run-confirmation"), NOT_THERE),
}


@pytest.mark.extended
def test_each_page_answers_json_or_has_a_reason_why_not(
    operator: User,
    addresses: dict[str, str],
    client: Client,
) -> None:
    client.force_login(operator)
    wrong = {}
    for name, row in TABLE.items():
        if name in API or row.get[ROLES.index("operator")] == NO_METHOD:
            continue
        response = client.get(addresses[name], headers={"Accept": "application/json"})
        _ = response.getvalue()
        is_json = response.status_code == 200 and response["Content-Type"] == "application/json"
        if is_json and HTML_ALONE.get(name) == FILE:
            continue  # the file is JSON
        if is_json == (name in HTML_ALONE):
            wrong[name] = (response.status_code, response.headers.get("Content-Type"))
    assert wrong == {}
    assert set(HTML_ALONE) <= set(TABLE)
