"""Every format's reader yields records and problems for any content of a file, and never raises."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envelopes.recordings import RECORDINGS
from envelopes.recordings.base import Format, LineProblem, SourceLine, SourcePath
from tests.envelopes.settled import JSON
from tests.source import CHECKOUT

# Field names that the formats read; the values are of any type.
NAMES = re.findall(
    r"\w+",
    """type uuid parentUuid sessionId timestamp message role content id name input tool_use_id toolUseResult isSidechain
    agentId subtype summary leafUuid operation callId runId stepId tool args attempt status ok data error startedAt
    endedAt durationMs plan policy key result event kind seq v attachment rendered renderedRole systemPrompt tools
    usage iterations replacement_history num_turns payload""",
)
TYPES = re.findall(r"\w+", "user assistant system summary result progress attachment started call tool_use tool_result")
OBJECTS = st.dictionaries(st.sampled_from(NAMES), JSON | st.sampled_from(TYPES), max_size=8)
LINES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"", b"nonsense", b"[", b"{", b"null", b"NaN", b"\xff", b"[]", b"{}", b'{"type":"user"']),
    JSON.map(lambda value: json.dumps(value).encode()),
    OBJECTS.map(lambda value: json.dumps(value).encode()),
    st.tuples(OBJECTS, st.sampled_from(["message", "attachment", "payload"]), OBJECTS).map(
        lambda parts: json.dumps({**parts[0], parts[1]: parts[2]}).encode()
    ),
)
PATHS = (
    "session.jsonl",
    "run/run.json",
    "run/calls.jsonl",
    "run/results.jsonl",
    "run/events.jsonl",
    "a/journal.jsonl",
)
each_format = pytest.mark.parametrize("recording", RECORDINGS, ids=[recording.name for recording in RECORDINGS])


def source(lines: list[bytes]) -> list[SourceLine]:
    return [SourceLine(number, 100 * number, raw) for number, raw in enumerate(lines, start=1)]


@each_format
@settings(deadline=None, max_examples=15)
@given(lines=st.lists(LINES, max_size=6), path=st.sampled_from(PATHS))
def test_any_lines_give_records_and_problems_of_these_lines(recording: Format, lines: list[bytes], path: str) -> None:
    state: dict[str, object] = {}
    for record in recording.read(iter(source(lines)), SourcePath(path), state):
        assert 1 <= record.line <= len(lines)
        if isinstance(record, LineProblem):
            assert record.reason
            assert record.path.startswith("$")
    assert json.loads(json.dumps(state)) == state


@each_format
@given(head=st.binary(max_size=40) | LINES, path=st.sampled_from(PATHS))
def test_any_beginning_is_recognised_or_not(recording: Format, head: bytes, path: str) -> None:
    assert recording.sniff(head, SourcePath(path)) in (True, False)


@each_format
def test_a_name_that_is_no_utf8_stops_no_detection(recording: Format) -> None:
    assert recording.sniff(b'{"\xef": 1, "type": 2}\n', SourcePath("session.jsonl")) is False


@each_format
def test_a_format_names_what_it_is_recognised_by(recording: Format) -> None:
    assert recording.mark


POSTED = ("native", "otlp")  # come over HTTP and have pages of their own


def test_the_documentation_and_the_readme_list_every_agent_whose_files_are_read() -> None:
    agents = {recording.agent for recording in RECORDINGS if recording.agent not in POSTED}
    for page in ("dashboard/docs/recordings.md", "dashboard/docs/agents.md", "README.md"):
        text = (CHECKOUT / page).read_text("utf-8").lower().replace("-", " ")
        assert not [agent for agent in agents if agent.replace("-", " ") not in text], page
