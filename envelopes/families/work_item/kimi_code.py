"""Kimi Code's TodoList, whose list is in the arguments, and in the result: `  [pending] the title`."""

from __future__ import annotations

import re

from envelopes.alignment.kimi_code_receipts import OUTPUT, read_success, tool_mapping
from envelopes.alignment.kimi_receipts import ToolReturn
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.families.base import count_noun
from envelopes.families.work_item.results import Todo, TodoList

TODO = re.compile(r"^  \[(?P<state>[\w ]+)\] (?P<text>[^\n]*)$", re.MULTILINE)


def _read_todos(evidence: Evidence, answer: ToolReturn) -> Reading:
    todos = tuple(Todo(text=line["text"], state=line["state"]) for line in TODO.finditer(answer.output))
    summary = count_noun(len(todos), "todo")
    return read_success(evidence, answer, TodoList(todo_list=todos), summary, links={OUTPUT: "/result/todo_list"})


MAPPINGS = (tool_mapping(("TodoList",), _read_todos),)
