"""The data of pages as JSON: masked, bounded, and with what was left out by name. The table is in test_url_matrix."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils.safestring import mark_safe

from dashboard.api.page_data import MOST_CHARACTERS, page_data
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import AccessToken, AuditEntry, Call, Project, Run, SignInLink
from dashboard.text.masks import Masks, masking
from tests.dashboard.api.native_records import one_call, one_run
from tests.dashboard.api.sending import Sender

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
JSON = {"Accept": "application/json"}
SECRET = "AKIAIOSFODNN7EXAMPLE"


def test_a_page_of_json_is_masked_and_varies_by_what_is_accepted(
    project: Project, operator: User, client: Client
) -> None:
    call, result, receipt = one_call(1)
    Sender(project).records([*one_run(2), call | {"args": {"q": f"key {SECRET}"}}, result, receipt])
    derive_waiting(project)
    run = Run.objects.get()
    client.force_login(operator)
    for address in (f"/runs/{run.pk}/context", f"/runs/{run.pk}/1/context", f"/runs/{run.pk}/1/halves", "/search/?q=A"):
        response = client.get(address, headers=JSON)
        assert "Accept" in response["Vary"], address
        assert isinstance(json.loads(response.content), dict)
        assert "IOSFODNN7" not in response.content.decode()
    assert client.get("/search/?q=A", headers={"Accept": "text/html,*/*"})["Content-Type"].startswith("text/html")
    assert client.get("/search/?q=A")["Content-Type"].startswith("text/html")
    for address in (f"/runs/{run.pk}/99/halves", f"/calls/{run.pk}/variants/", "/nowhere/"):
        refused = client.get(address, headers=JSON)
        assert (refused.status_code, list(json.loads(refused.content))) == (404, ["error"])
    address = f"/calls/{Call.objects.filter(receipt_count=1).first().pk}/half/receipt/?offset=5&limit=9"
    half = json.loads(client.get(address, headers=JSON).content)
    assert (half["receipt"]["start"], half["receipt"]["next"], half["args"]["next"]) == (5, 14, 0)


class Head(NamedTuple):
    label: str
    size: int


@dataclass(frozen=True)
class Part:
    text: str
    body: object = None
    _hidden: str = "x"

    @property
    def length(self) -> int:
        return len(self.text)

    @cached_property
    def first(self) -> str:
        return self.text[0]


def test_what_has_no_plain_form_is_left_out_and_named(project: Project, operator: User) -> None:
    entry = AuditEntry.objects.create(project=project, person="olga", client="::1", action="setting", subject="x")
    token = AccessToken.objects.create(project=project, name="ci", scope="read", key="k", secret_sha256="s" * 64)
    link = SignInLink(user=operator, token_sha256="t" * 64)
    parts = [Part("long" * MOST_CHARACTERS), Part("", mark_safe("<b>x</b>")), Part("b", b"raw")]
    context: dict[str, Any] = {
        "parts": parts,
        "heads": (Head("a", 1),),
        "rows": [entry, token, operator],
        "link": link,
        "format": str.upper,
        "draw": lambda: 1,
    }
    data = page_data(context)
    assert data["heads"] == [{"label": "a", "size": 1}]
    assert [len(part["text"]) for part in data["parts"]] == [MOST_CHARACTERS, 0, 1]
    assert data["parts"][2] == {"text": "b", "length": 1, "first": "b"}
    assert [set(row) for row in data["rows"]][2] == {"username"}
    assert "s" * 64 not in json.dumps(data, default=str)
    assert data["omitted"] == ["format", "link", "parts[].body", "parts[].text, 60,000 characters"]
    with masking(Masks()):
        assert SECRET not in page_data({"text": f"{SECRET} end"})["text"]


def test_an_object_that_contains_itself_ends() -> None:
    nested: dict[str, object] = {}
    part = Part("x", nested)
    nested["again"] = part
    assert page_data({"part": part})["omitted"]
