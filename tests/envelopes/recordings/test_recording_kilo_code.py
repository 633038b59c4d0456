"""Sessions of Kilo Code, which OpenCode's reader reads under its own name: receipts are what it sent, outcomes true."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from envelopes.recordings.base import COMPACTION, PARTIAL_COMPACTION, EventRecord, ReceiptRecord, RunRecord, UsageRecord
from tests.envelopes.recordings.samples import FOLDER, read_bytes, read_sample
from tests.envelopes.session_lines import only

RELEASES = ("7.0.33", "7.7.9")
SAMPLES = {release: read_sample(f"releases/kilo_code_{release}.json") for release in RELEASES}
NEWEST = SAMPLES["7.7.9"]
NOT_SENT = 2  # the run ended with a refusal, before another request
each_release = pytest.mark.parametrize("release", RELEASES)


@each_release
def test_receipts_are_what_it_sent(release: str) -> None:
    sample = SAMPLES[release]
    sent = json.loads((FOLDER / f"releases/kilo_code_{release}.sent.json").read_bytes())
    receipts = only(ReceiptRecord, sample.records)
    hashes = {record.call: hashlib.sha256(json.loads(record.content).encode()).hexdigest() for record in receipts}
    assert dict(list(hashes.items())[:-NOT_SENT]) == sent
    assert not sample.problems


@each_release
def test_the_run_is_of_kilo_code(release: str) -> None:
    [run] = [record for record in only(RunRecord, SAMPLES[release].records) if record.agent]
    assert (run.agent, run.version, SAMPLES[release].format.namespace) == ("kilo-code", release, "kilo-code")


def test_a_session_of_a_release_below_seven_is_of_opencode() -> None:
    info = {"id": "ses_1", "title": 'a "version": "7.1"', "version": "1.18.33"}
    raw = json.dumps({"info": info, "messages": []}).encode()
    assert read_bytes(raw, "export.json").format.name == "opencode"
    raw = json.dumps({"info": info | {"version": "7.7.9"}, "messages": []}).encode()
    assert read_bytes(raw, "export.json").format.name == "kilo-code"


@pytest.mark.parametrize(
    ("tool", "words", "end"),
    [
        ("bash", "exit 3", 3),
        ("bash", "sleep 20", "command_timed_out"),
        ("bash", "rm -rf", "write_denied"),
        ("bash", "curl", "write_denied"),
        ("bash", '"cmd"', "invalid_tool_input"),
        ("read", "missing.txt", "missing_file"),
        ("edit", "not there", "tool_execution_failed"),
        ("grep", "nothing here", None),
        ("demo_fail", "", "tool_execution_failed"),
        ("no_such_tool", "", "unknown_tool"),
        ("background_process", "sleep 300", None),
        ("background_process", "list", None),
        ("task", "Say hello", None),
    ],
)
def test_each_call_ended_as_it_did(tool: str, words: str, end: Any) -> None:
    assert NEWEST.ends(tool, words) == [end]


def test_metadata_that_names_only_the_rule_which_allowed_a_call_is_no_result() -> None:
    results = NEWEST.results
    [webfetch] = [call.call for call in NEWEST.calls if call.tool == "webfetch" and b"text" in (call.args or b"")]
    assert webfetch not in results


def test_a_process_in_the_background_has_its_id_and_command() -> None:
    first, listed, unknown = [
        halves.projection.canonical
        for call, halves in zip(NEWEST.calls, NEWEST.halves(), strict=True)
        if call.tool == "background_process"
    ]
    assert first.result["task"]["task_id"].startswith("bgp_")
    assert first.result["task"]["status"] == "running"
    assert listed.summary_text == "1 background task"
    assert unknown.summary_text == "Background process not found: nope"


@each_release
def test_a_compaction_names_what_it_kept(release: str) -> None:
    events = only(EventRecord, SAMPLES[release].records)
    [compaction] = [event for event in events if event.kind in (COMPACTION, PARTIAL_COMPACTION)]
    assert compaction.kind == {"7.0.33": COMPACTION, "7.7.9": PARTIAL_COMPACTION}[release]


@each_release
def test_each_request_has_its_usage(release: str) -> None:
    usage = only(UsageRecord, SAMPLES[release].records)
    assert len(usage) > NOT_SENT
    assert {record.output_tokens for record in usage} == {20}
