"""What a request may cost, whatever its address asks for, and what it answers when its parameters are odd.

PARAMETERS declares what every address reads. An address, or a parameter that a view reads, without a declaration
fails. The long run searches for the worst input of each parameter; the seeds are the worst that it found.
"""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import HttpRequest, HttpResponse, QueryDict
from django.test import Client
from hypothesis import HealthCheck, Phase, given, target
from hypothesis import settings as drawing
from hypothesis import strategies as st
from pytest_django import Settings

from dashboard.models import Project
from dashboard.settings import ANSWER_SECONDS
from envelopes.variants.template import TEMPLATE_PROCESS, used_seconds
from tests.dashboard.budget_inputs import COUNTS, LOOP, ODD, SEEDS, STRATEGIES
from tests.dashboard.budget_store import BudgetStore, build_store, url_names

pytestmark = pytest.mark.django_db

MOST_SECONDS, MOST_MEGABYTES = 2.0, 300
TRIES = int(os.environ.get("BUDGET_TRIES", "2000"))  # of the long run, for each parameter
ONLY = os.environ.get("BUDGET_ONLY", "")  # an address
FRACTION = 0.1  # of an answer's time, for each try
WORST = 10  # tries that are repeated with all of it

# name=kind for each parameter of an address; what a form sends stands behind POST.
SOURCE = "call=id pasted=id sample=word"
REPLAY = "with=word limit=number"
EVIDENCE = "args=id result=id receipt=id run=id spaces=flag"
COLUMNS = "columns=word column=number measure=word by=word order=number"
CALL_LIST = "tool=word family=word changed=word changes=number sizes=number listed=number at=cursor"
FORM = "name=word title=word source=template characters=number note=word save=flag"
COMPARISON = (
    "baseline=word budget=number call=id family=word name=word query=filter sample=number seed=number variant=word"
)
RUN_LIST = "q=filter sort=word view=number preset=word after=cursor seen=word"
SEARCH = "q=pattern regex=flag any_case=flag encoding=word errors=flag"
ARTIFACT = (
    f"{SEARCH} as=word at=range line=range go=range offset=number time=range later=number hit=number tail=flag"
    " unseen=flag follow=flag last=flag value=number from=number count=number depth=number string=flag"
)
CALL = f"{EVIDENCE} as=word left=word right=word lint=word what=word q=filter queue=number"
NOTE = "text=word half=word quote=word start=number"
ANNOTATE = "POST do=word tag=word to=word next=number query=word"
PARAMETERS = {
    "artifact-detail": ARTIFACT,
    "artifact-difference": "with=id view=word spaces=flag row=number",
    "artifact-find": f"{SEARCH} from=number count=number listed=number next=number before=number hit=number"
    " paused=flag last=flag",
    "artifact-fold": "value=number from=number count=number depth=number string=flag",
    "artifact-follow": "from=number mark=word was=word as=word encoding=word",
    "artifact-picture": "",
    "artifact-raw": "",
    "artifact-reveal": f"{ARTIFACT} POST download=flag",
    "audit-export": "",
    "audit-list": "",
    "call-detail": f"{CALL} tab=word",
    "call-annotate": ANNOTATE,
    "call-chosen": "POST do=word tag=word q=filter call=id all=flag",
    "call-notes": f"{NOTE} {EVIDENCE} queue=number POST {NOTE} query=word",
    "call-export": "POST form=word q=filter stored=flag",
    "call-found": "find=word pattern=flag hit=number",
    "call-half": f"{EVIDENCE} offset=number",
    "call-list": "q=filter sort=word preset=word columns=word after=cursor before=cursor seen=word view=number",
    "call-raw": f"{EVIDENCE} part=number",
    "call-variants": "right=word",
    "comparison-calls": f"{COLUMNS} {CALL_LIST} after=cursor",
    "comparison-detail": f"{COLUMNS} POST do=word columns=word",
    "comparison-export": "",
    "comparison-new": f"{COMPARISON} POST {COMPARISON}",
    "comparison-pair": f"{COLUMNS} {CALL_LIST} row=number spaces=flag view=word",
    "comparison-review": "whole=flag POST do=word call=id note=word",
    "comparison-verdicts": "",
    "docs-index": "",
    "docs-page": "",
    "experiment-list": "",
    "filter-completions": "q=filter at=number",
    "healthz": "",
    "home": "",
    "import-new": "POST paths=word files=word",
    "insights-index": "q=filter from=word to=word show=word by=word sort=word where=filter",
    "token-list": "POST name=word scope=word",
    "token-revoke": "",
    "mask-change": "POST do=word",
    "mask-list": "POST do=word name=word keys=word pattern=pattern",
    "old-comparison": "",
    "old-comparison-list": "",
    "old-receipt-drift": "",
    "old-renderer": "",
    "old-renderer-list": "",
    "problem-list": "after=number file=word",
    "problem-raw": "",
    "recall-call": "",
    "recall-calls": "tool=word budget=number column=word after=number",
    "recall-detail": "POST do=word",
    "recall-limits": "unit=word cap=number head=number",
    "recall-list": f"{COMPARISON} POST {COMPARISON}",
    "receipt-drift": "from=number reason=word",
    "renderer-canonical": f"{SOURCE} offset=number",
    "renderer-detail": f"{SOURCE} variant=word against=word budget=number of=number head=number cut=word row=number"
    " view=word spaces=flag",
    "renderer-paste": "POST envelope=json",
    "call-issue": EVIDENCE,
    "run-issue": "",
    "call-share": "POST query=word",
    "run-share": "POST",
    "note-detail": "POST do=word text=word",
    "review-list": "",
    "review-next": "after=id",
    "run-annotate": ANNOTATE,
    "run-notes": f"{NOTE} queue=number POST {NOTE} query=word",
    "run-against": "only=flag skip=number pair=number view=word args_row=number result_row=number receipt_row=number",
    "run-against-chosen": "run=id",
    "run-against-original": "",
    "run-delete": "",
    "run-detail": f"{REPLAY} q=filter after=cursor since=word skip=word time=word queue=number",
    "run-list": f"{RUN_LIST} peek=id",
    "run-context": f"{REPLAY} after=cursor before=cursor at=word branch=number step=number message=id"
    " from=number raw=flag position=number q=filter left=word right=word spaces=flag",
    "run-step": f"{CALL} go=word since=word before=cursor",
    "step-reveal": f"{CALL} POST download=flag",
    "setup": "",
    "run-replay": f"{REPLAY} from=number position=number q=filter left=word right=word spaces=flag",
    "run-model": "",
    "run-old-replay": "",
    "run-variants": "",
    "sign-in": "next=word POST name=word password=word next=word",
    "sign-in-link": "",
    "sign-out": "",
    "template-detail": f"{SOURCE} version=number POST {FORM}",
    "template-new": f"{SOURCE} POST {FORM}",
    "template-retire": "POST back=flag",
    "search-index": "q=filter",
    "tool-detail": "sample=word form=word",
    "tool-list": "",
    "view-delete": "",
    "view-save": f"POST {RUN_LIST} name=word over=word",
}
# What else is in the address while one parameter varies: the content, or the mode, in which it costs most.
CONTEXTS: dict[tuple[str, str], list[dict[str, str]]] = {
    ("artifact-detail", "q"): [{"regex": "1", "any_case": "1", "as": "text"}],
    ("artifact-find", "q"): [{"regex": "1"}, {"regex": "1", "any_case": "1", "before": "999999"}],
    ("artifact-difference", "row"): [{"with": "other words"}, {"with": "other words", "view": "unified"}],
    ("artifact-detail", "value"): [{"as": "json"}],
    ("run-replay", "from"): [{"with": "slow"}],
    ("run-context", "after"): [{"with": "slow"}],
    ("run-detail", "q"): [{"with": "slow"}],
    ("call-variants", "right"): [{}],
    ("renderer-detail", "budget"): [{"variant": "slow", "against": "slower"}],
    ("template-detail", "source"): [{"characters": "4000"}],
}
CONTENTS = {
    "artifact-difference": ("words",),
    "artifact-find": ("lines", "line", "accents"),
    "artifact-detail": ("lines", "line", "accents", "json", "nested", "table", "stamps"),
    "artifact-fold": ("json", "nested", "line"),
}
POSTED = ("artifact-reveal", "call-reveal")  # with the parameters of the page in the address
DESTROYS = ("sign-out", "run-delete", "view-delete", "template-retire")


@dataclass(frozen=True)
class Cost:
    status: int
    seconds: float  # of the processor, in this process and the one of templates
    megabytes: float  # more than before, at the highest
    body: bytes


def declared(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """The kinds of the parameters in the address, and of those in the form."""
    address, _, form = PARAMETERS[name].partition("POST")
    kinds = [dict(pair.split("=") for pair in part.split()) for part in (address, form)]
    return kinds[0], kinds[1]


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


READ: set[tuple[str, str]] = set()  # method and name of every parameter that a view looked at


class _RecordedQuery(QueryDict):
    """Django's, and a note of each name that was asked for."""

    method = "GET"

    def get(self, key: str, default: Any = None) -> Any:
        READ.add((self.method, key))
        return super().get(key, default)

    def getlist(self, key: str, default: Any = None) -> Any:
        READ.add((self.method, key))
        return super().getlist(key, default)

    def __contains__(self, key: object) -> bool:
        READ.add((self.method, str(key)))
        return super().__contains__(key)


class _RecordedForm(_RecordedQuery):
    method = "POST"


def record_parameters(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A middleware that notes the parameters which views read."""

    def answer(request: HttpRequest) -> HttpResponse:
        request.GET = _RecordedQuery(request.META["QUERY_STRING"])
        if request.method == "POST":
            request._post = _RecordedForm(request.body)  # type: ignore[attr-defined]
        return get_response(request)

    return answer


@pytest.fixture
def store(project: Project, settings: Settings, tmp_path: Path) -> BudgetStore:
    settings.ARTIFACTS = tmp_path / "artifacts"
    return build_store(project, tmp_path)


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
            assert fragment.status != 400 or re.search(b"This part of a page needs|to find|searched for", fragment.body)
            if name not in DESTROYS and (query or not form):
                repeated = urlencode(query, errors="surrogatepass")
                sent = dict(zip(form, (ODD * 6)[number:], strict=False)) or None
                page = spend(operator_client, f"{address}?{repeated}&{repeated}", form=sent)
                assert page.status < 500, (name, query, sent)
        undeclared = {(method, key) for method, key in READ if key not in (form if method == "POST" else parameters)}
        assert undeclared <= {("GET", "project")}, f"{name} reads more than it declares"


def attempt(client: Client, store: BudgetStore, name: str, content: str, query: dict[str, str]) -> Cost:
    """The cost of a request, which is below the limits; parameters of a form are sent."""
    address = store.address(name)
    if content:
        address = address.replace(store.artifacts["lines"], store.artifacts[content])
    values = {key: store.artifacts.get(text, text) if key == "with" else text for key, text in query.items()}
    form = declared(name)[1]
    if set(query) & set(form):
        cost = spend(client, address, form=values)
    elif name in POSTED:
        cost = spend(client, with_query(address, values), form={})
    else:
        cost = spend(client, with_query(address, values), is_fragment=name == "artifact-fold")
    where = f"{name} {content} {str(query)[:300]}: {cost.status}, {cost.seconds:.2f} s, {cost.megabytes:.0f} MB"
    assert cost.status < 500, where
    assert cost.seconds < MOST_SECONDS, where
    assert cost.megabytes < MOST_MEGABYTES, where
    return cost


def searched(kind: str) -> list[tuple[str, str]]:
    """Each parameter of a kind whose value decides how much work there is: address and name."""
    rows = [
        (name, parameter)
        for name in PARAMETERS
        for part in declared(name)
        for parameter, own in part.items()
        if own == kind
    ]
    return list(dict.fromkeys(rows))  # a form may have what the address has


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
    """Prints the worst of each parameter with -s. `-k pattern` searches one kind, BUDGET_ONLY=run-list one address.

    The tries have a fraction of an answer's time; the slowest and the largest of them are repeated with all of it.
    """
    for name, parameter in searched(kind):
        if ONLY not in ("", name):
            continue
        with subtests.test(f"{name} {parameter}"):
            settings.ANSWER_SECONDS = ANSWER_SECONDS * FRACTION
            began = time.monotonic()
            tried = search_worst(operator_client, store, name, parameter, kind)
            settings.ANSWER_SECONDS = ANSWER_SECONDS
            slowest = sorted(tried, key=lambda pair: pair[0].seconds)[-WORST:]
            largest = sorted(tried, key=lambda pair: pair[0].megabytes)[-WORST:]
            again = [(attempt(operator_client, store, name, *trial), trial[1]) for _, trial in slowest + largest]
            cost, query = max(again, key=lambda pair: pair[0].seconds)
            tries, minutes = len(tried), (time.monotonic() - began) / 60
            worst = f"{cost.seconds:.2f} s and {max(cost.megabytes for cost, _ in again):.0f} MB"
            print(f"{name} {parameter}: {tries} tries in {minutes:.1f} min, {worst}: {str(query)[:200]}", flush=True)


def search_worst(
    client: Client, store: BudgetStore, name: str, parameter: str, kind: str
) -> list[tuple[Cost, tuple[str, dict[str, str]]]]:
    """All requests that were tried, each with its content and query; all are below the limits."""
    tried: list[tuple[Cost, tuple[str, dict[str, str]]]] = []

    def measure(value: str, context: dict[str, str], content: str) -> None:
        query = {parameter: value} | context
        cost = attempt(client, store, name, content, query)
        target(round(cost.seconds, 1), label="seconds")
        target(max(0.0, round(cost.megabytes, -1)), label="megabytes")
        tried.append((cost, (content, query)))

    search = drawing(
        max_examples=TRIES,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.target],
        suppress_health_check=list(HealthCheck),
    )
    values = st.one_of(STRATEGIES[kind], st.sampled_from(SEEDS[kind]))
    contexts = st.sampled_from(CONTEXTS.get((name, parameter), [{}]))
    search(given(values, contexts, st.sampled_from(CONTENTS.get(name, ("",))))(measure))()
    return tried
