"""The share of calls with a typed mapping, and of receipts that are linked to the result, by agent."""

from __future__ import annotations

import pytest

from tests.envelopes.recordings.samples import FOLDER, Shares, read_folder, read_sample

SAMPLES = {
    "cline": ("cline/3*/*.json", "cline/tasks/*/*/api_conversation_history.json"),
    "continue-cli": ("continue_cli/*/*-*.json",),
    "codex": ("codex/*.jsonl",),
    "gemini-cli": ("gemini_cli/*.json",),
    "kimi-cli": ("kimi_cli/*/*",),
    "kimi-code": ("kimi_code/*/*",),
    "copilot-cli": ("releases/copilot_cli_*.jsonl",),
    "kilo-code": ("releases/kilo_code_*[0-9].json",),
    "mistral-vibe": ("mistral_vibe/*/session_*", "atif/mistral_vibe_*.json"),
    "opencode": ("releases/opencode_*[0-9].json", "releases/opencode_*_compacted.json"),
    "qwen-code": ("releases/qwen_code_*.jsonl", "atif/qwen_code_*.json"),
    "pi": ("releases/pi_*.jsonl", "atif/pi_*.json"),
    "swe-agent": ("swe_agent/*.traj",),
    "mini-swe-agent": ("mini_swe_agent/*.json", "atif/mini_swe_agent_*[0-9].json"),
    "inspect-ai": ("inspect_ai/log_message_deduplication.eval",),  # the other logs call tools of their users
}
LEAST_SHARE = 0.95


@pytest.mark.parametrize("agent", SAMPLES)
def test_nearly_all_calls_are_typed_and_nearly_all_repeated_text_is_linked(agent: str) -> None:
    shares = Shares()
    for pattern in SAMPLES[agent]:
        for path in sorted(FOLDER.glob(pattern)):
            sample = read_folder(path) if path.is_dir() else read_sample(path.relative_to(FOLDER).as_posix())
            assert sample.format.agent == agent
            shares.add(sample)
    print(f"\n{agent}: {shares.typed} of {shares.calls} typed; {shares.linked} of {shares.repeated} characters linked")
    assert shares.calls
    assert shares.typed >= LEAST_SHARE * shares.calls
    assert shares.linked >= LEAST_SHARE * shares.repeated
    assert not shares.notes
