"""What a projection cut is flagged beside it, in every family; and no receipt is written as JSON."""

from __future__ import annotations

import json
from typing import Any

from envelopes.families.registry import samples, tools
from envelopes.text.pointer import resolve
from tests.envelopes.built_in import projected, receipt_text

FLAGGED = {
    "ExecCommand/large": "/result/stdout_truncated",
    "ExecCommandBatch/large": "/result/items/0/result/stdout_truncated",
    "TaskOutput/large": "/result/task/output_truncated",
    "WebFetch/large": "/result/text_truncated",
    "MemoryGet/large": "/result/memory/content_truncated",
    "SpawnAgent/large": "/result/initial_output_truncated",
}


def test_every_family_flags_what_it_cut() -> None:
    """RFC-083: the family's own flag, and none where nothing was cut."""
    for name, pointer in FLAGGED.items():
        tool = name.partition("/")[0]
        assert resolve(projected(samples(tool)["large"]).canonical.to_json(), pointer) is True, name
        whole = str(projected(samples(tool)["success"]).canonical.to_json())
        assert f"'{pointer.rpartition('/')[2]}': True" not in whole


def test_every_cut_is_flagged_where_it_is() -> None:
    """A list counts what it left out; a text has a flag, an artifact, the next line, or ends in an ellipsis."""
    unflagged: list[str] = []
    for tool in tools():
        for sort, sample in samples(tool).items():
            projection = projected(sample)
            for cut in projection.cuts:
                parent, _, name = cut.pointer.rpartition("/")
                members = resolve(projection.canonical.to_json(), parent)
                if not _is_flagged(members, name):
                    unflagged.append(f"{tool}/{sort}{cut.pointer}")
    assert not unflagged


def _is_flagged(members: Any, name: str) -> bool:
    text = members[int(name)] if isinstance(members, list) else members.get(name)
    if isinstance(members, list) or (isinstance(text, str) and text.endswith("…")):
        return isinstance(text, str) and text.endswith("…")
    stem = name.removesuffix("_preview")
    flags = (members.get(f"{stem}_truncated"), members.get("truncated"), members.get("preview_complete") is False)
    places = (members.get(f"{stem}_omitted"), members.get(f"{stem}_artifact"), members.get("next_line"))
    return any(flags) or any(isinstance(place, int) for place in places)


def test_no_receipt_is_written_as_json() -> None:
    """RFC-048: a tool's own output may be JSON; a receipt, or what follows its headline, is not."""
    for tool in tools():
        for sort, sample in samples(tool).items():
            text = receipt_text(sample)
            assert not [part for part in (text, text.partition("\n")[2]) if _is_document(part)], f"{tool}/{sort}"


def _is_document(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except json.JSONDecodeError:
        return False
