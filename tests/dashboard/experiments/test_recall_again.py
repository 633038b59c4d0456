"""An independent computation of used-line recall over real recordings gives the same items and the same recall."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from itertools import accumulate
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User

from dashboard.experiments.recall_report import load_recall_results, load_recall_summary, measure_next_recall
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, RecallReport

SAMPLES = ("spotter/tool_heavy.jsonl", "spotter/short.jsonl", "entire/mcp_linear.jsonl", "entire/askuser_small.jsonl")
LEFT_OUT = {"Glob", "LS", "Edit", "Write", "MultiEdit", "NotebookEdit", "TodoWrite"}

Step = tuple[str, str, str, str]  # kind, call, text, working directory


def lines_of(text: str, cwd: str) -> list[tuple[int, str]]:
    text = re.sub(r"<system-reminder>.*?(</system-reminder>|\Z)", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    found = []
    for number, line in enumerate(text.split("\n")):
        line = re.sub(r"^\s*(?:[^\s:]+:)?\d+(?:→|\t|:)", "", line.replace(cwd + "/", "") if cwd else line)
        line = " ".join(line.split())
        found += [(number, line[at : at + 400]) for at in range(0, len(line), 400)]
    return found


def features(text: str) -> set[str]:
    words = re.findall(r"\w+|[^\w\s]", text)
    found = {"line " + text} if len(text) >= 20 and len(words) >= 3 else set()
    rows = (" ".join(words[at : at + 8]) for at in range(len(words) - 7))
    names = (name for name in re.findall(r"\w[\w./-]{10,}\w", text) if re.search("[A-Za-z]", name))
    mixed = re.compile(r"[_/.]|[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]", re.A)
    return found | {"row " + row for row in rows if len(row) >= 24} | {"name " + n for n in names if mixed.search(n)}


def strings(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        members = value.values() if isinstance(value, dict) else value
        return [text for member in members for text in strings(member)]
    return [value] if isinstance(value, str) else []


def texts(content: Any) -> str:
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(
        b if isinstance(b, str) else b["text"] for b in blocks if isinstance(b, str) or b["type"] == "text"
    )


def recount(runs: list[list[Step]], scored: set[str]) -> dict[str, tuple[list[tuple[int, ...]], float | None]]:
    """By call the lines of each item, and the recall of the first 1,024 characters where the output is longer."""
    unprompted: set[str] = set()
    used: dict[str, list[tuple[frozenset[int], str]]] = defaultdict(list)
    outputs: dict[str, list[tuple[int, str]]] = {}
    for steps in runs:
        sets = [set().union(*(features(piece) for _, piece in lines_of(text, cwd))) for _, _, text, cwd in steps]
        first: dict[str, int] = {}
        for index, present in enumerate(sets):
            first = dict.fromkeys(present, index) | first
        unprompted |= {feature for feature, at in first.items() if steps[at][0] in ("assistant", "call")}
        for at, (kind, call, text, cwd) in enumerate(steps):
            if kind != "output" or call not in scored:
                continue
            outputs[call] = lines_of(text, cwd)
            carriers = [(n, feature) for n, (_, piece) in enumerate(outputs[call]) for feature in features(piece)]
            for feature in {feature for feature in sets[at] if first[feature] == at}:
                later = [steps[index][0] for index in range(at + 1, len(steps)) if feature in sets[index]]
                is_used = [kind for kind in later if kind != "user"][:1] in (["assistant"], ["call"])
                places = frozenset(n for n, carried in carriers if carried == feature)
                if is_used and len(places) <= 3:
                    used[call].append((places, feature))
    counted = {}
    for call, pairs in used.items():
        sets_of = {places for places, feature in pairs if feature not in unprompted}
        items = sorted((s for s in sets_of if not any(other < s for other in sets_of)), key=sorted)
        sizes = list(accumulate(len(piece) + 1 for _, piece in outputs[call]))
        kept = {n for n, size in enumerate(sizes) if size <= 1_024}
        recall = sum(bool(s & kept) for s in items) / len(items) if items and sizes[-1] > 1_024 else None
        if items:
            counted[call] = ([tuple(sorted({outputs[call][n][0] for n in s})) for s in items], recall)
    return counted


def read_session(path: Path) -> tuple[list[Step], dict[str, str]]:
    """The steps of a session's main thread in the order of its lines, and the tool of each call."""
    rows: list[Step] = []
    tools: dict[str, str] = {}
    cwd = ""
    for line in map(json.loads, path.read_text("utf-8").splitlines()):
        if line.get("isSidechain") or line.get("type") not in ("user", "assistant") or "message" not in line:
            continue
        cwd = cwd or line.get("cwd", "")
        content = line["message"]["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if said := texts([block for block in blocks if block["type"] == "text"]):
            rows.append((line["type"], "", said, cwd))
        for block in blocks:
            if block["type"] == "tool_use":
                tools[block["id"]] = block["name"]
                rows.append(("call", block["id"], "\n".join(strings(block["input"])), cwd))
            elif block["type"] == "tool_result":
                rows.append(("output", block["tool_use_id"], texts(block.get("content") or ""), cwd))
    return rows, tools


@pytest.mark.extended
@pytest.mark.django_db
def test_a_second_computation_finds_the_same_items(project: Project, operator: User) -> None:
    paths = [Path("dashboard/samples") / sample for sample in SAMPLES]
    import_paths(project, paths)
    RecallReport.objects.create(project=project, variants=["receipt"], created_by=operator)
    assert measure_next_recall()
    report = RecallReport.objects.get()
    names = dict(Call.objects.values_list("pk", "external_id"))
    cut = set(Call.objects.filter(is_cut=True).values_list("external_id", flat=True))
    sessions = {path.name: read_session(path) for path in paths}
    tools = {call: tool for _, named in sessions.values() for call, tool in named.items()}
    scored = {call for call, tool in tools.items() if tool not in LEFT_OUT and call not in cut}
    expected = recount([rows for rows, _ in sessions.values()], scored)
    stored = load_recall_results(report).calls
    found = {
        names[UUID(bytes=call.call)]: ([item.lines for item in call.items], call.recall(256, "first"))
        for call in stored
    }
    assert len(expected) > 10
    assert found == expected
    recalls = defaultdict(list)
    for call, (_, recall) in expected.items():
        recalls[tools[call]] += [recall] if recall is not None else []
    for tool in load_recall_summary(report).tools:
        if 256 in tool.cells:
            assert tool.cells[256]["first"].mean == pytest.approx(sum(recalls[tool.tool]) / len(recalls[tool.tool]))
    permuted = []
    for path, other in zip(paths, [*paths[1:], paths[0]], strict=True):
        outputs = [step for step in sessions[path.name][0] if step[0] == "output"]
        permuted.append([*outputs, *(step for step in sessions[other.name][0] if step[0] != "output")])
    by_chance = recount(permuted, scored)
    print(f"\ncalls with an item: {len(expected)}; with the later steps of another session: {len(by_chance)} by chance")
    assert len(by_chance) < len(expected) / 5
