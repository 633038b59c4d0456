"""The preview of a command has no secret, no script and at most 240 characters."""

from __future__ import annotations

import hashlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.families.command.results import BatchItem, BatchResult, CommandResult, RunningCommand
from envelopes.families.registry import builtin
from envelopes.families.task.results import (
    ActiveTasks,
    InputOffered,
    StopRequested,
    TaskCommand,
    TaskDigest,
    TaskSnapshot,
    TaskState,
    TaskStopped,
)
from envelopes.pipeline.render import render
from envelopes.schema.result import TaskHandle
from envelopes.text.credentials import REDACTED, SHAPES, find_secrets, redact
from envelopes.text.pointer import resolve
from envelopes.text.preview import preview_command
from envelopes.variants import variants_for
from tests.envelopes.built_in import output, projected

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("cmd", "preview"),
    [
        ("API_KEY=hunter2 make test", "API_KEY=[redacted] make test"),
        ("export AWS_SECRET_ACCESS_KEY='hunter2 x' && ls", "export AWS_SECRET_ACCESS_KEY=[redacted] && ls"),
        ("deploy --token hunter2 --dry-run", "deploy --token [redacted] --dry-run"),
        ('deploy --api-key="hunter2 x" now', "deploy --api-key=[redacted] now"),
        ("curl https://bot:hunter2@example.org/x", "curl https://[redacted]@example.org/x"),
        ("psql postgres://u:p@hunter2@db/ledger", "psql postgres://[redacted]@db/ledger"),
        ("curl -u bot:hunter2 https://example.org", "curl -u bot:[redacted] https://example.org"),
        (
            "curl 'https://example.org/?access_token=hunter2&n=1'",
            "curl 'https://example.org/?access_token=[redacted]&n=1'",
        ),
        ("curl -H 'Authorization: Bearer hunter2' x", "curl -H 'Authorization: Bearer [redacted]' x"),
        ("curl -H 'X-Api-Key: hunter2' x", "curl -H 'X-Api-Key: [redacted]' x"),
        ('curl -d "{\\"password\\":\\"hunter2 x\\"}" x', 'curl -d "{\\"password\\":[redacted]}" x'),
        ('curl -d \'{"client_secret": "hunter2"}\' x', "curl -d '{\"client_secret\": [redacted]}' x"),
        ("sshpass -p hunter2 ssh host", "sshpass -p [redacted] ssh host"),
        ("mysql -u root -phunter2 db", "mysql -u root -p[redacted] db"),
        ("echo ghp_0123456789abcdefghijABCDEFGHIJ", "echo [redacted]"),
    ],
)
def test_a_preview_contains_no_secret(cmd: str, preview: str) -> None:
    assert preview_command(cmd).preview == preview


@pytest.mark.parametrize(
    "cmd",
    ["make -j4 PREFIX=/usr", "git commit -m 'x' --author='A <a@b>'", "grep keyword= src", "ssh -p 22 host", "ls a b"],
)
def test_a_harmless_command_is_shown_as_it_is(cmd: str) -> None:
    assert preview_command(cmd).preview == cmd


@given(
    name=st.from_regex(r"[A-Z]{0,8}_?(TOKEN|API_KEY|PASSWORD|SECRET)", fullmatch=True),
    form=st.sampled_from(["{0}={1} make", "run --{2} {1} now", "run --{2}={1}", "x '{0}: {1}'", 'x "{0}":"{1}"']),
    padding=st.integers(0, 260),
)
def test_a_secret_is_gone_wherever_the_preview_ends(name: str, form: str, padding: int) -> None:
    cmd = "a " * padding + form.format(name, SECRET, name.lower().replace("_", "-").strip("-"))
    assert "hunter" not in preview_command(cmd).preview


def test_scripts_are_replaced_by_a_note() -> None:
    heredoc = preview_command("cat <<'EOF' > run.sh\nrm -rf build\nEOF\nsh run.sh")
    assert heredoc.preview == "cat <<'EOF' > run.sh [heredoc left out] EOF sh run.sh"
    assert (heredoc.contains_heredoc, heredoc.contains_inline_script) == (True, False)
    inline = preview_command("python -I -c 'import os; os.abort()' && bash -lc \"exit 1\"")
    assert inline.preview == "python -I -c [inline script left out] && bash -lc [inline script left out]"
    assert (inline.contains_heredoc, inline.contains_inline_script) == (False, True)


def test_several_heredocs_of_one_line_are_all_left_out() -> None:
    assert "secret" not in preview_command("diff <(cat <<A) - <<B\nsecret 1\nA\nsecret 2\nB\nls").preview


def test_a_shift_is_no_heredoc() -> None:
    shift = preview_command("echo $((bits << width))")
    assert (shift.preview, shift.contains_heredoc) == ("echo $((bits << width))", False)


def test_a_preview_is_one_line_of_at_most_240_characters_and_the_digest_is_of_the_whole() -> None:
    cmd = "echo a\n  b " + "c" * 300
    command = preview_command(cmd)
    assert command.preview.startswith("echo a b ccc")
    assert (len(command.preview), command.preview[-1]) == (240, "…")
    assert command.digest == hashlib.sha256(cmd.encode()).hexdigest()


SECRETIVE = "curl -H 'Authorization: Bearer hunter2' https://bot:hunter2@example.org/?access_token=hunter2"
TASK_COMMAND = TaskCommand(cmd=SECRETIVE)
DIGEST = TaskDigest(id="task_1", kind="command_task", status="running", updated_at="2026-01-01T00:00:00Z")
SNAPSHOT = TaskSnapshot(
    task_id="task_1",
    kind="command_task",
    status="running",
    created_at="2026-01-01T00:00:00Z",
    updated_at="2026-01-01T00:00:00Z",
    command=TASK_COMMAND,
)
SAYING_A_COMMAND: dict[str, msgspec.Struct] = {
    "ExecCommand": CommandResult(exit_status=0, cmd=SECRETIVE),
    "ExecCommand, running already": RunningCommand(
        task=TaskHandle(task_id="task_1", kind="command_task"), cmd=SECRETIVE, summary="one curl"
    ),
    "ExecCommandBatch": BatchResult(
        items=(BatchItem(cmd=SECRETIVE, status="completed", result=CommandResult(exit_status=0, cmd=SECRETIVE)),)
    ),
    "TaskList": ActiveTasks((msgspec.structs.replace(DIGEST, command=TASK_COMMAND),)),
    "TaskStatus": TaskState(SNAPSHOT),
    "TaskInput": InputOffered(task=SNAPSHOT, accepted_input=True, input_target="stdin", bytes_written=3),
    "TaskStop": StopRequested(task=SNAPSHOT),
    "TaskStop, as a foreign agent says it": TaskStopped(task_id="task_1", command=SECRETIVE),
}


@pytest.mark.parametrize("said_by", SAYING_A_COMMAND)
def test_no_tool_says_the_secrets_of_a_command_in_either_half(said_by: str) -> None:
    tool = said_by.partition(",")[0]
    canonical = projected(output(tool, SAYING_A_COMMAND[said_by])).canonical
    document = json.dumps(canonical.to_json())
    assert "hunter2" not in document
    assert REDACTED in document
    family, _ = builtin(tool)
    for variant in variants_for(family):
        assert "hunter2" not in render(canonical, family, variant.policy, variant=variant).text, variant.id


@pytest.mark.parametrize("tool", ["TaskStatus", "TaskList"])
def test_a_task_names_its_command_by_the_digest_of_the_whole(tool: str) -> None:
    document = json.dumps(projected(output(tool, SAYING_A_COMMAND[tool])).canonical.to_json())
    assert hashlib.sha256(SECRETIVE.encode()).hexdigest() in document


def test_a_digest_that_the_runtime_gave_is_kept_and_none_is_made_without_a_text() -> None:
    for command, expected in (
        (TaskCommand(cmd="ls", cmd_digest="sha256:ab"), {"cmd": "ls", "cmd_digest": "sha256:ab"}),
        (TaskCommand(cmd_digest="sha256:ab"), {"cmd_digest": "sha256:ab"}),
        (TaskCommand(tty=True), {"tty": True}),
    ):
        state = TaskState(msgspec.structs.replace(SNAPSHOT, command=command))
        assert resolve(projected(output("TaskStatus", state)).canonical.result, "/task/command") == expected


KNOWN_BY_SHAPE = [
    "AKIA2E3RWZTQ4HNBVJKL",
    "ghp_" + "a1B2" * 9,
    "glpat-" + "a1B2" * 5,
    "xoxb-12345678901-" + "a1B2" * 5,
    "sk-ant-api03-" + "a1B2" * 12,
    "sk-proj-" + "a1B2" * 12,
    "AIza" + "a1B2c" * 7,
    "sk_live_" + "a1B2" * 7,
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("text", KNOWN_BY_SHAPE)
def test_whatever_is_certainly_a_secret_is_redacted_too(text: str) -> None:
    """Lint and redaction use one table, so that neither can miss a shape that the other knows."""
    (secret,) = find_secrets(f"use {text} now")
    header = text.partition("\n")[0] if "KEY-----" in text else ""
    footer = text.rpartition("\n")[2] if header else ""
    assert redact(f"use {text} now") == f"use {header}{REDACTED}{footer} now"
    assert (secret.start, secret.end) == (4, secret.end)


def test_every_certain_shape_has_its_example() -> None:
    kinds = {secret.kind for text in KNOWN_BY_SHAPE for secret in find_secrets(text)}
    assert kinds == {shape.title for shape in SHAPES if shape.certain}


def test_a_key_that_is_only_sought_is_no_secret() -> None:
    assert redact("grep -r -e '-----BEGIN PRIVATE KEY-----' certs") == "grep -r -e '-----BEGIN PRIVATE KEY-----' certs"
