"""Receipts that state themselves that a part of the output is missing, of agents that recorded no result."""

from __future__ import annotations

import json

import pytest

from envelopes.alignment.receipt_parts import join_contents
from envelopes.halves import Halves, read_halves

LINES = "".join(f"line {number}\n" for number in range(1_000))
RAN = "Chunk ID: 1\nProcess exited with code 0\nOutput:\n"
RUNNING = "Chunk ID: 2\nProcess running with session ID 7\nOutput:\n"
SHORTENED = f"Total output lines: 9000\n\n{LINES}…768 tokens truncated…{LINES}"
FILE = "Here's the result of running `cat -n` on /a.py:\n     1\tone\n"
CUT = {
    "codex": ("codex", "exec_command", RAN + SHORTENED, 768),
    "codex, few lines": ("codex", "shell", f"{RAN}Total output lines: 90\n\na\n…4 tokens truncated…b\n", 4),
    "codex, before the header": (
        "codex",
        "shell",
        json.dumps({"output": SHORTENED, "metadata": {"exit_code": 0}}, ensure_ascii=False),
        768,
    ),
    "codex, in the header": (
        "codex",
        "shell_command",
        "Exit code: 0\nWall time: 0.1 seconds\nTotal output lines: 90\nOutput:\na\n…4 tokens truncated…b\n",
        4,
    ),
    "codex, lines": (
        "codex",
        "shell",
        json.dumps(
            {"output": "Total output lines: 90\n\na\n\n[... omitted 88 of 90 lines ...]\n\nb\n", "metadata": {}}
        ),
        88,
    ),
    "codex, lines that the mark alone counts": (
        "codex",
        "shell",
        json.dumps({"output": "a\nb\n[... omitted 88 of 92 lines ...]\n\nc\nd\n", "metadata": {"exit_code": 0}}),
        88,
    ),
    "codex, bytes omitted": (
        "codex",
        "exec_command",
        f"{RAN}Warning: truncated output (original token count: 757576)\n... 1981727 bytes omitted ...\n\n"
        "a\n…768 tokens truncated…b",
        768,
    ),
    "codex, bytes": (
        "codex",
        "shell",
        json.dumps({"output": "Total output lines: 2\n\na\n[... output truncated to fit 10240 bytes ...]\n\nb"}),
        None,
    ),
    "codex, a script that failed": (
        "codex",
        "exec",
        f"Script failed\nWall time 0.1 seconds\nOutput:\n{LINES}…768 tokens truncated…{LINES}",
        768,
    ),
    "codex, a server": ("codex", "mcp__docs__read", f"{LINES}…768 tokens truncated…{LINES}", 768),
    "codex, code mode": ("codex", "exec", f"Warning: truncated output (original token count: 9000)\n{LINES}", None),
    "codex, code mode, behind its header": (
        "codex",
        "exec",
        "Script completed\nWall time 0.0 seconds\nOutput:\nWarning: truncated output (original token count: 1098)\n"
        "Total output lines: 500\n\na\n…1048 tokens truncated…b",
        None,
    ),
    "codex, items": ("codex", "exec", f"{LINES}\n[omitted 3 text items ...]", None),
    "gemini": (
        "gemini-cli",
        "run_shell_command",
        f"Tool output was too large and has been truncated.\nThe full output has been saved to: /a\n{LINES}",
        None,
    ),
    "swe-agent": ("swe-agent", "bash", f"{LINES}<response clipped><NOTE>Observations should not exceed …</NOTE>", None),
    "swe-agent, a file": ("swe-agent", "str_replace_editor", f"{FILE}<response clipped><NOTE>To save …</NOTE>", None),
    "mini-swe-agent": (
        "mini-swe-agent",
        "bash",
        "<returncode>0</returncode>\n<output_head>\na\n</output_head>\n<elided_chars>\n700 characters elided\n"
        "</elided_chars>\n<output_tail>\nb\n</output_tail>",
        700,
    ),
}
WHOLE = {
    "codex": ("codex", "exec_command", RAN + LINES),
    "codex, a count": ("codex", "shell", "Exit code: 0\nOutput:\na\n…4 tokens truncated…b\n"),
    "codex, lines of a text that the command printed": (
        "codex",
        "shell",
        json.dumps({"output": "a\n[... omitted 88 of 92 lines ...]\n\nb\n" + LINES, "metadata": {"exit_code": 0}}),
    ),
    "codex, quoted": ("codex", "exec_command", f"{RAN}it wrote …768 tokens truncated… there\n{LINES}"),
    "gemini": (
        "gemini-cli",
        "run_shell_command",
        f"Output: it says: Tool output was too large …\n{LINES}\nExit Code: 0",
    ),
    "swe-agent": ("swe-agent", "bash", f"grep <response clipped> a.py\n{LINES}"),
    "mini-swe-agent": (
        "mini-swe-agent",
        "bash",
        "<returncode>0</returncode>\n<output>\n7 characters elided\n</output>",
    ),
}


def read(agent: str, tool: str, content: bytes, result: bytes | None = None) -> Halves:
    return read_halves(agent=agent, tool=tool, args=b"{}", result=result, content=content, is_error=None)


@pytest.mark.parametrize("name", CUT)
def test_a_receipt_that_states_its_cut_is_cut(name: str) -> None:
    agent, tool, receipt, count = CUT[name]
    halves = read(agent, tool, json.dumps(receipt).encode())
    assert halves.is_cut
    assert [cut.count for cut in halves.reading.source_cuts] == [count]
    assert "Total output lines" not in halves.projection.canonical.summary_text
    assert not halves.note


@pytest.mark.parametrize("name", WHOLE)
def test_an_output_that_only_contains_such_words_is_whole(name: str) -> None:
    agent, tool, receipt = WHOLE[name]
    assert not read(agent, tool, json.dumps(receipt).encode()).is_cut


def test_a_polled_command_whose_last_receipt_is_shortened_is_cut_although_its_record_is_too() -> None:
    recorded = f"{LINES[:5_000]}…900000 chars truncated…{LINES[-5_000:]}"
    result = json.dumps({"exit_code": 0, "aggregated_output": recorded, "stdout": "", "stderr": ""}).encode()
    receipts = [json.dumps(text).encode() for text in (RUNNING, RAN + SHORTENED)]
    halves = read("codex", "exec_command", join_contents(receipts), result)
    assert (halves.is_cut, halves.reading.fidelity, halves.reading.is_cut_unknown) == (True, "bounded", False)
    assert [(cut.unit, cut.count) for cut in halves.reading.source_cuts] == [("tokens", 768)]


HEAD = 'Found 9 matches for pattern "x" in the workspace directory:\n---\n'
LIMITED = (
    'Found 9 matches for pattern "x" in path "." (results limited to 9 matches for performance):\n---\nFile: a\nL1: x'
)
NOTICE = (
    "\nIMPORTANT: The file content has been truncated.\nStatus: Showing lines {} of 3002 total lines.\nAction: To read "
    "more of the file, use start_line: 120.\n\n--- FILE CONTENT (truncated) ---\nline 100\n"
)


@pytest.mark.parametrize(
    ("tool", "args", "receipt", "counts"),
    [
        ("read_file", {"start_line": 100, "end_line": 119}, NOTICE.format("100-119"), []),
        ("read_file", {"start_line": 100, "end_line": 4000}, NOTICE.format("100-2099"), [903]),
        ("read_file", {"start_line": 100}, NOTICE.format("100-2099"), [903]),
        ("read_file", {}, NOTICE.format("1-2000"), [1002]),
        ("read_file", {"offset": 99, "limit": 20}, NOTICE.format("100-119"), []),
        ("read_file", {"limit": 2500}, NOTICE.format("1-2000"), [500]),
        ("grep_search", {}, f"{HEAD}/a.py:1:x\n/a...\n---\n[7 lines truncated] ...", [7]),
        ("grep_search", {}, f"{HEAD}File: a.py\nL1: x\n---\n [8 lines truncated] ...", [8]),
        ("grep_search", {"limit": 2}, f"{HEAD}/a.py:1:x\n/a.py:2:x\n---\n[7 lines truncated] ...", []),
        ("grep_search", {"limit": 8}, f"{HEAD}/a.py:1:x\n/a.py:2:x\n---\n[7 lines truncated] ...", [7]),
        ("grep_search", {}, LIMITED, [None]),
        ("grep_search", {"total_max_matches": 9}, LIMITED, []),
        ("grep_search", {"total_max_matches": 3}, LIMITED, [None]),
        ("grep_search", {}, f"{HEAD}File: a.py\nL1: [7 lines truncated] ...\n---", []),
        ("glob", {}, 'Found 9 file(s) matching "*" within /a, sorted:\n---\n/a/b\n---\n[8 files truncated] ...', [8]),
        ("list_directory", {}, "Listed 9 item(s) in /a:\n---\nb\n---\n[8 items truncated] ...", [8]),
    ],
)
def test_lines_that_a_call_did_not_ask_for_are_not_cut(
    tool: str, args: dict[str, int], receipt: str, counts: list[int | None]
) -> None:
    """The mark that stands for what an agent left out is no line of it."""
    for agent in ("gemini-cli", "qwen-code"):
        halves = read_halves(
            agent=agent,
            tool=tool,
            args=json.dumps(args).encode(),
            result=None,
            content=json.dumps(receipt).encode(),
            is_error=False,
        )
        assert halves.is_cut == bool(counts)
        assert [cut.count for cut in halves.reading.source_cuts] == counts
        assert ("truncated] ..." in json.dumps(halves.projection.canonical.result)) == ("L1: [" in receipt)
