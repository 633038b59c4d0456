"""The policy of an operator: what it refuses, and how its file is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envelopes import tools
from envelopes.codecs.call import decode_policy, encode_policy
from envelopes.plan.executor import Executor
from envelopes.plan.policy import check_tool, read_policy
from envelopes.plan.shape_faults import Malformed
from envelopes.runtime.commands import CommandTools
from envelopes.runtime.file_tools import FileTools
from envelopes.runtime.workspaces import Workspaces
from envelopes.schema.call import NetworkRules, RunPolicy, Sandbox, ToolRules
from envelopes.storage.file_store import FileStore
from envelopes.text.canonical_json import named_hash
from tests.cases import each
from tests.envelopes.plan.simulation import make_plan, make_policy, make_tool, run_plan, step

STANDARD = make_policy(sandbox=Sandbox(enabled=True, allowed_roots=("/",)), max_concurrency=4)


def with_rules(tool_rules: ToolRules | None = None, network_rules: NetworkRules | None = None) -> RunPolicy:
    return RunPolicy(
        confirmations_required=False,
        sandbox=STANDARD.sandbox,
        limits=STANDARD.limits,
        tool_rules=tool_rules,
        network_rules=network_rules,
    )


@each(
    ("rules", "refused"),
    [
        ({}, set[str]()),
        ({"deny": ("WebFetch",)}, {"WebFetch"}),
        ({"allow": ("WebFetch", "TaskList"), "deny": ("TaskList",)}, {*tools()} - {"WebFetch"}),
        ({"allow": ()}, {*tools()}),
        ({"planes": ("web",)}, {*tools()} - {"WebFetch", "WebSearch"}),
        ({"max_risk": "writes"}, {name for name, tool in tools().items() if tool.risk == "commands"}),
        ({"max_risk": "read-only"}, {name for name, tool in tools().items() if tool.risk != "read-only"}),
    ],
)
def test_rules_refuse_tools_by_name_plane_and_risk(rules: dict[str, Any], refused: set[str]) -> None:
    policy = with_rules(ToolRules(**rules))
    assert {name for name, tool in tools().items() if check_tool(tool, policy)} == refused


def test_a_policy_without_a_network_refuses_the_web_tools() -> None:
    policy = with_rules(network_rules=NetworkRules(enabled=False))
    assert {name for name, tool in tools().items() if check_tool(tool, policy)} == {"WebFetch", "WebSearch"}
    error = check_tool(tools()["WebFetch"], policy)
    assert error is not None
    assert (error.kind, error.message, error.retryable) == (
        "policy_denied",
        "the policy of this run allows no network",
        False,
    )


def test_a_refused_tool_is_recorded_as_a_call_that_never_ran() -> None:
    ran: list[str] = []

    def run(given: Any, _context: Any) -> dict[str, Any]:
        ran.append(given.path)
        return {}

    policy = with_rules(ToolRules(deny=("Write",)))
    plan = make_plan(step("a", "Write", onError="skip"), step("b", "Echo", {"value": 1}))
    done = run_plan(plan, make_tool("Write", run, risk="writes"), make_tool("Echo"), policy=policy)
    assert (done.ends, ran) == ({"a": "error", "b": "ok"}, [])
    (call,) = done.calls("a")
    result = next(result for result in done.recorder.results if result.call_id == call.call_id)
    assert result.error is not None
    assert (result.error.code, result.duration_ms, result.phase) == ("POLICY_DENIED", 0, "pre_dispatch")
    header = done.recorder.header
    assert header is not None
    assert header.policy_hash == named_hash(header.to_json()["policy"])


def test_paths_that_a_tool_finds_in_its_arguments_pass_the_sandbox() -> None:
    ran: list[str] = []

    def run(given: Any, _context: Any) -> dict[str, Any]:
        ran.append(given.value)
        return {}

    tool = make_tool("Patch", run, risk="writes")
    tool = type(tool)(tool.definition, tool.run, find_paths=lambda given: given.value.split())
    policy = make_policy(sandbox=Sandbox(enabled=True, deny_patterns=("secrets",)))
    plan = make_plan(
        step("a", "Patch", {"value": "a.md secrets/b.md"}, onError="skip"),
        step("b", "Patch", {"value": "a.md b.md"}),
    )
    done = run_plan(plan, tool, policy=policy)
    assert (done.ends, ran) == ({"a": "error", "b": "ok"}, ["a.md b.md"])


def test_commands_and_patches_start_in_an_allowed_folder(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    workspaces, store = Workspaces({"w": tmp_path}), FileStore(tmp_path / "store")
    commands, files = CommandTools(workspaces, tmp_path / "running", store), FileTools(workspaces, store.open)
    patch = "--- /dev/null\n+++ b/{}\n@@ -0,0 +1 @@\n+x\n"
    steps = (
        step("at_root", "ExecCommand", {"cmd": "touch here", "login": False}),
        step("batch", "ExecCommandBatch", {"items": [{"cmd": "touch here", "login": False}]}),
        step("named", "ExecCommand", {"cmd": "touch here", "login": False, "workdir": "notes"}),
        step("outside", "ApplyPatch", {"patch": patch.format("a.md")}),
        step("enter", "UseWorkspace", {"path": "notes"}),
        step("inside", "ExecCommand", {"cmd": "touch there", "login": False}, dependsOn=["enter"]),
    )
    policy = make_policy(sandbox=Sandbox(enabled=True, allowed_roots=("/notes",)))
    tools_here = (*commands.tools(), *files.tools(), *workspaces.tools())
    plan = make_plan(*steps, defaults={"onError": "skip"})
    ended = Executor(tools_here, policy).run(plan).steps
    commands.close()
    refused = {"at_root": "error", "batch": "error", "outside": "error"}
    assert {state.step_id: state.end for state in ended if state.end != "ok"} == refused
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*here")) == [
        "notes/here",
        "notes/there",
    ]


def test_a_link_leads_out_of_no_allowed_folder_and_into_no_denied_one(tmp_path: Path) -> None:
    for folder in ("notes/real", "secrets", "store"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "notes" / "link").symlink_to("../secrets")
    (tmp_path / "notes" / "alias").symlink_to("real")
    (tmp_path / "secrets" / "k.txt").write_text("key\n")
    workspaces, store = Workspaces({"w": tmp_path}), FileStore(tmp_path / "store")
    commands, files = CommandTools(workspaces, tmp_path / "running", store), FileTools(workspaces, store.open)
    change = "--- a/notes/link/k.txt\n+++ b/notes/link/k.txt\n@@ -1 +1 @@\n-key\n+changed\n"
    move = "diff --git a/notes/link/k.txt b/notes/k\nrename from notes/link/k.txt\nrename to notes/k\n"
    add = "--- /dev/null\n+++ b/notes/{}/new\n@@ -0,0 +1 @@\n+x\n"
    touch = {"cmd": "touch z", "login": False}
    steps = (
        step("patch", "ApplyPatch", {"patch": change}),
        step("add", "ApplyPatch", {"patch": add.format("link")}),
        step("move", "ApplyPatch", {"patch": move}),
        step("command", "ExecCommand", {**touch, "workdir": "notes/link"}),
        step("batch", "ExecCommandBatch", {"items": [{**touch, "workdir": "notes/link"}]}),
        step("enter", "UseWorkspace", {"path": "notes/link"}),
        step("enter_below", "UseWorkspace", {"workspace_id": "w", "cwd": "notes/link"}),
        step("alias", "ApplyPatch", {"patch": add.format("alias")}),
        step("alias_command", "ExecCommand", {**touch, "workdir": "notes/alias"}),
    )
    for sandbox in (
        Sandbox(enabled=True, allowed_roots=("/notes",), deny_patterns=("secrets",)),
        Sandbox(enabled=True, allowed_roots=("/notes",)),
        Sandbox(enabled=True, deny_patterns=("secrets",)),
    ):
        plan = make_plan(*steps, defaults={"onError": "skip"})
        ended = Executor((*commands.tools(), *files.tools(), *workspaces.tools()), make_policy(sandbox=sandbox)).run(
            plan
        )
        assert [state.step_id for state in ended.steps if state.end == "ok"] == ["batch", "alias", "alias_command"]
        (item,) = next(state.output for state in ended.steps if state.step_id == "batch")["items"]
        assert (item["status"], item["error_kind"]) == (
            "rejected",
            "policy_denied" if sandbox.deny_patterns else "execution_root_violation",
        )
        assert {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()} == {"k.txt": "key\n"}
        assert {path.name for path in (tmp_path / "notes" / "real").iterdir()} == {"new", "z"}
        (tmp_path / "notes" / "real" / "new").unlink()
    commands.close()


def test_a_file_replaces_single_members_and_survives_its_wire_form() -> None:
    document = {"sandbox": {"denyPatterns": ["keys"]}, "limits": {"maxRunMs": 5}, "toolRules": {"maxRisk": "writes"}}
    policy = read_policy(document, STANDARD, tools())
    assert policy.sandbox == Sandbox(enabled=True, allowed_roots=("/",), deny_patterns=("keys",))
    assert (policy.limits.max_concurrency, policy.limits.max_run_ms) == (4, 5)
    assert policy.tool_rules == ToolRules(max_risk="writes")
    assert decode_policy(encode_policy(policy)) == policy


@each(
    ("document", "message"),
    [
        ([], "the policy must be an object"),
        ({"sandboxes": {}}, "policy: there is no member sandboxes; nearest: sandbox"),
        ({"sandbox": {"denyPaths": []}}, "sandbox: there is no member denyPaths; nearest: denyPatterns"),
        ({"sandbox": None}, "sandbox: must be an object, not null"),
        ({"limits": {"attempts": 1}}, "limits: there is no member attempts; nearest: maxAttempts"),
        (
            {"limits": {"maxSteps": "9"}, "toolRules": {"denied": []}},
            "not a text; toolRules: there is no member denied",
        ),
        ({"limits": {"maxRunMs": 10**20}}, "limits/maxRunMs: 100000000000000000000 is more than a year"),
        ({"toolRules": {"deny": ["ExecComand"]}}, "there is no ExecComand; nearest: ExecCommand"),
        ({"toolRules": {"planes": ["webs"]}}, "there is no webs; nearest: web"),
        (
            {"toolRules": {"deny": ["ExecComand"], "planes": ["x"]}},
            "nearest: ExecCommand; toolRules/planes/0: there is no x",
        ),
        ({"toolRules": {"maxRisk": "none"}}, 'toolRules/maxRisk: "none" is none of: read-only, writes, commands'),
        ({"sandbox": {"allowedRoots": ["/../etc"]}}, "leaves the workspace"),
        ({"sandbox": {"enabled": "no"}}, "sandbox/enabled: must be true or false, not a text"),
        ({"limits": {"maxAttempts": -1}}, "is negative"),
        ({"limits": {"maxTimeoutMs": 0}}, "limits/maxTimeoutMs: 0 leaves no call any time; the least is 1"),
    ],
)
def test_a_file_with_an_unknown_member_or_name_is_refused(document: Any, message: str) -> None:
    with pytest.raises(Malformed, match=message):
        read_policy(document, STANDARD, tools())
