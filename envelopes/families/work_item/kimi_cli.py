"""Kimi CLI's SetTodoList, whose list is in the arguments; without them it returns the list, a line for each todo."""

from __future__ import annotations

import re

from envelopes.alignment.kimi_receipts import AGENT, OUTPUT, align_return, read_failed, read_output, read_return
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.families.base import count_noun
from envelopes.families.work_item.results import Todo, TodoList

TODO = re.compile(r"^- \[(?P<state>[\w ]+)\] (?P<text>[^\n]*)$", re.MULTILINE)


def _read_todos(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    asked = RecordedObject(evidence.args).items("todos")
    todos = [Todo(text=todo.text("title") or "", state=todo.text("status") or "") for todo in asked]
    todos = todos or [Todo(text=line["text"], state=line["state"]) for line in TODO.finditer(returned.output)]
    links = {} if asked else {OUTPUT: "/result/todo_list"}
    summary = count_noun(len(todos), "todo")
    return read_output(evidence, returned, TodoList(todo_list=tuple(todos)), summary, links=links)


MAPPINGS = (ToolMapping(agent=AGENT, tools=("SetTodoList",), version=1, read=_read_todos, align=align_return),)
