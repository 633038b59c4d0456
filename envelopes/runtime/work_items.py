"""The work-item tools and WaitFor, over a small SQLite file. Plans are files of the workspace; ApplyPatch changes them.

A wait belongs to the current open work item, or to the agent where there is none, and replaces the waits before it.
An item with an active wait is blocked, or waits for the operator; so does one whose plan needs input.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from envelopes.families.agent.results import WaitCondition, WaitingWorkItem, WaitRecorded, Wake, wait_outcome
from envelopes.families.agent.tools import WaitForInput
from envelopes.families.work_item.results import (
    SAMPLE_TODOS,
    ActiveWait,
    CompletionReport,
    Filter,
    Focus,
    FocusTransition,
    FocusWarning,
    PlanArtifact,
    QueryContext,
    Readiness,
    Todo,
    UnfinishedTodos,
    WorkItemChange,
    WorkItemPage,
    WorkItemPick,
    WorkItemReading,
    WorkItemView,
    change_outcome,
    page_outcome,
    pick_outcome,
    reading_outcome,
)
from envelopes.families.work_item.tools import (
    LIMIT,
    CompleteWorkItemInput,
    CreateWorkItemInput,
    GetWorkItemInput,
    ListWorkItemsInput,
    PickWorkItemInput,
    TodoInput,
    UpdateWorkItemInput,
)
from envelopes.plan.sandbox import refuse_path
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.workers import CallContext
from envelopes.runtime.work_item_store import WaitKind, WaitRow, WorkItemRow, WorkItemStore
from envelopes.schema.result import CompleteOutput
from envelopes.schema.timestamps import format_instant

PLANS = "work-items"  # the folder of plans in the workspace
KINDS: dict[Wake, WaitKind] = {"operator_input": "operator", "task_result": "task", "external": "external"}
WAKES: dict[WaitKind, Wake] = {kind: wake for wake, kind in KINDS.items()}
LEFT_WITHOUT_REASON = FocusWarning(
    code="left_runnable_work", message="The work item before was runnable, and no reason was given for leaving it."
)
BINDING_NOTE = "Tool calls from now on belong to this work item."
INSPECTION_NOTE = "The work item cannot go on now; it was opened to be looked at."


class WorkItemTools:
    """The work items of one agent in one workspace. `path` is the SQLite file; it may lie outside of `root`."""

    def __init__(
        self,
        root: Path,
        path: Path,
        *,
        agent_id: str = "agent_main",
        workspace_id: str = "workspace",
        now: Callable[[], float] = time.time,
    ) -> None:
        self._root, self._agent_id, self._workspace_id = root, agent_id, workspace_id
        self._store = WorkItemStore(path, now)
        self._listed: dict[str, int] = {}  # the revision that an item had when a list last showed it

    def tools(self) -> tuple[Tool, ...]:
        runs: dict[str, Callable[[Any, CallContext], CompleteOutput]] = {
            "UpdateWorkItem": self.update,
            "PickWorkItem": self.pick,
            "GetWorkItem": self.get,
            "ListWorkItems": self.list_items,
            "CompleteWorkItem": self.complete,
            "WaitFor": self.wait_for,
        }
        create = Tool.built_in("CreateWorkItem", self.create, find_paths=self._find_paths)
        return (create, *(Tool.built_in(name, run) for name, run in runs.items()))

    def close(self) -> None:
        self._store.close()

    def create(self, call: CreateWorkItemInput, context: CallContext) -> CompleteOutput:
        with self._store.transaction():
            row = self._store.add(call.objective, call.plan_status or "draft", _pack_todos(call.todo_list))
            if call.plan is not None:
                row = self._store.change(row.number, plan=self._write_plan(row, call.plan, context))
            view = self._view(row, with_todos=True)
        change = WorkItemChange(work_item=view)
        return CompleteOutput.success("CreateWorkItem", change_outcome(change), change)

    def update(self, call: UpdateWorkItemInput, _context: CallContext) -> CompleteOutput:
        with self._store.transaction():
            row = self._find(call.work_item_id)
            if row.is_completed:
                raise _is_completed(row, "cannot be changed")
            named = {
                "objective": call.objective,
                "plan_status": call.plan_status,
                "todos": None if call.todo_list is None else _pack_todos(call.todo_list),
            }
            changes = {name: value for name, value in named.items() if value is not None}
            view = self._view(self._store.change(row.number, **changes), with_todos=True)
        fields = tuple("todo_list" if name == "todos" else name for name in changes)
        change = WorkItemChange(work_item=view, changed_fields=fields)
        return CompleteOutput.success("UpdateWorkItem", change_outcome(change), change)

    def pick(self, call: PickWorkItemInput, _context: CallContext) -> CompleteOutput:
        with self._store.transaction():
            row = self._find(call.work_item_id)
            if row.is_completed:
                raise _is_completed(row, "cannot be picked")
            before = self._store.current()
            previous = None if before is None else self._view(self._store.get(before))
            self._store.set_current(row.number)
            current = self._view(row, with_todos=True)
        leaves = previous is not None and previous.id != current.id and previous.is_runnable
        transition = FocusTransition(
            previous_work_item_id=previous.id if previous else None,
            current_work_item_id=current.id,
            reason=call.reason,
            previous_readiness=previous.readiness if previous else None,
            current_readiness=current.readiness,
            switch_kind=_switch_kind(previous, current, is_leaving=leaves),
            current_focus_mode="runnable" if current.is_runnable else "inspection",
            warnings=(LEFT_WITHOUT_REASON,) if leaves and call.reason is None else (),
        )
        result = WorkItemPick(
            previous_work_item=previous,
            current_work_item=current,
            current_work_item_id=current.id,
            transition=transition,
            binding_note=BINDING_NOTE if current.is_runnable else INSPECTION_NOTE,
        )
        return CompleteOutput.success("PickWorkItem", pick_outcome(result), result)

    def get(self, call: GetWorkItemInput, _context: CallContext) -> CompleteOutput:
        with self._store.transaction():
            view = self._view(self._find(call.work_item_id), with_todos=call.include_todo_list)
            result = WorkItemReading(context=self._context(), work_item=view)
        return CompleteOutput.success("GetWorkItem", reading_outcome(result), result)

    def list_items(self, call: ListWorkItemsInput, _context: CallContext) -> CompleteOutput:
        """The items changed last come first. A list goes on behind the place that `after` had when it was shown.

        It may have been changed since, and stand first, or match no more.
        """
        limit, chosen = call.limit or LIMIT, call.filter or "all"
        with self._store.transaction():
            rows = self._store.rows()
            revisions = {row.id: row.revision for row in rows}
            views = [self._view(row, with_todos=call.include_todo_list) for row in rows]
            matching = [view for view in views if _matches(view, chosen)]
            skipped = 0
            if call.after is not None:
                last = self._listed.get(call.after, self._find(call.after).revision)
                skipped = sum(revisions[view.id] >= last for view in matching)
            shown = matching[skipped : skipped + limit]
            result = WorkItemPage(
                context=self._context(),
                filter=chosen,
                returned=len(shown),
                total_matching=len(matching),
                skipped=skipped,
                limit=limit,
                work_items=tuple(shown),
            )
            self._listed |= {view.id: revisions[view.id] for view in shown}
        return CompleteOutput.success("ListWorkItems", page_outcome(result), result)

    def complete(self, call: CompleteWorkItemInput, context: CallContext) -> CompleteOutput:
        """The report is what the model wrote in the round of the call."""
        report = context.assistant_text.strip()
        with self._store.transaction():
            row = self._find(call.work_item_id)
            is_new = not row.is_completed
            if is_new:
                text = CompletionReport(text=report, source="assistant_text", created_at=_stamp(self._store.now()))
                row = self._store.change(
                    row.number, is_completed=1, report=msgspec.json.encode(text) if report else None
                )
                self._store.end_waits(self._store.waits_of(row.number), "resolved")
                if self._store.current() == row.number:
                    self._store.set_current(None)
            view = self._view(row, with_todos=True)
        unfinished = _unfinished(view.todo_list or ()) if is_new else None
        warnings = () if unfinished is None else (unfinished,)
        result = WorkItemChange(work_item=view, warnings=warnings, completed_transition=is_new)
        return CompleteOutput.success("CompleteWorkItem", change_outcome(result), result)

    def wait_for(self, call: WaitForInput, _context: CallContext) -> CompleteOutput:
        with self._store.transaction():
            number = self._store.current()
            replaced = self._store.end_waits(self._store.waits_of(number), "cancelled")
            wait = self._store.add_wait(number, KINDS[call.wake], call.resource, call.reason)
            view = None if number is None else self._view(self._store.change(number))
        result = WaitRecorded(
            scope="agent" if view is None else "work_item",
            reason=call.reason,
            wake=call.wake,
            resource=call.resource,
            work_item_id=view.id if view else None,
            wait_condition=_condition(wait, number),
            work_item=None if view is None else _waiting(view),
            cancelled_wait_condition_ids=replaced,
        )
        return CompleteOutput.success("WaitFor", wait_outcome(result), result)

    def resolve_waits(self, resource: str | None = None) -> tuple[str, ...]:
        """Ends the active waits for a resource, or those for the operator; returns their ids. The runtime calls it."""
        with self._store.transaction():
            return self._store.end_waits(self._store.waits_for(resource), "resolved")

    def views(self) -> list[WorkItemView]:
        """Every item with its todo list, the one that was changed last first."""
        with self._store.transaction():
            return [self._view(row, with_todos=True) for row in self._store.rows()]

    def current_work_item_id(self) -> str | None:
        with self._store.transaction():
            return self._context().current_work_item_id

    def active_waits(self) -> tuple[WaitCondition, ...]:
        """The waits of the agent and of its current work item."""
        with self._store.transaction():
            number = self._store.current()
            numbers = [None] if number is None else [None, number]
            return tuple(_condition(wait, item) for item in numbers for wait in self._store.waits_of(item))

    def _find(self, work_item_id: str) -> WorkItemRow:
        """Raises ToolFailed."""
        row = self._store.find(work_item_id)
        if row is None:
            raise ToolFailed(
                "unknown_work_item",
                f"no work item has the id {work_item_id}",
                details={"work_item_id": work_item_id},
                recovery_hint="call ListWorkItems and use one of its ids",
            )
        return row

    def _context(self) -> QueryContext:
        current = self._store.current()
        return QueryContext(current_work_item_id=None if current is None else f"wi_{current}")

    def _find_paths(self, call: CreateWorkItemInput) -> Iterator[str]:
        """The file that the plan gets, for the sandbox."""
        if call.plan is not None:
            with self._store.transaction():
                yield f"{PLANS}/wi_{self._store.next_number()}.md"

    def _write_plan(self, row: WorkItemRow, text: str, context: CallContext) -> str:
        """Writes the plan to a file that was not there; returns its path, relative to the workspace.

        Raises ToolFailed where the folder of plans leads to a place that the sandbox does not allow (CALL-106).
        """
        root, folder = self._root.resolve(), Path(os.path.realpath(self._root / PLANS))
        if not folder.is_relative_to(root):
            message = f"{PLANS} leads out of the workspace through a symbolic link"
            raise ToolFailed("path_escape", message, recovery_hint="create the work item without a plan")
        names = (f"{row.id}.md" if number == 1 else f"{row.id}-{number}.md" for number in itertools.count(1))
        name = next(name for name in names if not os.path.lexists(folder / name))
        path = folder / name
        if error := refuse_path(path.relative_to(root).as_posix(), context.call.policy.sandbox):
            raise ToolFailed.from_error(error)
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            try:
                file.write((text if text.endswith("\n") else f"{text}\n").encode())
                file.flush()
            except BaseException:
                path.unlink()
                raise
        return f"{PLANS}/{name}"

    def _view(self, row: WorkItemRow, *, with_todos: bool = False) -> WorkItemView:
        waits = self._store.waits_of(row.number)
        is_current = self._store.current() == row.number
        readiness = _readiness(row, waits)
        return WorkItemView(
            id=row.id,
            agent_id=self._agent_id,
            workspace_id=self._workspace_id,
            objective=row.objective,
            state="completed" if row.is_completed else "open",
            focus=_focus(readiness, is_current=is_current),
            readiness=readiness,
            is_current=is_current,
            is_runnable=readiness == "runnable",
            plan_status=row.plan_status,
            plan_artifact=self._plan_artifact(row),
            todo_list=_unpack_todos(row.todos) if with_todos else None,
            blocked_by=waits[0].reason if waits else None,
            completion_report=None if row.report is None else msgspec.json.decode(row.report, type=CompletionReport),
            active_wait_conditions=tuple(
                ActiveWait(id=wait.id, kind=wait.kind, waiting_for=wait.reason) for wait in waits
            ),
            created_at=_stamp(row.created_at),
            updated_at=_stamp(row.updated_at),
        )

    def _plan_artifact(self, row: WorkItemRow) -> PlanArtifact | None:
        """The plan as its file has it now; None where there is none, or somebody removed it or put a link there."""
        path = Path(os.path.realpath(self._root / (row.plan or "")))
        if row.plan is None or not path.is_relative_to(self._root.resolve()):
            return None
        try:
            content, changed_at = path.read_bytes(), path.stat().st_mtime
        except OSError:
            return None
        return PlanArtifact(
            owner_agent_id=self._agent_id,
            workspace_id=self._workspace_id,
            relative_path=row.plan,
            path=row.plan,
            hash=f"sha256:{hashlib.sha256(content).hexdigest()}",
            bytes=len(content),
            updated_at=_stamp(changed_at),
            text=content.decode("utf-8", "replace"),
        )


def _stamp(seconds: float) -> str:
    return format_instant(seconds, timespec="milliseconds")


def _condition(wait: WaitRow, number: int | None) -> WaitCondition:
    return WaitCondition(
        id=wait.id,
        work_item_id=None if number is None else f"wi_{number}",
        status="active",
        kind=wait.kind,
        subject_ref=wait.resource,
        waiting_for=wait.reason,
        wake_sources=(WAKES[wait.kind],),
        created_at=_stamp(wait.created_at),
        updated_at=_stamp(wait.created_at),
    )


def _waiting(view: WorkItemView) -> WaitingWorkItem:
    return WaitingWorkItem(
        id=view.id, objective=view.objective, state=view.state, focus=view.focus, readiness=view.readiness
    )


def _readiness(row: WorkItemRow, waits: list[WaitRow]) -> Readiness:
    if row.is_completed:
        return "completed"
    if any(wait.kind != "operator" for wait in waits):
        return "blocked"
    return "waiting_for_operator" if waits or row.plan_status == "needs_input" else "runnable"


def _focus(readiness: Readiness, *, is_current: bool) -> Focus:
    if readiness == "completed":
        return "completed"
    if is_current:
        return "current"
    return "queued" if readiness == "runnable" else "blocked"


def _matches(view: WorkItemView, chosen: Filter) -> bool:
    """`blocked` is about the readiness of an item that is not current."""
    match chosen:
        case "all":
            return True
        case "open" | "completed":
            return view.state == chosen
        case "current":
            return view.is_current
        case "queued":
            return view.is_runnable and not view.is_current
        case "blocked":
            return view.readiness == "blocked" and not view.is_current
    return view.readiness == chosen


def _switch_kind(previous: WorkItemView | None, current: WorkItemView, *, is_leaving: bool) -> Any:
    if previous is not None and previous.id == current.id:
        return "same_work_item"
    return "explicit_focus_override" if is_leaving else "explicit_focus_pick"


def _unfinished(todos: tuple[Todo, ...]) -> UnfinishedTodos | None:
    unfinished = [todo for todo in todos if todo.state != "completed"]
    if not unfinished:
        return None
    return UnfinishedTodos(
        pending_count=sum(todo.state == "pending" for todo in unfinished),
        in_progress_count=sum(todo.state == "in_progress" for todo in unfinished),
        sample=tuple(todo.text for todo in unfinished[:SAMPLE_TODOS]),
    )


def _pack_todos(todos: list[TodoInput] | None) -> bytes | None:
    return None if todos is None else msgspec.json.encode([Todo(todo.text, todo.state) for todo in todos])


def _unpack_todos(todos: bytes | None) -> tuple[Todo, ...]:
    return () if todos is None else msgspec.json.decode(todos, type=tuple[Todo, ...])


def _is_completed(row: WorkItemRow, words: str) -> ToolFailed:
    return ToolFailed(
        "invalid_tool_input",
        f"work item {row.id} is completed and {words}",
        details={"work_item_id": row.id, "state": "completed"},
        recovery_hint="create a new work item for more work",
    )
