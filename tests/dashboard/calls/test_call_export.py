"""Exports of calls: the page's form and the command write the same rows as CSV, JSON lines and Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from django.core.management import CommandError, call_command
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

import dashboard
from dashboard.calls.call_export import COLUMNS, FORMS, export_calls
from dashboard.ingest.importer import import_paths
from dashboard.models import AuditEntry, Call, Observation, Project, load_slices
from envelopes.text.pointer import resolve
from envelopes.text.untrusted_json import parse_json, visible
from tests.dashboard.factories import ENVELOPE, create_call, create_project, create_run, create_user
from tests.dashboard.page_text import parse_page
from tests.dashboard.sessions import SESSION, answers, asks, write

Row = dict[str, Any]
TOKEN = "ghp_" + "a1B2c3D4" * 5
OUTPUT = f'=SUM(A1)\nline "two", with a comma\r\n{TOKEN}\n\u202etext\u0000end'
KINDS = {column.name: column.kind for column in COLUMNS}


@pytest.fixture(scope="module")
def stored_calls(kept_project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Calls with a cut, without an answer, without a time, and with what the forms have to escape."""
    result = {"stdout": OUTPUT, "stderr": "", "interrupted": False}
    lines = [
        asks("toolu_01", args={"command": f"curl -H {TOKEN}"}),
        answers("toolu_01", OUTPUT, result),
        asks("toolu_02", args={"command": "-half \ud83d"}),
        answers("toolu_02", "+half \ud83d of it", {"stdout": "+half \ud83d of it", "stderr": "not shown"}),
        asks("toolu_03"),
    ]
    escaped: list[dict[str, Any] | bytes] = [json.dumps(line).encode() for line in lines]  # with half a surrogate pair
    import_paths(kept_project, [write(tmp_path_factory.mktemp("sessions") / f"{SESSION}.jsonl", escaped)])
    run = create_run(kept_project, title="=HYPERLINK", branch="main")
    create_call(
        run, receipt=[{"type": "text", "text": "a part"}], envelope=ENVELOPE, result={"a": 1.00}, started_at=None
    )
    create_call(create_run(create_project("other"), title="Not ours"), receipt="elsewhere")


@pytest.fixture
def calls(project: Project, stored_calls: None) -> list[Call]:
    return list(project.calls.newest_first())


def read(form: str, data: bytes) -> list[Row]:
    """The rows of a file as its form's own library reads them, with the types of JSON."""
    if form == "jsonl":
        return [json.loads(line) for line in data.splitlines()]
    if form == "parquet":
        return [
            {name: _stamp(value) for name, value in row.items()}
            for row in pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()
        ]
    return [
        {name: _from_cell(KINDS[name], text) for name, text in row.items()}
        for row in csv.DictReader(io.StringIO(data.decode(), newline=""))
    ]


def _stamp(value: Any) -> Any:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def _from_cell(kind: str, text: str) -> Any:
    if kind == "text":
        return re.sub(r"^'(?=[=+\-@\t\r\0])", "", text)
    return {"true": True, "false": False}.get(text, json.loads(text) if text and kind != "time" else text or None)


def without_nothing(row: Row) -> Row:
    """CSV has the same cell for no text and for an empty one."""
    return {name: "" if value is None and KINDS[name] == "text" else value for name, value in row.items()}


def download(client: Client, **fields: str) -> HttpResponse:
    response: HttpResponse = client.post("/calls/export/", fields)
    return response


def rows_of(client: Client, form: str, **fields: str) -> list[Row]:
    response = download(client, form=form, **fields)
    assert response.status_code == 200
    assert response["Content-Disposition"] == f'attachment; filename="calls.{form}"'
    return read(form, response.getvalue())


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("stored", ["", "1"])
def test_each_form_has_the_same_rows(client: Client, calls: list[Call], stored: str) -> None:
    forms = {form: rows_of(client, form, stored=stored) for form in FORMS}
    assert [row["call"] for row in forms["jsonl"]] == [str(call.pk) for call in calls]
    assert forms["parquet"] == forms["jsonl"]
    assert forms["csv"] == [without_nothing(row) for row in forms["jsonl"]]
    assert list(forms["jsonl"][0]) == [column.name for column in COLUMNS]


@pytest.mark.usefixtures("alice")
def test_stored_bytes_and_the_texts_of_the_segments_are_exact(client: Client, calls: list[Call]) -> None:
    rows = {row["call"]: row for row in rows_of(client, "jsonl", stored="1")}
    checked = Counter[str]()
    for call in calls:
        row = rows[str(call.pk)]
        surfaces = {"args": "arguments", "result": "result", "receipt": "receipt_json"}
        observations = list(Observation.objects.filter(call=call, surface__in=surfaces, selected=True))
        load_slices(observations)
        recorded = {surfaces[observation.surface]: observation.data.decode() for observation in observations}
        assert {name: row[name] for name in surfaces.values() if row[name] is not None} == recorded
        stored = call.projection.data.decode() if hasattr(call, "projection") and call.status != "unknown" else None
        assert row["canonical"] == stored
        documents = {"complete": row["result"], "args": row["arguments"], "canonical": row["canonical"]}
        for segment in row["segments"]:
            text = row["receipt"][segment["start"] : segment["end"]]
            if segment["document"] and segment["source_end"] is not None:
                source = resolve(parse_json(documents[segment["document"]].encode()), segment["pointer"])
                assert visible(str(source)[segment["source_start"] : segment["source_end"]]) == text
                checked[segment["document"]] += len(text)
        assert "".join(row["receipt"][part["start"] : part["end"]] for part in row["segments"]) == (
            row["receipt"] or ""
        )
    assert checked["complete"] >= len(OUTPUT)
    (answered,) = [row for row in rows.values() if row["call_id"] == "toolu_01"]
    assert answered["receipt"] == OUTPUT
    (unanswered,) = [row for row in rows.values() if row["outcome"] == "unanswered"]
    assert [unanswered[name] for name in ("canonical", "canonical_is_shortened", "receipt", "segments")] == [
        *(None, None, None),
        [],
    ]


@pytest.mark.usefixtures("alice", "calls")
def test_an_export_is_masked_unless_an_operator_asks_for_the_stored_bytes(client: Client, project: Project) -> None:
    masked, stored = (rows_of(client, "parquet", q="tool:Bash", stored=stored) for stored in ("", "1"))
    for hidden, shown in zip(masked, stored, strict=True):
        assert TOKEN not in json.dumps(hidden)
        assert len(hidden["receipt"] or "") == len(shown["receipt"] or "")
        assert hidden["segments"] == shown["segments"]
    assert json.dumps(stored).count(TOKEN) == 5  # in both halves, their JSON and the arguments
    assert [entry.subject for entry in AuditEntry.objects.of_project(project)] == [
        "calls as parquet, as stored: tool:Bash",
        "calls as parquet, masked: tool:Bash",
    ]


@pytest.mark.usefixtures("calls")
def test_viewers_export_masked_calls_of_their_own_project(client: Client, project: Project) -> None:
    client.force_login(create_user("vera", project=project, role="viewer"))
    assert download(client, form="csv", stored="1").status_code == 403
    assert {row["run_title"] for row in rows_of(client, "csv")} == {"", "=HYPERLINK"}
    form = parse_page(client.get("/calls/")).select_one(".call-export form")
    assert (form.has("button[value=csv]"), form.has("input[name=stored]")) == (True, False)
    client.force_login(create_user("otto", project=create_project("other")))
    assert [row["receipt"] for row in rows_of(client, "jsonl")] == ["elsewhere"]


@pytest.mark.usefixtures("alice", "calls")
@pytest.mark.parametrize("fields", [{"q": "nothing:here"}, {"q": "(tool:Bash"}])
def test_a_filter_that_cannot_be_read_exports_nothing(client: Client, fields: dict[str, str]) -> None:
    response = download(client, form="csv", **fields)
    assert response.status_code == 400
    assert not AuditEntry.objects.filter(action="export").exists()


@pytest.mark.usefixtures("alice")
def test_an_export_is_written_a_few_calls_at_a_time(project: Project, settings: Settings) -> None:
    run = create_run(project)
    for number in range(7):
        create_call(run, receipt=f"receipt {number}")
    whole = [row["receipt"] for row in read("jsonl", b"".join(export_calls(project.calls.all(), "jsonl")))]
    settings.EXPORTED_AT_ONCE = 3
    settings.ROW_GROUP_CALLS = 2
    pieces = list(export_calls(project.calls.all(), "parquet"))
    data = b"".join(pieces)
    assert (
        [row["receipt"] for row in read("parquet", data)]
        == whole
        == [f"receipt {number}" for number in range(6, -1, -1)]
    )
    assert pyarrow.parquet.ParquetFile(io.BytesIO(data)).num_row_groups == 4
    assert sum(map(bool, pieces)) == 5
    settings.ROW_GROUP_CHARACTERS = 1
    assert len(list(export_calls(project.calls.all(), "parquet"))) == 8


def run_command(*arguments: str) -> None:
    call_command("calls", *arguments, project="kept")


@pytest.mark.usefixtures("alice", "calls")
@pytest.mark.parametrize("form", FORMS)
def test_the_command_writes_what_the_page_exports(client: Client, project: Project, tmp_path: Path, form: str) -> None:
    for how, stored in (("--masked", ""), ("--stored", "1")):
        target = tmp_path / f"{form}{stored}"
        run_command("--query", "tool:Bash", how, f"--{form}", str(target))
        assert read(form, target.read_bytes()) == rows_of(client, form, q="tool:Bash", stored=stored)
    assert {path.name for path in tmp_path.iterdir()} >= {form, f"{form}1"}
    entries = AuditEntry.objects.of_project(project).filter(client="command line")
    assert [entry.subject for entry in entries] == [
        f"calls as {form}, as stored: tool:Bash",
        f"calls as {form}, masked: tool:Bash",
    ]


@pytest.mark.postgresql
@pytest.mark.usefixtures("calls")
def test_the_command_writes_chosen_columns_to_its_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    run_command("--columns", "receipt_characters, tool,tool", "--query", "outcome:unanswered", "--csv", "-")
    assert capfdbinary.readouterr().out == b"receipt_characters,tool\r\n0,Bash\r\n"


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--csv", "x", "--columns", "tool,price"], "There is no column 'price'; there are call, call_id, "),
        (["--csv", "x", "--query", "nothing:here"], "“nothing:” at character 1 is not a filter"),
        (["--csv", "/nowhere/x"], "/nowhere/x: No such file or directory"),
        (["--csv", "x", "--jsonl", "y"], "not allowed with argument"),
        ([], "one of the arguments --csv --jsonl --parquet is required"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: list[str], reason: str) -> None:
    with pytest.raises(CommandError) as error:
        run_command(*arguments)
    assert reason in str(error.value)


@pytest.mark.usefixtures("alice", "calls")
def test_parquet_without_its_library_names_the_extra(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CommandError, match=r"pip install 'counterfoil\[parquet\]'"):
        run_command("--parquet", str(tmp_path / "x"))
    response = download(client, form="parquet")
    assert response.status_code == 400
    assert "counterfoil[parquet]" in response.content.decode()


@pytest.mark.usefixtures("calls")
def test_the_documented_queries_run_over_the_parquet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = (Path(dashboard.__file__).parent / "docs" / "calls.md").read_text()
    by_tool, by_source = re.findall(r"```sql\n(.*?)```", document, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    run_command("--parquet", "calls.parquet")
    rows = read("parquet", Path("calls.parquet").read_bytes())
    tokens, characters = sum(row["tokens"] for row in rows), sum(len(row["receipt"] or "") for row in rows)
    cut, unseen = (sum(row[name] or 0 for row in rows) for name in ("is_cut", "unseen_lines"))
    assert ask_duckdb(by_tool) == [["Bash", len(rows), cut, tokens, unseen]]
    assert unseen == 1
    sources = {source: number for _, source, number in ask_duckdb(by_source)}
    assert set(sources) == {"complete", "no source"}
    assert sum(sources.values()) == characters


def ask_duckdb(query: str) -> list[list[Any]]:
    """In a process of its own: the library reports leaks when the tests end."""
    program = "import duckdb, json, sys; print(json.dumps(duckdb.sql(sys.argv[1]).fetchall()))"
    done = subprocess.run([sys.executable, "-c", program, query], capture_output=True, text=True, check=True)
    answer: list[list[Any]] = json.loads(done.stdout)
    return answer
