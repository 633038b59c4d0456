"""What a reader remembers between two lines. It lies in `state` as JSON, so that a part can follow a part.

`state` is written after all records of a line were taken: a consumer that stops between two lines,
or in the middle of one, goes on at a line and misses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2s

import msgspec

from envelopes.recordings.base import LineProblem, MessageRecord, Record

COMMAND, PROMPT, SUMMARY, GENERATED, CHOSEN = 1, 2, 3, 4, 5  # a title of a higher rank replaces a lower one
_FACTS = frozenset({"model", "version", "cwd", "branch", "started_at"})
_KEPT = 256
_NEAR = 64  # lines back
LONGEST = 1_000  # characters of one entry
_SLOT = "claude_code"
_OTHERS = "other_sessions"
_OTHERS_KEPT = 8


class Memory(msgspec.Struct):
    """`facts` is what has been told of the file's own run. The collections keep their newest entries.

    `recent` and `summaries` find out which summaries speak of this file: older releases write those of
    other sessions at its top, and only `leafUuid` tells. `sidechains` maps a message to the first one
    of its sidechain, `prompts` a prompt's digest to the call that sent it, `children` the runs told of.
    `agents` is what a stream learns late: the run of the subagent that a call started. `contents` has of
    each message the digest of what it says, for ids that come again with something else; `copied` the session
    of each copied call whose id says nothing outside of it.
    """

    session: str | None = None
    began: bool = False
    title_rank: int = 0
    facts: dict[str, str] = {}
    last_at: str | None = None
    recent: list[str] = []
    summaries: dict[str, str] = {}
    children: dict[str, str] = {}
    sidechains: dict[str, str] = {}
    prompts: dict[str, str] = {}
    agents: dict[str, str] = {}
    contents: dict[str, str] = {}
    copied: dict[str, str] = {}

    @classmethod
    def load(cls, state: dict[str, object]) -> Memory:
        return msgspec.convert(state.get(_SLOT, {}), cls)

    def store(self, state: dict[str, object]) -> None:
        state[_SLOT] = msgspec.to_builtins(self)

    @property
    def knows_run(self) -> bool:
        return self.title_rank >= PROMPT and self.facts.keys() >= _FACTS

    def learn(self, found: dict[str, str | None]) -> dict[str, str]:
        """What of `found` has not been told yet; the first value of each stands."""
        fresh = {name: value for name, value in found.items() if value and name not in self.facts}
        self.facts.update({name: value[:LONGEST] for name, value in fresh.items()})
        return fresh

    def offer_title(self, rank: int) -> bool:
        """Whether a title of `rank` is better than the one that stands. Of what was typed the first stands."""
        if rank < self.title_rank or rank == self.title_rank <= PROMPT:
            return False
        self.title_rank = rank
        return True

    def pass_message(self, uuid: str) -> str | None:
        """Notes that `uuid` was read; a summary that was waiting for it."""
        if len(uuid) <= LONGEST:
            self.recent.append(uuid)
            del self.recent[:-_NEAR]
        return self.summaries.pop(uuid, None)


def of_session(session: str, memory: Memory, state: dict[str, object]) -> Memory:
    """What is remembered of `session`; what is remembered of another one waits in `state` for its next line."""
    if memory.session in (None, session):
        memory.session = session
        return memory
    others = msgspec.convert(state.get(_OTHERS, {}), dict[str, Memory])
    if len(memory.session) <= LONGEST:
        others[memory.session] = memory
    found = others.pop(session, Memory(session=session))
    state[_OTHERS] = msgspec.to_builtins(dict(list(others.items())[-_OTHERS_KEPT:]))
    return found


def remember(kept: dict[str, str], key: str, value: str, most: int = _KEPT) -> None:
    """What is no id and no title is not kept: a file may say megabytes where an id belongs."""
    if len(key) + len(value) <= LONGEST:
        kept[key] = value
        _forget_oldest(kept, most)


def told_apart(memory: Memory, record: Record | LineProblem) -> Record | LineProblem:
    """A message whose id came with other content before (ids were blacked out, all alike) gets one of its own."""
    if not isinstance(record, MessageRecord):
        return record
    digest = blake2s(record.content, digest_size=16).hexdigest()
    known = memory.contents.get(record.key)
    if known is None:
        remember(memory.contents, record.key, digest, _NEAR)
    is_other = known not in (None, digest)
    return msgspec.structs.replace(record, key=f"{record.key}-{digest}") if is_other else record


def _forget_oldest(kept: dict[str, str], most: int) -> None:
    surplus: Iterable[str] = list(kept)[:-most] if len(kept) > most else ()
    for key in surplus:
        del kept[key]
