"""Names for the calls in a list of messages that have no id of their own.

The Gemini API sends calls without ids; a model matches an answer by its tool and its order, and so does this module.
What Google's instrumentations write in place of an id, `<tool>_<place of the part>`, is another one in the answer than
in the call, and the same one in calls of different turns. Taken as ids these would link answers to the wrong calls.

1. A call gets its name from its tool, its arguments, what stands before its turn, and how many equal ones precede it,
   so that it has the same name in each request of its turn.
2. A turn begins with a text of the user that does not come with answers, as a client may add one to them. Where a run
   is one turn, calls before the last one belong to other runs: they stay parts of messages.
3. An answer stays a part of its message too where no call waits for it, or where it names no tool and several wait.
4. A call of OpenAI's Responses has an id of its own beside that of its item, `fc_…`. Traceloop writes the former in the
   answer of a model and in the tool's, and the latter where a later request repeats the call: that one is left out.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from envelopes.text.untrusted_json import dump_json

CALLS = ("tool_call", "tool-call")
ANSWERS = ("tool_call_response", "tool-result")
_PLACED = re.compile(r"(.+)_(\d{1,6})", re.DOTALL)


class ListedMessage(NamedTuple):
    """A message of a request, or with `is_output` of its answer."""

    fields: dict[str, Any]
    is_output: bool


def name_calls(messages: Sequence[ListedMessage], *, is_run_a_turn: bool = False) -> Sequence[ListedMessage]:
    """The messages with a name for each call that has no id, and for its answer; without calls named by an item."""
    parts = [(part, place) for message in messages for place, part in _parts(message.fields)]
    if any(_is_item(part) for part, _ in parts):
        messages = _without_items(messages, [part for part, _ in parts])
    if not any(_lacks_id(part, place) for part, place in parts):
        return messages
    questions = _find_questions(messages)
    history, naming, named = hashlib.blake2b(digest_size=16), _Naming(), []
    naming.begin_turn(history.digest())
    for index, message in enumerate(messages):
        is_named = not is_run_a_turn or index > max(questions, default=-1)
        named.append(message._replace(fields=naming.apply(message.fields, is_named=is_named)))
        history.update(dump_json(message.fields))
        if index in questions:
            naming.begin_turn(history.digest())
    return named


def _without_items(messages: Sequence[ListedMessage], parts: Sequence[dict[str, Any]]) -> Sequence[ListedMessage]:
    """A request without the calls that are named by an item, where answers name calls that are not among them."""
    called = {str(part.get("id")) for part in parts if part.get("type") in CALLS}
    answered = {str(part["id"]) for part in parts if part.get("type") in ANSWERS and part.get("id")}
    if answered <= called:
        return messages
    return [
        message
        if message.is_output
        else message._replace(fields=_with_parts(message.fields, [part for part in listed if not _is_item(part)]))
        for message in messages
        for listed in [_listed(message.fields)]
    ]


class _Naming:
    """The calls of a turn that wait for an answer, by their tool; those that are not to be named have None."""

    def begin_turn(self, history: bytes) -> None:
        self._history = history
        self._waiting: dict[str, deque[str | None]] = defaultdict(deque)
        self._counts: Counter[str] = Counter()
        self._is_answered = False

    def apply(self, fields: dict[str, Any], *, is_named: bool) -> dict[str, Any]:
        named = {place: self._named(part, place, is_named=is_named) for place, part in _parts(fields)}
        return _with_parts(fields, [named.get(place, part) for place, part in enumerate(_listed(fields))])

    def _named(self, part: dict[str, Any], place: int, *, is_named: bool) -> dict[str, Any]:
        kind, tool = part.get("type"), _tool(part)
        if kind in CALLS:
            if self._is_answered:  # those before it have their answers, whichever these are
                self._waiting.clear()
            self._is_answered = False
            lacks_id = _lacks_id(part, place)
            name = (self._name(tool, part) if is_named else None) if lacks_id else str(_id(part))
            self._waiting[tool].append(name)
            return _with_id(part, name) if lacks_id else part
        if kind not in ANSWERS:
            return part
        self._is_answered = True
        if not _lacks_id(part, place):
            self._waiting = _without(self._waiting, _id(part))
            return part
        calls = self._waiting[tool] if tool else self._only_waiting()
        # Without a call, an id that only looks like a place, or an answer to nothing.
        return _with_id(part, calls.popleft()) if calls else part

    def _name(self, tool: str, part: dict[str, Any]) -> str:
        facts = dump_json([tool, part.get("arguments", part.get("input", part.get("args")))])
        name = f"{tool}-{hashlib.blake2b(self._history + facts, digest_size=6).hexdigest()}"
        self._counts[name] += 1
        return name if self._counts[name] == 1 else f"{name}-{self._counts[name]}"

    def _only_waiting(self) -> deque[str | None]:
        """The calls of which the one that waits is, where only one does: an answer names no tool."""
        waiting = [calls for calls in self._waiting.values() if calls]
        return waiting[0] if len(waiting) == 1 and len(waiting[0]) == 1 else deque()


def _listed(fields: dict[str, Any]) -> list[Any]:
    parts = fields.get("parts", fields.get("content"))
    return parts if isinstance(parts, list) else []


def _with_parts(fields: dict[str, Any], parts: list[Any]) -> dict[str, Any]:
    return {**fields, "parts" if "parts" in fields else "content": parts} if _listed(fields) else fields


def _parts(fields: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((place, part) for place, part in enumerate(_listed(fields)) if isinstance(part, dict))


def is_item(call: Any) -> bool:
    """True for the id of an item of OpenAI's Responses."""
    return isinstance(call, str) and call.startswith("fc_")


def _is_item(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in CALLS and is_item(part.get("id"))


def _lacks_id(part: dict[str, Any], place: int) -> bool:
    kind = part.get("type")
    if kind not in CALLS and kind not in ANSWERS:
        return False
    call = _id(part)
    if not isinstance(call, str):
        return True
    tool = part.get("name") or part.get("toolName")
    if kind in CALLS or tool:
        return call == (f"{tool}_{place}" if tool else str(place))
    found = _PLACED.fullmatch(call)
    return call == str(place) or (found is not None and found[2] == str(place))


def _id(part: dict[str, Any]) -> Any:
    return part.get("id") or part.get("toolCallId")


def _with_id(part: dict[str, Any], call: str | None) -> dict[str, Any]:
    return {**{key: value for key, value in part.items() if key != "id"}, **({"id": call} if call else {})}


def _without(waiting: dict[str, deque[str | None]], call: Any) -> dict[str, deque[str | None]]:
    """The calls that wait but this one."""
    return defaultdict(deque, {tool: deque(name for name in names if name != call) for tool, names in waiting.items()})


def _tool(part: dict[str, Any]) -> str:
    """The tool of a call, or of an answer, of which the place that stands for its id begins with it."""
    if tool := part.get("name") or part.get("toolName"):
        return str(tool)
    found = _PLACED.fullmatch(str(part.get("id") or ""))
    return found[1] if found else ""


def _find_questions(messages: Sequence[ListedMessage]) -> set[int]:
    """The places of the messages with a text of the user that does not come with answers."""
    questions, is_answer = set(), False
    for place, message in enumerate(messages):
        kinds = [part.get("type") for _, part in _parts(message.fields)]
        if message.is_output or message.fields.get("role") == "assistant":
            is_answer = False
        elif any(kind in ANSWERS for kind in kinds):
            is_answer = True
        elif not is_answer and message.fields.get("role") == "user" and ("text" in kinds or _is_text(message)):
            questions.add(place)
    return questions


def _is_text(message: ListedMessage) -> bool:
    return isinstance(message.fields.get("parts", message.fields.get("content")), str)
