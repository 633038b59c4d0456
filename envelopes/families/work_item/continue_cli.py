"""The Continue CLI's Checklist, whose receipt repeats the list: `- [x] done`, `- [ ] open`."""

from __future__ import annotations

import re

from envelopes.alignment.continue_receipts import continue_mapping, read_parsed
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.families.base import count_noun
from envelopes.families.work_item.results import Todo, TodoList

TODO = re.compile(r"^\s*[-*] \[(?P<mark>[ xX])\] (?P<text>.+)$", re.MULTILINE)


def _read_list(evidence: Evidence, receipt: str) -> Reading | None:
    todos = tuple(
        Todo(text=todo["text"], state="pending" if todo["mark"] == " " else "completed")
        for todo in TODO.finditer(receipt)
    )
    return read_parsed(evidence, TodoList(todo_list=todos), count_noun(len(todos), "todo")) if todos else None


MAPPINGS = (continue_mapping("Checklist", _read_list),)
