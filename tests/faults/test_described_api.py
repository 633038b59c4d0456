"""The reading API answers as its own description has it: schemathesis draws requests from it and checks the answers.

The server is a real one with recorded runs; half of the requests name an object that exists.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS, load_all_checks

from dashboard.api.answers import ADDRESSES, JSON, PROTOBUF, SENDING
from tests.dashboard.api.native_records import NDJSON, lines, one_run
from tests.dashboard.api.test_hooks import SESSION, transcript
from tests.dashboard.sessions import write
from tests.faults.imports import manage, migrated_store, rows, wait_until
from tests.faults.intake_load import UNLIMITED, make_request
from tests.faults.mutated_bodies import CONTENT_HASH, whole_bodies
from tests.faults.server import running_server, sign_in

load_all_checks()
CONFORMANCE = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    )
]
CONTENT = make_request("content", "of an artifact")
ARTIFACT = {"v": 1, "type": "artifact", "run": "r1", "call": "c1", "path": "out.txt", "sha256": CONTENT.key}
# Bodies that are stored, by their address and type.
WHOLE = {(body.address.partition(CONTENT_HASH)[0], body.content_type): body for body in whole_bodies()}
EXAMPLES = 25  # of each address


class DescribedServer:
    """`keys` are those of objects that exist, by the name of the parameter."""

    def __init__(self, address: str, tokens: dict[str, str], keys: dict[str, list[str]]) -> None:
        self.address, self.tokens, self.keys = address, tokens, keys
        self.schema = schemathesis.openapi.from_url(f"{address}/api/v1/openapi.json")

    def headers(self, case: Any) -> dict[str, str]:
        scope = "ingest" if case.method != "GET" or case.path.endswith("/limits") else "read"
        return {"Authorization": f"Bearer {self.tokens[scope]}"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DescribedServer]:
    folder = tmp_path_factory.mktemp("described")
    store = migrated_store(folder / "store")
    tokens = {
        scope: json.loads(manage(store, "create_token", scope, "--scope", scope, "--json").stdout)["token"]
        for scope in ("ingest", "read")
    }
    manage(store, "import_runs", str(write_cut_session(folder)))
    with running_server(store, sign_in(store), folder / "log", variables=UNLIMITED) as running:
        with closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)) as connection:
            assert CONTENT.send(connection, tokens["ingest"])
        headers = {"Authorization": f"Bearer {tokens['ingest']}", "Content-Type": NDJSON}
        body = lines([*one_run(3), *one_run(2, "r2"), ARTIFACT])
        assert running.request("POST", "/api/v1/records", body, headers).status == 200
        assert wait_until(lambda: not rows(store, "SELECT 1 FROM dashboard_call WHERE derivation = '' LIMIT 1"))
        yield DescribedServer(f"http://127.0.0.1:{running.port}", tokens, find_keys(running, tokens["read"]))


def write_cut_session(folder: Path) -> Path:
    """A recording with a call of whose 100 lines of output the model saw 40."""
    output = [f"line {number}" for number in range(100)]
    asked, answered = transcript()
    answered["toolUseResult"] = {"stdout": "\n".join(output), "stderr": "", "interrupted": False, "isImage": False}
    shown = "\n".join([*output[:20], "", "... [60 lines truncated] ...", "", *output[80:]])
    answered["message"]["content"][0]["content"] = shown
    return write(folder / f"{SESSION}.jsonl", [asked, answered])


def fill_in(server: DescribedServer, case: Any, number: int) -> None:
    """Names objects that exist, and sends a body that is whole."""
    if case.method == "GET":
        for name in case.path_parameters or {}:
            case.path_parameters[name] = server.keys[name][number % len(server.keys[name])]
        return
    body = WHOLE[case.path.partition("{")[0], case.media_type]
    case.body = json.loads(body.data) if body.content_type == JSON else body.data
    for name in case.path_parameters or {}:
        case.path_parameters[name] = body.address.rpartition("/")[2]


@schemathesis.serializer(NDJSON, PROTOBUF)
def as_it_is(_context: object, value: Any) -> Any:
    """A body of these types is drawn as a text."""
    return value


def find_keys(running: Any, token: str) -> dict[str, list[str]]:
    keys = {"variant": ["receipt", "recorded"], "position": ["1", "2"]}
    for name in ("run", "call", "artifact"):
        answer = running.request("GET", f"/api/v1/{name}s", headers={"Authorization": f"Bearer {token}"})
        keys[name] = [item[name] for item in json.loads(answer.body)["items"]]
        assert keys[name]
    return keys


@pytest.mark.extended
def test_each_answer_is_of_the_described_status_type_and_structure(server: DescribedServer) -> None:
    operations = [operation.ok() for operation in server.schema.get_all_operations()]
    described = {(operation.method, operation.path) for operation in operations}
    assert described == {("get", row[0]) for row in ADDRESSES} | {(row[1], row[0]) for row in SENDING}
    for operation in operations:
        statuses = try_operation(server, operation)
        assert 200 in statuses, (operation.path, statuses)


def try_operation(server: DescribedServer, operation: Any) -> set[int]:
    """The statuses of the answers, each of which conforms to the description."""
    statuses, numbers = set[int](), count()
    drawing = settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @drawing
    @given(case=operation.as_strategy())
    def draw(case: Any) -> None:
        number = next(numbers)
        if number % 2:
            fill_in(server, case, number // 2)
        response = case.call(base_url=server.address, headers=server.headers(case), timeout=120)
        statuses.add(response.status_code)
        case.validate_response(response, checks=CONFORMANCE)

    draw()
    return statuses
