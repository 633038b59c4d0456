"""The changes of a folder, and whose they are (CALL-056, E-28)."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from pathlib import Path
from typing import Any

from envelopes.plan.effects import EffectsObserver, compare, merge, scan_folder, scan_folders
from envelopes.plan.tool_answers import Tool
from envelopes.runtime.file_tools import FileTools
from envelopes.schema.settlement import Created, Deleted, Effects, Modified, Renamed
from envelopes.storage.file_store import FileStore
from tests.envelopes.plan.simulation import HANG, Ran, Simulation, Value, echo, make_plan, make_tool, run_plan, step


def paths(effects: Effects | None) -> dict[str, list[str]]:
    assert effects is not None
    members = {"created": effects.created, "modified": effects.modified, "deleted": effects.deleted}
    return {name: [entry.path for entry in entries] for name, entries in members.items() if entries}


def test_a_folder_is_compared_by_content(tmp_path: Path) -> None:
    for name in ("same", "changed", "gone", "touched"):
        (tmp_path / name).write_text(name)
    (tmp_path / "was_file").write_text("x")
    (tmp_path / ".git").mkdir()
    before = scan_folder(tmp_path)
    (tmp_path / "changed").write_text("other")
    (tmp_path / "gone").unlink()
    (tmp_path / "touched").write_text("touched")
    (tmp_path / "was_file").unlink()
    (tmp_path / "was_file").mkdir()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a.md").write_text("a")
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / ".git" / "index").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    effects = compare(before, scan_folder(tmp_path, before))
    assert paths(effects) == {
        "created": ["link", "new", "new/a.md", "pipe", "was_file"],
        "modified": ["changed"],
        "deleted": ["gone", "was_file"],
    }
    assert effects.modified is not None
    assert effects.modified[0].before_etag != effects.modified[0].after_etag
    assert effects.created is not None
    assert [entry.kind for entry in effects.created] == ["file", "folder", "file", "file", "folder"]


def test_what_the_tool_reports_completes_what_was_observed() -> None:
    observed = Effects(created=(), modified=(), deleted=())
    reported = Effects(side_effects_observed=("run-command",), created=(Created(path="a", kind="file"),))
    assert merge(observed, reported) == Effects(
        side_effects_observed=("run-command",), created=(), modified=(), deleted=()
    )
    hook, moved = Created(path=".git/hooks/pre-commit", kind="file"), Renamed(from_path="a", to_path="b")
    seen = Effects(
        created=(Created(path="b", kind="file"), Created(path="c", kind="file")),
        modified=(),
        deleted=(Deleted(path="a", kind="file"),),
    )
    unseen = Renamed(from_path="x", to_path="c")
    told = Effects(created=(hook, Created(path="lost", kind="file")), renamed=(moved, unseen))
    assert merge(seen, told) == Effects(
        created=(Created(path="c", kind="file"), hook), modified=(), deleted=(), renamed=(moved,)
    )
    assert merge(None, reported) is reported
    assert merge(observed, None) is observed


class World:
    """A folder, and tools that write to it; each file has the name that the call gives."""

    def __init__(self, root: Path) -> None:
        self.root, self.time = root, Simulation()

    def write(self, name: str) -> None:
        (self.root / name).write_text(name)

    def tool(self, takes: float = 0, **fields: Any) -> Tool:
        def run(given: Value, context: Any) -> Any:
            self.write(given.path or "x")
            self.time.take(takes)
            return echo(given, context)

        return make_tool("Write", run, **{"risk": "writes", **fields})

    def run(self, *steps: dict[str, Any], tools: tuple[Tool, ...]) -> Ran:
        scan = partial(scan_folder, self.root)
        return run_plan(make_plan(*steps), *tools, simulation=self.time, scan=lambda before: scan(before))

    def shared(self, ran: Ran) -> list[dict[str, list[str]]]:
        assert ran.recorder.header is not None
        return [paths(effects) for effects in ran.recorder.header.shared_effects]


def test_effects_belong_to_the_attempt_that_made_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    ran = world.run(
        step("a", "Write", {"path": "a"}), step("b", "Write", {"path": "b"}), step("c"),
        tools=(world.tool(), make_tool("Echo")),
    )  # fmt: skip
    assert [paths(result.effects) for result in ran.recorder.results[:2]] == [{"created": ["a"]}, {"created": ["b"]}]
    assert ran.recorder.results[2].effects is None  # a tool that only reads is not observed
    assert world.shared(ran) == []


def test_the_result_of_a_call_has_what_it_created_and_modified(tmp_path: Path) -> None:
    def append(given: Value, context: Any) -> Any:
        with (tmp_path / "a").open("a") as file:
            file.write("more")
        return echo(given, context)

    world = World(tmp_path)
    tool = make_tool("Append", append, risk="writes")
    ran = world.run(step("a", "Append"), step("b", "Append"), tools=(tool,))
    first, second = (result.effects for result in ran.recorder.results)
    assert first == Effects(created=(Created(path="a", kind="file"),), modified=(), deleted=())
    etags = [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in (b"more", b"moremore")]
    modified = Modified(path="a", kind="file", before_etag=etags[0], after_etag=etags[1])
    assert second == Effects(created=(), modified=(modified,), deleted=())


def test_a_rename_that_the_tool_reports_and_the_folder_shows_is_one(tmp_path: Path) -> None:
    world = World(tmp_path)

    def move(given: Value, context: Any) -> Any:
        (tmp_path / "x").rename(tmp_path / "y")
        context.effects = Effects(renamed=(Renamed(from_path="x", to_path="y"),))
        return echo(given, context)

    ran = world.run(step("a", "Write"), step("b", "Move"), tools=(world.tool(), make_tool("Move", move, risk="writes")))
    assert ran.recorder.results[1].effects == Effects(
        created=(), modified=(), deleted=(), renamed=(Renamed(from_path="x", to_path="y"),)
    )


def test_a_patch_reports_its_rename_and_a_file_of_git_that_is_not_scanned(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write("x")
    patch = (
        "--- /dev/null\n+++ b/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+exit 0\n"
        "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
    )
    store = FileStore(tmp_path.with_name(f"{tmp_path.name}-artifacts"))
    tool, _ = FileTools(tmp_path, store.open).tools()
    ran = world.run(step("a", "ApplyPatch", {"patch": patch}), tools=(tool,))
    effects = ran.recorder.results[0].effects
    assert effects is not None
    assert effects.renamed == (Renamed(from_path="x", to_path="y"),)
    assert Created(path=".git/hooks/pre-commit", kind="file") in (effects.created or ())
    assert not effects.deleted


def test_e_28_changes_outside_every_attempt_belong_to_the_run(tmp_path: Path) -> None:
    world = World(tmp_path)

    def meddle(*given: Any) -> Any:
        world.write("foreign")  # by somebody else, while a tool reads
        return echo(*given)

    tools = (world.tool(), make_tool("Read", meddle))
    ran = world.run(step("r", "Read"), step("a", "Write", {"path": "a"}), tools=tools)
    assert paths(ran.recorder.results[1].effects) == {"created": ["a"]}
    assert world.shared(ran) == [{"created": ["foreign"]}]


def test_e_28_writers_side_by_side_are_charged_to_the_run(tmp_path: Path) -> None:
    world = World(tmp_path)
    items = {"from": "$steps.items.value", "itemName": "p", "concurrency": 2}
    ran = world.run(
        step("items", args={"value": ["a", "b"]}), step("w", "Write", {"path": "{p}"}, foreach=items),
        step("c", "Write", {"path": "c"}),
        tools=(world.tool(50, parallel_safe=True), make_tool("Echo")),
    )  # fmt: skip
    assert [result.effects for result in ran.recorder.results[1:3]] == [None, None]
    assert world.shared(ran) == [{"created": ["a", "b"]}]
    assert paths(ran.recorder.results[3].effects) == {"created": ["c"]}


def test_e_28_a_call_past_its_deadline_may_still_write(tmp_path: Path) -> None:
    world = World(tmp_path)
    slow = make_tool("Slow", lambda *_: world.write("early") or world.time.take(HANG), risk="writes", timeout_ms=100)
    ran = world.run(step("s", "Slow", onError="skip"), step("a", "Write", {"path": "a"}), tools=(world.tool(), slow))
    first, second = ran.recorder.results
    assert paths(first.effects) == {"created": ["early"]}
    assert second.effects is None
    assert world.shared(ran) == [{"created": ["a"]}]


def test_e_28_once_the_late_call_answered_effects_are_attributed_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    late = make_tool("Late", lambda *given: world.time.take(150) or echo(*given), risk="writes", timeout_ms=100)
    wait = make_tool("Wait", lambda *given: world.time.take(100) or echo(*given))
    ran = world.run(
        step("l", "Late", onError="skip"), step("w", "Wait"), step("a", "Write", {"path": "a"}),
        tools=(world.tool(), late, wait),
    )  # fmt: skip
    assert paths(ran.recorder.results[2].effects) == {"created": ["a"]}


def test_e_28_what_a_late_call_changes_after_its_deadline_belongs_to_the_run(tmp_path: Path) -> None:
    world = World(tmp_path)

    def run(given: Value, context: Any) -> Any:
        world.time.take(150)
        world.time.after(120, lambda: world.write("after_the_deadline"))
        return echo(given, context)

    late = make_tool("Late", run, risk="writes", timeout_ms=100)
    wait = make_tool("Wait", lambda *given: world.time.take(100) or echo(*given))
    ran = world.run(step("l", "Late", onError="skip"), step("w", "Wait"), tools=(late, wait))
    assert paths(ran.recorder.results[0].effects) == {}
    assert world.shared(ran) == [{"created": ["after_the_deadline"]}]


def test_a_file_that_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    before = scan_folder(tmp_path)
    assert scan_folder(tmp_path, before)["a"] is before["a"]
    assert scan_folder(tmp_path / "nothing") == {}
    assert EffectsObserver(lambda known: scan_folder(tmp_path, known)).close() == ()


def test_e_28_a_copy_is_created_as_a_whole_and_what_changes_in_it_is_named_by_it(tmp_path: Path) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    for folder in (root, copy):
        folder.mkdir()
        (folder / "a.md").write_text("a")
    before = scan_folders(root, {})
    made = scan_folders(root, {"isolated/work": copy}, before)
    assert paths(compare(before, made)) == {"created": ["isolated/work:"]}
    (copy / "a.md").write_text("other")
    (copy / "b.md").write_text("b")
    after = scan_folders(root, {"isolated/work": copy}, made)
    assert paths(compare(made, after)) == {"created": ["isolated/work:b.md"], "modified": ["isolated/work:a.md"]}
    assert paths(compare(after, scan_folders(root, {}, after))) == {"deleted": ["isolated/work:"]}


def test_e_28_what_changes_while_a_task_goes_on_belongs_to_the_run(tmp_path: Path) -> None:
    is_busy = False
    observer = EffectsObserver(lambda known: scan_folder(tmp_path, known), lambda: is_busy)
    observer.begin("starts_it")
    is_busy = True
    (tmp_path / "a").write_text("a")
    assert paths(observer.end("starts_it")) == {"created": ["a"]}, "nothing ran beside it when it began"
    observer.begin("beside_it")
    is_busy = False
    (tmp_path / "b").write_text("b")
    assert observer.end("beside_it") is None
    observer.begin("after_it")
    (tmp_path / "c").write_text("c")
    assert paths(observer.end("after_it")) == {"created": ["c"]}
    assert [paths(effects) for effects in observer.close()] == [{"created": ["b"]}]
