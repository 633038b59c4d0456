"""Sessions in several files, and sessions that tell of other sessions."""

from __future__ import annotations

from typing import Any

from tests.dashboard.sessions import SESSION, answers, asks, user
from tests.dashboard.unseen.made import AGENT, CHILD, OTHER, SPAWN, SPAWNED, Recorded, lines, plain, session, without


def _progress(message: Any) -> dict[str, Any]:
    data = {"type": "agent_progress", "agentId": AGENT, "prompt": "look", "message": message}
    return plain("progress", uuid="p1", data=data, toolUseID="agent_msg_1", parentToolUseID="toolu_spawn")


META = b'{"agentType":"Explore","toolUseId":"toolu_spawn","spawnDepth":1}'
RECORDINGS: dict[str, Recorded] = {
    "a subagent in a folder": Recorded(
        {
            f"{SESSION}.jsonl": lines(SPAWN, SPAWNED),
            f"{SESSION}/subagents/agent-{AGENT}.jsonl": lines(*CHILD),
            f"{SESSION}/subagents/agent-{AGENT}.meta.json": META,
        }
    ),
    "a subagent beside its session": Recorded(
        {f"{SESSION}.jsonl": lines(SPAWN, SPAWNED), f"agent-{AGENT}.jsonl": lines(*CHILD)}
    ),
    "a subagent of a workflow": Recorded(
        {
            f"{SESSION}.jsonl": lines(SPAWN, SPAWNED),
            f"{SESSION}/subagents/workflows/wf_1/agent-{AGENT}.jsonl": lines(*CHILD),
        }
    ),
    "the journal of a workflow": Recorded(
        {
            f"{SESSION}/subagents/workflows/wf_1/agent-{AGENT}.jsonl": lines(*CHILD),
            f"{SESSION}/subagents/workflows/wf_1/journal.jsonl": lines(
                {"type": "started", "key": "v2:one", "agentId": AGENT},
                {"type": "result", "key": "v2:one", "agentId": AGENT, "result": {"found": 2}},
            )
            + b"{cut\n",
        },
        {f"{SESSION}/subagents/workflows/wf_1/journal.jsonl": (3,)},
    ),
    "a subagent within its session": session(
        user("go", uuid="u0"), SPAWN, *[{**one, "parentUuid": None} for one in CHILD], SPAWNED
    ),
    "a subagent without a name within its session": session(
        SPAWN,
        *[
            {**without(one, "agentId"), "parentUuid": parent}
            for one, parent in zip(CHILD, (None, "c1", "a-toolu_c1"), strict=True)
        ],
        SPAWNED,
    ),
    "a subagent in progress lines alone": session(
        SPAWN, _progress(CHILD[0]), _progress(CHILD[1]), _progress(CHILD[2]), SPAWNED
    ),
    "a subagent without its session": Recorded({f"agent-{AGENT}.jsonl": lines(*CHILD)}),
    "a resumed session that keeps the old ids": Recorded(
        {
            f"{SESSION}.jsonl": lines(asks("toolu_1"), answers("toolu_1")),
            f"{OTHER}.jsonl": lines(
                asks("toolu_1"), answers("toolu_1"), asks("toolu_2", session=OTHER), answers("toolu_2", session=OTHER)
            ),
        }
    ),
    "a fork that says where it came from": Recorded(
        {
            f"{SESSION}.jsonl": lines(asks("toolu_1"), answers("toolu_1")),
            f"{OTHER}.jsonl": lines(
                *[
                    {**one, "forkedFrom": {"sessionId": SESSION, "messageUuid": "m"}}
                    for one in (asks("toolu_1", session=OTHER), answers("toolu_1", session=OTHER))
                ],
                asks("toolu_2", session=OTHER),
            ),
        }
    ),
    "two sessions that number their calls": Recorded(
        {
            f"{name}.jsonl": lines(asks("call_0", session=name), answers("call_0", name, session=name))
            for name in (SESSION, OTHER)
        }
    ),
    "progress of every kind": session(
        asks("toolu_1"),
        *[
            plain(
                "progress",
                data={"type": kind, "output": "x", "fullOutput": "xy", "elapsedTimeSeconds": 1},
                toolUseID="b",
                parentToolUseID="toolu_1",
            )
            for kind in (
                "bash_progress",
                "mcp_progress",
                "hook_progress",
                "waiting_for_task",
                "query_update",
                "skill_progress",
                "never_seen",
            )
        ],
        plain("progress"),
        plain("progress", data=None),
        plain("progress", data=[1]),
        plain("progress", data={"type": "agent_progress", "agentId": "z"}),
        answers("toolu_1"),
    ),
}
