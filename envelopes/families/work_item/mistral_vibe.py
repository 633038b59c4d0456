"""Mistral Vibe's todo, whose list is in the arguments of a write, and in the receipt in the words of Python."""

from __future__ import annotations

import re

from envelopes.alignment.mapping import Evidence, Reading
from envelopes.alignment.vibe_receipts import read_fields, read_parsed, take_apart, vibe_mapping
from envelopes.families.base import count_noun
from envelopes.families.work_item.results import Todo, TodoList

TODO = re.compile(
    r"'content': (?P<quote>['\"])(?P<text>.*?)(?P=quote), 'status': <\w+\.\w+: '(?P<state>\w+)'>", re.DOTALL
)


def _read_todos(evidence: Evidence, receipt: str) -> Reading | None:
    if recorded := read_fields(receipt):
        items = [(item.text("content") or "", item.text("status") or "") for item in recorded.items("todos")]
        listed = tuple(Todo(text=text, state=state) for text, state in items)
        return read_parsed(evidence, TodoList(todo_list=listed), count_noun(len(listed), "todo"))
    fields = take_apart(receipt, "verb?", "message?", "todos", "total_count?")
    if fields is None:
        return None
    todos = tuple(Todo(text=todo["text"], state=todo["state"]) for todo in TODO.finditer(fields["todos"]))
    return read_parsed(evidence, TodoList(todo_list=todos), count_noun(len(todos), "todo"))


MAPPINGS = (vibe_mapping(("todo",), _read_todos),)
