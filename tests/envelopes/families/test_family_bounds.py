"""Tests what every family must keep for any recorded JSON and any render policy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.alignment.mapping import Evidence, ToolMapping
from envelopes.families import agent, external, search, task, web, work_item
from envelopes.families.base import Family
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.result import CompleteOutput, JsonValue
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import resolve
from tests.cases import each

FAMILIES = (search.FAMILY, web.FAMILY, agent.FAMILY, task.FAMILY, work_item.FAMILY, external.FAMILY)
# Once for each way to read: Qwen Code's tools are read as those of the Gemini CLI.
TOOLS = [
    *{
        (tool, row.read): (family, row, tool)
        for family in FAMILIES
        for row in reversed(family.mappings)
        for tool in row.tools
    }.values()
]
SAMPLES = [(family, sample) for family in FAMILIES for sample in family.samples]
NAMES = [
    "mode",
    "content",
    "filenames",
    "numFiles",
    "numLines",
    "numMatches",
    "truncated",
    "durationMs",
    "operation",
    "result",
    "filePath",
    "url",
    "code",
    "codeText",
    "bytes",
    "query",
    "results",
    "title",
    "status",
    "agentId",
    "isAsync",
    "outputFile",
    "totalTokens",
    "success",
    "commandName",
    "answers",
    "questions",
    "question",
    "header",
    "plan",
    "message",
    "retrieval_status",
    "task",
    "task_id",
    "task_type",
    "output",
    "exitCode",
    "error",
    "shell_id",
    "oldTodos",
    "newTodos",
    "todos",
    "id",
    "subject",
    "description",
    "taskId",
    "updatedFields",
    "statusChange",
    "from",
    "to",
    "tasks",
    "type",
    "text",
]

BRIEF = ("Bash", "Edit", "Read", "TodoWrite", "WebFetch")
TEXT = st.text(st.characters(exclude_categories=()), max_size=30) | st.builds(
    lambda part, times: part * times, st.sampled_from(["line of text\n", "word ", "x"]), st.integers(0, 3_000)
)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
KEY = st.sampled_from(NAMES) | st.text(max_size=5)
JSON = st.recursive(SCALAR, lambda child: st.lists(child, max_size=4) | st.dictionaries(KEY, child, max_size=6))


@pytest.mark.parametrize(
    ("family", "row", "tool"),
    [row if row[2] in BRIEF else pytest.param(*row, marks=pytest.mark.extended) for row in TOOLS],
    ids=[f"{row.agent} {tool}" for _, row, tool in TOOLS],
)
@given(data=st.data())
def test_any_recorded_json_reads_renders_and_aligns(
    family: Family, row: ToolMapping, tool: str, data: st.DataObject
) -> None:
    result: JsonValue = data.draw(st.dictionaries(KEY, JSON, max_size=8) | JSON)
    receipt = data.draw(TEXT)
    evidence = Evidence(agent=row.agent, tool=tool, args=result, result=result, has_result=True, receipt_text=receipt)
    limit = data.draw(st.integers(0, 600) | st.just(family.rendering.characters))

    canonical = project(row.read(evidence).complete, family, family.projection, MemorySink()).canonical

    assert len(render(canonical, family, RenderPolicy(characters=limit)).text) <= limit
    for span in row.align(evidence, receipt):
        value = resolve(result, span.pointer)
        if isinstance(value, str):
            assert receipt[span.start : span.end] == value[span.value_start : span.value_end]


@each(
    ("family", "sample"),
    SAMPLES,
)
def test_a_sample_keeps_its_sources_and_stays_within_every_policy(family: Family, sample: CompleteOutput) -> None:
    canonical = project(sample, family, family.projection, MemorySink()).canonical
    document = canonical.to_json()

    granted = family.granted(canonical.result) if canonical.error is None else 0
    for limit in (0, 1, 80, 400, 2_000, family.rendering.characters):
        receipt = render(canonical, family, RenderPolicy(characters=limit))
        assert len(receipt.text) <= limit + (granted if limit == family.rendering.characters else 0)
        for segment in receipt.segments:
            if segment.source is not None and segment.source.start is not None:
                value = resolve(document, segment.source.pointer)
                assert isinstance(value, str)
                assert value[segment.source.start : segment.source.end] == segment.text


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_the_samples_of_a_family_show_success_and_error_and_a_cut(family: Family) -> None:
    projections = [project(sample, family, family.projection, MemorySink()) for sample in family.samples]

    assert {projection.canonical.status for projection in projections} == {"success", "error"}
    assert any(projection.cuts for projection in projections)
