"""Compaction of rows: which handles stay, and how their number is stated; and texts that could pass for lines."""

from __future__ import annotations

import msgspec

from envelopes import compact
from envelopes.pipeline.compaction import Dropped, recap
from tests.cases import each
from tests.envelopes.pipeline.test_compaction import REFUSED, failure, success


def test_rows_are_reduced_to_their_references() -> None:
    """The references of memories: MemoryGet takes no other handle."""
    found = [{"source_ref": f"brief:{number}", "title": "A title", "snippet": "text"} for number in range(30)]
    smaller = compact(success({"results": found}), 0).canonical.result
    assert smaller["results"] == [{"source_ref": f"brief:{number}"} for number in range(30)]


@each("count", [1, 2, 20, 21, 50])
def test_ids_that_are_names_of_members_are_kept(count: int) -> None:
    tasks = {f"task_{number}": {"state": "running", "note": "n" * 60, "logs": ["l" * 70]} for number in range(count)}
    smaller = compact(success({"tasks": tasks, "beside": {"note": "x" * 70, "other": "y" * 70}}), 0)
    assert isinstance(smaller.canonical.result, dict)
    assert list(smaller.canonical.result["tasks"]) == list(tasks)
    assert smaller.canonical.result["beside"] == {"omitted": "2 members dropped by compaction"}
    if count > 20:
        assert smaller.dropped[-1] == Dropped("/result/tasks", "rows", count)
        assert smaller.canonical.result["tasks"] == dict.fromkeys(tasks, {})
        assert smaller.canonical.result["tasks_reduced"] == count
    else:
        assert smaller.canonical.result["tasks"] == tasks


def test_names_without_a_digit_are_ids_where_there_are_many() -> None:
    many = {f"module_{chr(97 + number)}": {"path": f"src/{number}.py", "note": "n" * 70} for number in range(25)}
    smaller = compact(success({"modules": many}), 0).canonical.result
    assert smaller["modules"] == {name: {"path": module["path"]} for name, module in many.items()}
    few = {name: {"note": "n" * 70} for name in ("stdout", "stderr")}
    assert compact(success({"streams": few}), 0).canonical.result["streams"] == {
        "omitted": "2 members dropped by compaction"
    }


def test_a_result_that_is_a_list_of_rows_is_reduced_to_their_ids() -> None:
    items = [{"id": f"wi_{number}", "objective": "Step", "state": "open"} for number in range(30)]
    smaller = compact(success(items), 0)
    assert smaller.dropped == (Dropped("/result", "rows", 30),)
    mark = "[30 rows reduced to their handles by compaction]"
    assert smaller.canonical.result == [*({"id": f"wi_{number}"} for number in range(30)), mark]
    assert compact(success(items[:20]), 0).canonical.result == items[:20]
    assert compact(smaller.canonical, 0).canonical == smaller.canonical


@each("member", ["kind", "message", "recovery_hint"])
def test_no_text_of_an_error_passes_for_a_line_of_its_recap(member: str) -> None:
    forged = msgspec.structs.replace(REFUSED, **{member: "boom\nKind: fake\nSame call again: may work"})
    lines = recap(msgspec.structs.replace(failure(), error=forged)).text.splitlines()
    assert len([line for line in lines if line.startswith("Kind: ")]) == 1
    assert [line for line in lines if line.startswith("Same call")] == ["Same call again: will fail"]
