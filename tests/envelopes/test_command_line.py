"""What is said of a command's text: no secret, no script, never more than 240 characters."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envelopes.families.command.command_line import describe

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
def test_a_preview_tells_no_secret(cmd: str, preview: str) -> None:
    assert describe(cmd).preview == preview


@pytest.mark.parametrize(
    "cmd",
    ["make -j4 PREFIX=/usr", "git commit -m 'x' --author='A <a@b>'", "grep keyword= src", "ssh -p 22 host", "ls a b"],
)
def test_a_harmless_command_is_shown_as_it_is(cmd: str) -> None:
    assert describe(cmd).preview == cmd


@settings(max_examples=200, deadline=None)
@given(
    name=st.from_regex(r"[A-Z]{0,8}_?(TOKEN|API_KEY|PASSWORD|SECRET)", fullmatch=True),
    form=st.sampled_from(["{0}={1} make", "run --{2} {1} now", "run --{2}={1}", "x '{0}: {1}'", 'x "{0}":"{1}"']),
    padding=st.integers(0, 260),
)
def test_a_secret_is_gone_wherever_the_preview_ends(name: str, form: str, padding: int) -> None:
    cmd = "a " * padding + form.format(name, SECRET, name.lower().replace("_", "-").strip("-"))
    assert "hunter" not in describe(cmd).preview


def test_scripts_are_replaced_by_a_note() -> None:
    heredoc = describe("cat <<'EOF' > run.sh\nrm -rf build\nEOF\nsh run.sh")
    assert heredoc.preview == "cat <<'EOF' > run.sh [heredoc left out] EOF sh run.sh"
    assert (heredoc.contains_heredoc, heredoc.contains_inline_script) == (True, False)
    inline = describe("python -I -c 'import os; os.abort()' && bash -lc \"exit 1\"")
    assert inline.preview == "python -I -c [inline script left out] && bash -lc [inline script left out]"
    assert (inline.contains_heredoc, inline.contains_inline_script) == (False, True)


def test_several_heredocs_of_one_line_are_all_left_out() -> None:
    assert "secret" not in describe("diff <(cat <<A) - <<B\nsecret 1\nA\nsecret 2\nB\nls").preview


def test_a_shift_is_no_heredoc() -> None:
    found = describe("echo $((bits << width))")
    assert (found.preview, found.contains_heredoc) == ("echo $((bits << width))", False)


def test_a_preview_is_one_line_of_at_most_240_characters_and_the_digest_is_of_the_whole() -> None:
    cmd = "echo a\n  b " + "c" * 300
    found = describe(cmd)
    assert found.preview.startswith("echo a b ccc")
    assert (len(found.preview), found.preview[-1]) == (240, "…")
    assert found.digest == hashlib.sha256(cmd.encode()).hexdigest()
