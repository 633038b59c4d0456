"""OpenHands' tools that record texts and nothing else: think, finish, delegate, the browser and the like."""

from __future__ import annotations

from envelopes.alignment.mapping import ToolMapping
from envelopes.alignment.openhands_receipts import AGENT, align_observation
from envelopes.families.external.any_agent import FALLBACK_MAPPING

TOOLS = (
    *("think", "finish", "delegate", "invoke_skill", "switch_llm", "vision_inspect", "ask_oracle", "workflow"),
    *("browser_navigate", "browser_click", "browser_type", "browser_get_state", "browser_get_content"),
    *("browser_scroll", "browser_go_back", "browser_list_tabs", "browser_switch_tab", "browser_close_tab"),
)
MAPPINGS = (ToolMapping(agent=AGENT, tools=TOOLS, version=1, read=FALLBACK_MAPPING.read, align=align_observation),)
