"""What a session's lines say of the context, on the Run page and in the Model view: small sessions, imported whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Problem, Project, Run
from dashboard.runs.model_history import load_history
from dashboard.runs.replay import load_replay_page
from tests.dashboard.factories import create_project
from tests.dashboard.page_text import Element, Page, parse_page
from tests.dashboard.sessions import SESSION, answers, asks, encoded, user, write

pytestmark = pytest.mark.usefixtures("alice")
AT = "2026-03-01T09:00:02.000Z"


def import_session(project: Project, folder: Path, *lines: dict[str, Any] | bytes) -> Run:
    """The session's run. The lines come in two parts, so that what is shown does not depend on one import."""
    path = folder / f"{SESSION}.jsonl"
    for end in (len(lines) // 2, len(lines)):
        import_paths(project, [write(path, list(lines[:end]))])
    return Run.objects.get(project=project, external_id=SESSION)


def run_page(client: Client, run: Run, query: str = "") -> Page:
    return parse_page(client.get(f"/runs/{run.pk}/{query}"))


def model_view(client: Client, run: Run, query: str = "") -> Page:
    return parse_page(client.get(f"/runs/{run.pk}/context{query}"))


def entry_at(page: Page, line: int) -> Element:
    [entry] = [entry for entry in page.select(".entry") if f"line {line} " in entry.select_one(".where").text]
    return entry


def queue(operation: str, **fields: str) -> dict[str, Any]:
    return {"type": "queue-operation", "operation": operation, "timestamp": AT, "sessionId": SESSION, **fields}


@pytest.mark.postgresql
def test_what_was_typed_while_a_tool_ran_stands_where_it_was_sent(
    client: Client, project: Project, tmp_path: Path
) -> None:
    run = import_session(
        project,
        tmp_path,
        user("list the files", uuid="u1"),
        asks("toolu_01"),
        queue("enqueue", content="only the <b>Python</b> ones"),
        answers("toolu_01"),
        queue("remove"),
        asks("toolu_02", step="msg_2"),
        queue("enqueue", content="never sent"),
    )
    entry = entry_at(model_view(client, run), 5)
    assert entry.select_one("pre").exact == "only the <b>Python</b> ones"
    badge = entry.by_text("queued while a step ran", exact=True)
    assert badge["title"].endswith("How the client worded it for the model is not recorded.")
    page = run_page(client, run)
    items = page.select(".waterfall > li")
    assert [item.text for item in items if "run-mark" in item.classes] == [
        "user, queued while a step ran only the <b>Python</b> ones line 5"
    ]
    assert "run-mark" in items[1].classes
    assert (
        "only the <b>Python</b> ones"
        in model_view(client, run, page.select_one(".run-mark a")["href"].partition("context")[2]).text
    )
    assert "never sent" not in page.text + model_view(client, run).text
    assert not run_page(client, run, "?q=tool:Bash").has(".run-mark")


@pytest.mark.parametrize("rows", [1, 2])
def test_a_mark_is_on_one_page_of_calls_whatever_its_size(
    client: Client, project: Project, tmp_path: Path, settings: Any, rows: int
) -> None:
    settings.ROWS_PER_PAGE = rows
    lines: list[dict[str, Any]] = [queue("enqueue", content="before all"), queue("remove")]
    for number in range(4):
        lines += [
            asks(f"toolu_{number}", step=f"msg_{number}"),
            queue("enqueue", content=f"after {number}"),
            queue("remove"),
        ]
    run = import_session(project, tmp_path, *lines)
    page, texts = run_page(client, run), []
    while True:
        texts += [mark.text.split(" ran ")[1].rpartition(" line")[0] for mark in page.select(".run-mark")]
        more = page.select(".sentinel a")
        if not more:
            break
        page = run_page(client, run, more[0]["href"])
    assert texts == ["before all", "after 0", "after 1", "after 2", "after 3"]


def reports_an_error(text: str) -> dict[str, Any]:
    message = {"id": "e1", "role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "uuid": "e1", "sessionId": SESSION, "message": message, "isApiErrorMessage": True}


def notes(subtype: str, text: str) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, "uuid": f"s-{subtype}", "sessionId": SESSION, "content": text}


def test_what_the_client_keeps_from_the_model_is_shown_as_not_sent_and_not_counted(
    client: Client, project: Project, tmp_path: Path
) -> None:
    text = "API Error: 529 overloaded " * 40
    run = import_session(
        project,
        tmp_path,
        user("list the files", uuid="u1"),
        reports_an_error(text),
        notes("informational", text),
        notes("local_command", f"<local-command-stdout>{text}"),
        asks("toolu_01"),
        user("go on", uuid="u2"),
    )
    page = model_view(client, run)
    badges = [entry_at(page, line).texts(".badge") for line in range(1, 7)]
    not_sent, unclear = ["not sent to the model"], ["perhaps not sent to the model"]
    assert badges == [[], not_sent, not_sent, unclear, ["no receipt recorded: nothing answered this call"], []]
    assert [entry_at(page, line).select_one(".gauge .muted").text for line in (2, 3, 4)] == ["+0"] * 3
    gauges = [entry_at(page, line).select(".gauge span")[0].text for line in (1, 4)]
    assert gauges[0] == gauges[1]
    ahead = model_view(client, run, "?after=5-1-" + "f" * 32)
    assert ahead.texts(".gauge span") == page.texts(".entry:last-child .gauge span")
    whole = model_view(client, run, entry_at(page, 2).by_role("link", "whole message")["href"].partition("context")[2])
    assert whole.texts(".badge") == not_sent


def test_a_line_that_could_not_be_read_is_a_gap_where_it_stood(
    client: Client, project: Project, tmp_path: Path
) -> None:
    run = import_session(
        project,
        tmp_path,
        user("list the files", uuid="u1"),
        b'{"type":"user","message":',
        b"\xff\xfe",
        asks("toolu_01"),
        {**answers("toolu_01"), "message": {"content": [{"type": "tool_result", "content": "lost"}]}},
        asks("toolu_02", step="msg_2"),
        b'{"type":"assistant","mess',
    )
    sentences = [
        "lines 2 to 3 could not be read: see Problems",
        "a part of line 5 could not be read: see Problems",
        "line 7 could not be read: see Problems",
    ]
    page = model_view(client, run)
    assert [entry.select_one("h2").text for entry in page.select(".entry[data-kind=gap]")] == sentences
    assert [entry["data-kind"] for entry in page.select(".entry")] == ["message", "gap", "call", "gap", "call", "gap"]
    assert run_page(client, run).texts(".run-mark .badge") == sentences
    problems = parse_page(client.get(page.select(".entry[data-kind=gap]")[0].by_role("link", "Problems")["href"]))
    assert "line 2" in problems.text


def test_an_incomplete_last_line_is_a_gap_until_its_end_is_there(
    client: Client, project: Project, tmp_path: Path
) -> None:
    path = write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_01"), answers("toolu_01")])
    raw = path.read_bytes()
    path.write_bytes(raw[:-20])
    import_paths(project, [path])
    run = Run.objects.get()
    assert run_page(client, run).texts(".run-mark .badge") == ["line 2 is not complete yet: see Problems"]
    path.write_bytes(raw)
    import_paths(project, [path])
    assert not run_page(client, run).has(".run-mark")
    assert not model_view(client, run).has(".entry[data-kind=gap]")


@pytest.mark.postgresql
def test_a_gap_counts_for_a_subagent_only_between_its_own_lines(
    client: Client, project: Project, tmp_path: Path
) -> None:
    def side(number: int, text: str) -> dict[str, Any]:
        return {**user(text, uuid=f"s{number}"), "isSidechain": True, "agentId": "a1"}

    broken = b'{"type":'
    run = import_session(project, tmp_path, broken, user("go", uuid="u1"), side(1, "x"), broken, side(2, "y"), broken)
    sentences = [f"line {line} could not be read: see Problems" for line in (1, 4, 6)]
    assert run_page(client, run).texts(".run-mark .badge") == sentences
    child = Run.objects.get(parent=run)
    assert run_page(client, child).texts(".run-mark .badge") == sentences[1:2]
    path = write(
        tmp_path / SESSION / "subagents" / "agent-a1.jsonl", [{**user("x", uuid="s1"), "agentId": "a1"}, broken]
    )
    import_paths(project, [path])
    assert run_page(client, child).texts(".run-mark .badge") == ["line 2 could not be read: see Problems"]


def test_two_objects_on_one_line_are_both_read_and_leave_no_gap(
    client: Client, project: Project, tmp_path: Path
) -> None:
    glued = b" ".join(map(encoded, (asks("toolu_01"), answers("toolu_01"))))
    run = import_session(project, tmp_path, user("go", uuid="u1"), glued.replace(b"} {", b"}{"), glued, b"{} 7")
    call = Call.objects.get(external_id="toolu_01")
    assert (call.status, call.line, call.receipt_count) == ("success", 2, 1)
    reason = "2 JSON objects on one line, without a line end between them; each was read by itself"
    assert [(problem.line, problem.reason) for problem in Problem.objects.order_by("line")][:2] == [
        (2, reason),
        (3, reason),
    ]
    assert run_page(client, run).texts(".run-mark .badge") == ["line 4 could not be read: see Problems"]
    [source] = run.sources.all()
    assert (source.accepted, source.rejected) == (3, 1)


@pytest.mark.parametrize(("refused", "loss"), [((b"{}",), "part"), ((b"{}", b'{"type":"user"}'), "line")])
def test_of_a_shared_line_only_what_was_refused_is_a_gap(
    client: Client, project: Project, tmp_path: Path, refused: tuple[bytes, ...], loss: str
) -> None:
    objects = [*refused, encoded(asks("toolu_01"))][:2]
    run = import_session(project, tmp_path, user("go", uuid="u1"), b"".join(objects))
    assert Problem.objects.exclude(loss="nothing").values_list("loss").get() == (loss,)
    sentence = {"part": "a part of line 2", "line": "line 2"}[loss]
    assert run_page(client, run).texts(".run-mark .badge") == [f"{sentence} could not be read: see Problems"]


def below(parent: str, line: dict[str, Any]) -> dict[str, Any]:
    return {**line, "parentUuid": parent}


def rewound_session() -> list[dict[str, Any] | bytes]:
    """The person goes back from line 8 to before line 3, and there from line 6 to before line 5."""
    compacted = {"type": "system", "subtype": "compact_boundary", "uuid": "c1", "sessionId": SESSION, "content": "x"}
    return [
        user("start", uuid="u1"),
        below("u1", asks("toolu_01")),
        below("a-toolu_01", user("a wrong turn", uuid="u2")),
        below("u2", asks("toolu_02", step="msg_2")),
        below("a-toolu_02", user("further wrong", uuid="u3")),
        below("a-toolu_02", user("less wrong", uuid="u4")),
        below("u4", compacted),
        below("a-toolu_01", user("the right way", uuid="u5")),
        below("u5", asks("toolu_03", step="msg_3")),
    ]


def test_a_branch_that_a_rewind_left_is_folded_and_never_counted(
    client: Client, project: Project, tmp_path: Path
) -> None:
    run = import_session(project, tmp_path, *rewound_session())
    page = model_view(client, run)
    assert [entry["data-kind"] for entry in page.select(".entry")] == ["message", "call", "branch", "message", "call"]
    assert "wrong" not in page.text
    fold = page.select_one(".entry[data-kind=branch]")
    assert fold.select_one("h2").text == "rewound: lines 3 to 7 left the conversation at line 8"
    gauges = [entry.select(".gauge span")[0].text for entry in page.select(".entry")]
    assert gauges[1] == gauges[2]
    assert not page.all_by_text("compacted away later")
    plain = import_session(create_project("plain"), tmp_path / "plain", *rewound_session()[:2], *rewound_session()[7:])
    assert load_history(run).entries[-1].weight.shown == load_history(plain).entries[-1].weight.shown
    replayed, expected = (load_replay_page(each, {"with": "receipt"}).view.totals for each in (run, plain))
    assert (replayed.before.tokens, replayed.compacted_at) == (expected.before.tokens, None)

    branch = model_view(client, run, fold.by_role("link", "what was left")["href"].partition("context")[2])
    kinds = [entry["data-kind"] for entry in branch.select(".entry")]
    assert kinds == ["message", "call", "branch", "message", "compaction"]
    assert "it is not in the context after line 8" in branch.by_role("status").text
    first = branch.select(".entry")[0].select(".gauge span")[0].text
    assert int(first.lstrip("≈")) > int(gauges[1].lstrip("≈"))
    assert branch.texts(".entry[data-kind=branch] h2") == ["rewound: line 5 left the conversation at line 6"]


def test_calls_of_a_branch_that_was_left_are_marked_on_the_run_page(
    client: Client, project: Project, tmp_path: Path
) -> None:
    page = run_page(client, import_session(project, tmp_path, *rewound_session()))
    assert ["rewound" in row.text for row in page.select(".call-row[id]")] == [False, True, False]
    assert page.texts(".run-mark .badge") == [
        "rewound: lines 3 to 7 left the conversation at line 8",
        "rewound: line 5 left the conversation at line 6",
    ]


def reports_progress(call: str, message: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "progress",
        "uuid": f"p-{message['uuid']}",
        "sessionId": SESSION,
        "parentToolUseID": call,
        "data": {"type": "agent_progress", "agentId": "a1", "prompt": "count", "message": message},
    }


def test_a_subagent_known_from_progress_alone_states_that_its_messages_are_missing(
    client: Client, project: Project, tmp_path: Path
) -> None:
    sentence = "its own messages are not recorded"
    idle = reports_progress("toolu_09", user("think", uuid="i1"))
    lines = [
        {**idle, "data": {**idle["data"], "agentId": "a2"}},
        asks("toolu_01", "Task", {"prompt": "count"}),
        reports_progress("toolu_01", asks("toolu_02")),
        reports_progress("toolu_01", answers("toolu_02")),
    ]
    run = import_session(project, tmp_path, *lines)
    child, without_calls = (Run.objects.get(external_id=f"{SESSION}/{agent}") for agent in ("a1", "a2"))
    assert sentence in run_page(client, without_calls).by_role("note").text
    assert sentence in run_page(client, child).by_role("note").text
    assert sentence in model_view(client, child).by_role("note").text
    assert "its own messages not recorded" in run_page(client, run).select(".child-row")[0].text
    assert not run_page(client, run).has("[role=note]")
    own = [{**line, "agentId": "a1"} for line in (user("count", uuid="c1"), asks("toolu_02"), answers("toolu_02"))]
    import_paths(project, [write(tmp_path / SESSION / "subagents" / "agent-a1.jsonl", own)])
    assert not run_page(client, child).has("[role=note]")


def test_a_microcompaction_of_unknown_receipts_leaves_its_mark(
    client: Client, project: Project, tmp_path: Path
) -> None:
    ids = ["toolu_01", "toolu_gone", "toolu_lost"]
    run = import_session(
        project,
        tmp_path,
        asks("toolu_01"),
        answers("toolu_01"),
        {
            "type": "system",
            "subtype": "microcompact_boundary",
            "uuid": "m1",
            "sessionId": SESSION,
            "microcompactMetadata": {"compactedToolIds": ids},
        },
    )
    sentence = "2 receipts cleared from the context that this recording does not contain"
    page = model_view(client, run)
    assert page.texts(".entry[data-kind=removal] h2") == [sentence]
    [replaced] = page.texts(".entry[data-kind=replacement] h2")
    assert replaced == "1 earlier receipt cleared from the context: microcompact."
    assert run_page(client, run).texts(".run-mark .badge") == [sentence]


def test_a_tool_result_without_content_is_an_empty_receipt(client: Client, project: Project, tmp_path: Path) -> None:
    silent = {"stdout": "", "stderr": "", "interrupted": False}
    answer = answers("toolu_01", result=silent)
    del answer["message"]["content"][0]["content"]
    run = import_session(project, tmp_path, asks("toolu_01"), answer, asks("toolu_02"), answers("toolu_02", "", silent))
    calls = [Call.objects.get(external_id=f"toolu_0{number}") for number in (1, 2)]
    columns = ("status", "receipt_fidelity", "receipt_count", "receipt_characters", "tokens", "is_cut")
    assert [[getattr(call, column) for column in columns] for call in calls] == [
        ["success", "recorded", 1, 0, 0, False]
    ] * 2
    receipts = model_view(client, run).select("[data-kind=receipt]")
    assert [receipt.texts("p.muted") for receipt in receipts] == [["Empty."]] * 2
    assert client.get(calls[0].get_absolute_url(), follow=True).status_code == 200


@pytest.mark.parametrize(
    ("stderr", "flag", "kind"),
    [
        ("", {"is_error": False}, "cancelled"),
        ("", {"is_error": True}, "cancelled"),
        ("Command timed out after 2m 0s", {"is_error": False}, "command_timed_out"),
    ],
)
def test_an_interrupted_command_is_no_success(
    project: Project, tmp_path: Path, stderr: str, flag: dict[str, bool], kind: str
) -> None:
    result = {"stdout": "1\n2", "stderr": stderr, "interrupted": True, "isImage": False}
    import_session(project, tmp_path, asks("toolu_01"), answers("toolu_01", "1\n2", result, **flag))
    call = Call.objects.get()
    assert (call.status, call.error_kind, call.source_error) == ("error", kind, flag["is_error"])


@pytest.mark.parametrize(("data", "size"), [("QQ==", "1 B"), ("QUE=", "2 B"), ("QUFB", "3 B")])
def test_the_padding_of_an_image_is_not_counted(
    client: Client, project: Project, tmp_path: Path, data: str, size: str
) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    asked = asks("toolu_01", "Read", {"file_path": "/a.png"})
    run = import_session(project, tmp_path, asked, answers("toolu_01", [image]))
    assert f"image/png, {size}" in model_view(client, run).select_one("[data-kind=receipt]").text


def test_what_a_codex_compaction_left_is_in_the_context_and_a_turn_rolled_back_is_not(
    client: Client, project: Project, tmp_path: Path
) -> None:
    def said(role: str, text: str) -> dict[str, Any]:
        return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}

    kept = [said("user", "go " * 40), said("user", "a summary " * 40)]
    payloads = [
        ("session_meta", {"id": "t1", "base_instructions": {"text": "Be brief. " * 20}}),
        ("response_item", said("user", "go " * 40)),
        ("response_item", said("assistant", "a long answer " * 400)),
        ("compacted", {"message": "", "replacement_history": kept}),
        ("response_item", said("user", "another way")),
        ("response_item", said("assistant", "a wrong turn " * 400)),
        ("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
        ("response_item", said("user", "stay")),
    ]
    stamp = {"timestamp": "2026-05-01T10:00:00Z"}
    lines = [{**stamp, "type": kind, "payload": payload} for kind, payload in payloads]
    import_paths(project, [write(tmp_path / "rollout-a.jsonl", list(lines))])
    run = Run.objects.get(external_id="t1")
    page = model_view(client, run)
    kinds = [entry["data-kind"] for entry in page.select(".entry")]
    assert kinds == ["message", "message", "message", "compaction", "message", "message", "branch", "message"]
    sizes = dict(run.messages.values_list("line", "size"))
    standing = sizes[1] // 4
    after = sum(size // 4 for line, size in run.messages.values_list("line", "size") if line in (4, 8))
    assert load_history(run).entries[-1].weight.shown == standing + after
    assert "lines 5 to 6" in page.select_one('[data-kind="branch"] h2').text
