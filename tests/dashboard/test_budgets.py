"""What a request may cost, whatever its address asks for, and what it answers when its parameters are odd.

PARAMETERS declares what every address reads. An address, or a parameter that a view reads, without a declaration
fails, and so does one that is declared as another kind than its reader. The long run searches for the worst input of
each parameter; the seeds are the worst that it found.
"""

from __future__ import annotations

import inspect
import os
import re
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from django.http import HttpRequest, HttpResponse, QueryDict
from django.test import Client
from hypothesis import HealthCheck, Phase, given, target
from hypothesis import settings as drawing
from hypothesis import strategies as st
from pytest_django import Settings
from selectolax.lexbor import LexborHTMLParser

from dashboard.models import Project
from dashboard.settings import ANSWER_SECONDS
from envelopes.variants.template import TEMPLATE_PROCESS, used_seconds
from tests.dashboard.budget_inputs import COUNTS, LOOP, ODD, SEEDS, STRATEGIES
from tests.dashboard.budget_parameters import (
    CONTENTS,
    CONTEXTS,
    DESTROYS,
    KIND_OF_READER,
    PARAMETERS,
    POSTED,
    UNSEARCHED,
    declared,
    searched,
)
from tests.dashboard.budget_store import BudgetStore, build_store, url_names

pytestmark = pytest.mark.django_db

MOST_SECONDS, MOST_MEGABYTES = 2.0, 300
TRIES = int(os.environ.get("BUDGET_TRIES", "2000"))  # of the long run, for each parameter
ONLY = os.environ.get("BUDGET_ONLY", "")  # addresses, or an address and a parameter, between commas
PART, PARTS = (int(number) for number in os.environ.get("BUDGET_PART", "0/1").split("/"))  # every nth parameter
FRACTION = 0.1  # of an answer's time, for each try
WORST = 10  # tries that are repeated with all of it


@dataclass(frozen=True)
class Cost:
    status: int
    seconds: float  # of the processor, in this process and the one of templates
    megabytes: float  # more than before, at the highest
    body: bytes


def work_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = TEMPLATE_PROCESS.process
    alive = used_seconds(running.pid) if running is not None and running.poll() is None else 0.0
    return time.process_time() + ended.ru_utime + ended.ru_stime + alive


def memory_megabytes(line: str) -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{line}:")[2].split()[0]) / 1024


def spend(client: Client, address: str, *, form: dict[str, str] | None = None, is_fragment: bool = False) -> Cost:
    Path("/proc/self/clear_refs").write_text("5")  # the highest so far begins anew
    before, began = memory_megabytes("VmRSS"), work_seconds()
    headers = {"HX-Request": "true"} if is_fragment else {}
    if form is None:
        response = client.get(address, headers=headers, follow=False)
    else:
        body = urlencode(form, errors="surrogatepass")
        response = client.post(address, body, content_type="application/x-www-form-urlencoded", headers=headers)
    body = b"".join(response.streaming_content) if response.streaming else response.content  # type: ignore[attr-defined]
    return Cost(response.status_code, work_seconds() - began, memory_megabytes("VmHWM") - before, body)


def with_query(address: str, query: dict[str, str]) -> str:
    return f"{address}?{urlencode(query, errors='surrogatepass')}"


READ: dict[tuple[str, str], set[str]] = {}  # by method and name of every parameter: the functions that read it


class _RecordedQuery(QueryDict):
    """Django's, and a note of each name that was asked for, and by which function."""

    method = "GET"

    def get(self, key: str, default: Any = None) -> Any:
        _note(self.method, key)
        return super().get(key, default)

    def getlist(self, key: str, default: Any = None) -> Any:
        _note(self.method, key)
        return super().getlist(key, default)

    def __contains__(self, key: object) -> bool:
        _note(self.method, str(key))
        return super().__contains__(key)

    def dict(self) -> _RecordedDict:
        return _RecordedDict(super().dict())


class _RecordedForm(_RecordedQuery):
    method = "POST"


class _RecordedDict(dict[str, Any]):
    """The query as the addresses of programs read it."""

    def get(self, key: str, default: Any = None) -> Any:
        _note("GET", key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        _note("GET", key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        _note("GET", str(key))
        return super().__contains__(key)


def _note(method: str, key: str) -> None:
    reader = inspect.currentframe().f_back.f_back  # type: ignore[union-attr]
    READ.setdefault((method, key), set()).add(reader.f_code.co_name)  # type: ignore[union-attr]


def record_parameters(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A middleware that notes the parameters which views read."""

    def answer(request: HttpRequest) -> HttpResponse:
        request.GET = _RecordedQuery(request.META["QUERY_STRING"])
        if request.method == "POST":
            request._post = _RecordedForm(request.body)  # type: ignore[attr-defined]
        return get_response(request)

    return answer


@pytest.fixture
def store(project: Project, settings: Settings, tmp_path: Path, operator_client: Client) -> BudgetStore:
    settings.ARTIFACTS = tmp_path / "artifacts"
    store = build_store(project, tmp_path)
    operator_client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {store.token}"  # for the addresses of programs
    return store


@pytest.mark.parametrize(
    "whole",
    [pytest.param(False, marks=pytest.mark.extended), pytest.param(True, marks=pytest.mark.long)],
    ids=["brief", "whole"],
)
def test_every_address_declares_its_parameters_and_answers_odd_ones(
    operator_client: Client, store: BudgetStore, settings: Settings, *, whole: bool
) -> None:
    """Missing, empty, negative, huge, repeated, NUL, half a character: no 5xx, and a fragment's 400 has a sentence.

    By default each parameter of an address has another odd value in one request; the long run gives all of them each.
    """
    assert set(PARAMETERS) == set(url_names())
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.record_parameters"]
    settings.ANSWER_SECONDS = 0.1
    operator_client.raise_request_exception = False
    for number, name in enumerate(url_names()):
        READ.clear()
        address = store.address(name)
        parameters, form = declared(name)
        rounds = range(len(ODD)) if whole else [number % len(ODD)]
        queries = [dict(zip(parameters, (ODD * 6)[start:], strict=False)) for start in rounds]
        queries += [dict.fromkeys(parameters, value) for value in ODD if whole] + [{}]
        for query in queries:
            fragment = spend(operator_client, with_query(address, query), is_fragment=True)
            assert fragment.status < 500, (name, query)
            refusals = b"This part of a page needs|to find|searched for|This request cannot be read"
            assert fragment.status != 400 or re.search(refusals, fragment.body)
            if name not in DESTROYS and (query or not form):
                repeated = urlencode(query, errors="surrogatepass")
                sent = dict(zip(form, (ODD * 6)[number:], strict=False)) or None
                page = spend(operator_client, f"{address}?{repeated}&{repeated}", form=sent)
                assert page.status < 500, (name, query, sent)
        kinds = {"GET": parameters, "POST": form}
        undeclared = {(method, key) for method, key in READ if key not in kinds[method]}
        assert undeclared <= {("GET", "project")}, f"{name} reads more than it declares"
        for (method, key), readers in READ.items():
            for reader in readers & set(KIND_OF_READER):
                assert kinds[method][key] == KIND_OF_READER[reader], f"{name}: {key} is read as {reader}"


def test_a_search_covers_every_parameter_but_stored_words_ids_and_flags() -> None:
    """The kinds are what the views read, by the test above, so that a new parameter of a kind is searched as well."""
    kinds = {kind for name in PARAMETERS for part in declared(name) for kind in part.values()}
    assert kinds == set(STRATEGIES)
    assert kinds - set(UNSEARCHED) == set(SEEDS)
    pairs = {kind: len(searched(kind)) for kind in sorted(kinds)}
    print(f"\nparameters of the address map by kind: {pairs}; not searched: {', '.join(UNSEARCHED)}")
    for address, parameter in CONTEXTS:
        assert parameter in {key for part in declared(address) for key in part}, f"{address} reads no {parameter}"


def offered_values(client: Client, store: BudgetStore) -> dict[str, list[str]]:
    """The values of each parameter that the links and forms of all pages offer."""
    offers: dict[str, set[str]] = {}
    for name in url_names():
        page = spend(client, store.address(name)).body if name not in DESTROYS else b""
        tree = LexborHTMLParser(page.decode("utf-8", "replace"))
        for link in tree.css("a[href]"):
            for key, value in parse_qsl(urlsplit(link.attributes["href"] or "").query):
                offers.setdefault(key, set()).add(value)
        for field in tree.css("option[value], input[type=radio], button[name]"):
            select = field.parent if field.tag == "option" else field
            key = (select.attributes.get("name") if select else None) or ""
            offers.setdefault(key, set()).add(field.attributes.get("value") or "")
    return {key: sorted(values) for key, values in offers.items()}


def attempt(client: Client, store: BudgetStore, name: str, content: str, query: dict[str, str]) -> Cost:
    """The cost of a request, which is below the limits; parameters of a form are sent."""
    address = store.address(name)
    if content:
        address = address.replace(store.artifacts["lines"], store.artifacts[content])
    values = {key: store.artifacts.get(text, text) if key == "with" else text for key, text in query.items()}
    form = declared(name)[1]
    for _ in range(2):
        if set(query) & set(form):
            cost = spend(client, address, form=values)
        elif name in POSTED:
            cost = spend(client, with_query(address, values), form={})
        else:
            cost = spend(client, with_query(address, values), is_fragment=name == "artifact-fold")
        if cost.seconds < MOST_SECONDS:
            break  # else once more: after thousands of tries a collection of garbage takes two seconds
    where = f"{name} {content} {str(query)[:300]}: {cost.status}, {cost.seconds:.2f} s, {cost.megabytes:.0f} MB"
    assert cost.status < 500, where
    assert cost.seconds < MOST_SECONDS, where
    assert cost.megabytes < MOST_MEGABYTES, where
    return cost


# Address, content, parameter, value and what else is in the address: the worst of each kind.
KNOWN = (
    ("artifact-detail", "lines", "q", "(a|a)+[bc]", {"regex": "1", "as": "text"}),  # took 73 s
    ("artifact-detail", "line", "q", "(?:(?:a|b)?){900}z", {"regex": "1", "as": "text"}),
    ("artifact-detail", "line", "q", COUNTS, {"regex": "1"}),  # took 16 s and 3.6 GB
    ("artifact-detail", "lines", "q", "A", {"any_case": "1", "as": "text"}),
    ("artifact-detail", "stamps", "time", "23:59:59", {}),
    ("artifact-find", "line", "q", "A", {"any_case": "1"}),  # took 7 to 10 s
    ("artifact-find", "line", "q", "a*?", {"regex": "1"}),  # nothing but empty matches
    ("artifact-find", "line", "q", "(a.{0,500}){2}z", {"regex": "1", "before": "999999"}),
    ("artifact-difference", "words", "row", "9" * 18, {"with": "other words", "view": "unified"}),  # took 18 s
    ("artifact-fold", "nested", "value", "0", {}),
    ("run-replay", "", "with", "slow", {}),  # took 8 s
    ("run-context", "", "with", "slow", {}),
    ("run-context", "", "step", "2843754464659280896", {}),  # a time behind the year 9999: was a 500
    ("call-variants", "", "right", "variant-slow", {}),
    ("renderer-detail", "", "variant", "slow", {"against": "slower", "budget": "17", "of": "999"}),
    ("run-list", "", "q", '"' * 1_999, {}),
    ("template-detail", "", "source", LOOP * 3 + "{% endfor %}" * 3, {"characters": "4000"}),
    ("template-detail", "", "source", "{{ result" + " | json" * 4_000 + " }}", {"characters": "4000"}),
    ("mask-list", "", "pattern", ".", {}),
    ("mask-list", "", "pattern", "(?:(?:a|b)?){150}z", {}),
    ("mask-list", "", "pattern", COUNTS, {}),
    ("renderer-paste", "", "envelope", "[" * 90_000, {}),
)


@pytest.mark.extended
def test_the_worst_inputs_that_are_known_cost_little(
    operator_client: Client, store: BudgetStore, settings: Settings
) -> None:
    settings.ANSWER_SECONDS = 0.1
    for name, content, parameter, value, context in KNOWN:
        cost = attempt(operator_client, store, name, content, {parameter: value} | context)
        assert cost.seconds < 1, f"{name} {content} {parameter}={value[:60]}: {cost.seconds:.2f} s"


@pytest.mark.long
@pytest.mark.parametrize("kind", SEEDS)
def test_no_input_that_a_search_finds_costs_much(
    kind: str, operator_client: Client, store: BudgetStore, subtests: pytest.Subtests, settings: Settings
) -> None:
    """Prints the worst of each parameter with -s. `-k pattern` searches one kind, BUDGET_ONLY="a,b step" these.

    The tries have a fraction of an answer's time; the slowest and the largest of them are repeated with all of it.
    """
    offers = offered_values(operator_client, store)
    for name, parameter in searched(kind)[PART::PARTS]:
        if ONLY and not {name, f"{name} {parameter}"} & set(ONLY.split(",")):
            continue
        seeds = [*SEEDS[kind], *offers.get(parameter, [])] if kind == "choice" else list(SEEDS[kind])
        with subtests.test(f"{name} {parameter}"):
            settings.ANSWER_SECONDS = ANSWER_SECONDS * FRACTION
            began = time.monotonic()
            tried = search_worst(operator_client, store, name, parameter, kind, seeds)
            settings.ANSWER_SECONDS = ANSWER_SECONDS
            slowest = sorted(tried, key=lambda pair: pair[0].seconds)[-WORST:]
            largest = sorted(tried, key=lambda pair: pair[0].megabytes)[-WORST:]
            again = [(attempt(operator_client, store, name, *trial), trial[1]) for _, trial in slowest + largest]
            cost, query = max(again, key=lambda pair: pair[0].seconds)
            tries, minutes = len(tried), (time.monotonic() - began) / 60
            worst = f"{cost.seconds:.2f} s and {max(cost.megabytes for cost, _ in again):.0f} MB"
            print(f"{name} {parameter}: {tries} tries in {minutes:.1f} min, {worst}: {str(query)[:200]}", flush=True)


def search_worst(
    client: Client, store: BudgetStore, name: str, parameter: str, kind: str, seeds: list[str]
) -> list[tuple[Cost, tuple[str, dict[str, str]]]]:
    """All requests that were tried, each with its content and query; all are below the limits."""
    tried: list[tuple[Cost, tuple[str, dict[str, str]]]] = []

    def measure(value: str, context: dict[str, str], content: str) -> None:
        query = {parameter: value} | context
        cost = attempt(client, store, name, content, query)
        target(round(cost.seconds, 1), label="seconds")
        target(max(0.0, round(cost.megabytes, -1)), label="megabytes")
        tried.append((replace(cost, body=b""), (content, query)))  # pages of thousands of tries are gigabytes

    search = drawing(
        max_examples=TRIES,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.target],
        suppress_health_check=list(HealthCheck),
    )
    values = st.one_of(STRATEGIES[kind], st.sampled_from(seeds))
    contexts = st.sampled_from(CONTEXTS.get((name, parameter), ({},)))
    search(given(values, contexts, st.sampled_from(CONTENTS.get(name, ("",))))(measure))()
    return tried
