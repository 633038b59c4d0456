"""Cline's tools for MCP servers, a browser and a team of agents, which return content blocks, JSON or a text."""

from __future__ import annotations

import msgspec

from envelopes.alignment.cline_receipts import AGENT, align_sent, read_answer
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.families.external.any_agent import FALLBACK_MAPPING

TEAM = (
    *("team_spawn_teammate", "team_shutdown_teammate", "team_status", "team_task", "team_cancel_run", "team_list_runs"),
    *("team_await_runs", "team_send_message", "team_broadcast", "team_read_mailbox", "team_mission_log"),
    *("team_cleanup", "team_create_outcome", "team_attach_outcome_fragment", "team_review_outcome_fragment"),
    *("team_finalize_outcome", "team_list_outcomes"),
)
TEXTS = ("access_mcp_resource", "load_mcp_documentation", "browser_action", "focus_chain")
FAILED = "Error:\n"  # before the texts of an answer of a server that states an error


def _read_text(evidence: Evidence) -> Reading:
    return FALLBACK_MAPPING.read(read_answer(evidence))


def _read_server_text(evidence: Evidence) -> Reading:
    answer = read_answer(evidence)
    text = answer.receipt_text or ""
    if text.startswith(FAILED):
        answer = msgspec.structs.replace(answer, receipt_text=text.removeprefix(FAILED), is_error=True)
    return FALLBACK_MAPPING.read(answer)


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=TEAM, version=1, read=FALLBACK_MAPPING.read, align=align_sent),
    ToolMapping(agent=AGENT, tools=("use_mcp_tool",), version=1, read=_read_server_text, align=align_sent),
    ToolMapping(agent=AGENT, tools=TEXTS, version=1, read=_read_text, align=align_sent),
)
