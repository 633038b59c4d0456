"""`run_plan PLAN.json`: runs a plan with the built-in tools; its run is on the pages from the first step on."""

from __future__ import annotations

import codecs
import getpass
import json
import select
import signal
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse
from django.utils.module_loading import import_string

from dashboard.faults import find_outage
from dashboard.management.console import add_base_url_argument, add_project_argument, find_project, terminal_text
from dashboard.models import Project
from dashboard.plans.plan_folders import plan_folder
from dashboard.plans.plan_run import EXPIRY_S, POLICY, Approve, PlanOrder, run_plan
from dashboard.project_rules import load_rules
from dashboard.text.masks import Masks
from envelopes import tools
from envelopes.plan.checks import PlanRejected
from envelopes.plan.confirmation import ConfirmationRequest, Decision
from envelopes.plan.executor import Executor, RunResult
from envelopes.plan.policy import read_policy
from envelopes.plan.recorders import load_run
from envelopes.plan.schema import ActionPlan, read_plan
from envelopes.plan.shape_faults import Malformed
from envelopes.plan.verify import StepState
from envelopes.runtime.web import SearchProvider
from envelopes.schema.call import ExecutionEvent, RunPolicy
from envelopes.text.untrusted_json import Untrusted, check_json, parse_json

CONFIRMATIONS = ("ask", "dashboard", "yes")
FAILED, REFUSED, CANCELLED = 1, 2, 3  # exit statuses
LOOK_S = 0.25  # the wait for a line on the terminal, before the executor goes on
NOT_REACHED = "not reached"
SET_UP = {"WebSearch": "--search MODULE.CLASS", "SpawnAgent": "--child NAME=PLAN.json"}
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Command(BaseCommand):
    help = (
        "Runs an ActionPlan with the built-in tools in a folder. The run is on the pages while it goes on; Ctrl-C "
        "cancels it. A plan with faults is refused with all of them, and nothing runs. Exit status: 0 when every step "
        "ended ok, 1 when one did not, 2 for a refused plan, 3 for a run that was cancelled or not confirmed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("plan", metavar="PLAN.json", help="the plan as JSON")
        add_project_argument(parser)
        self.add_run_arguments(parser)

    def add_run_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--workspace", metavar="DIR", required=True, help="the folder that the tools work in")
        parser.add_argument(
            "--confirm",
            choices=CONFIRMATIONS,
            default="ask",
            help="who confirms a plan that writes or runs commands: you on this terminal, an operator on the page of "
            "the run, or nobody more",
        )
        parser.add_argument(
            "--policy", metavar="POLICY.json", help="what the plan may do: tools, planes, risk, folders, hosts, limits"
        )
        parser.add_argument(
            "--child",
            action="append",
            default=[],
            metavar="NAME=PLAN.json",
            help="the plan of a child agent that SpawnAgent starts with the template NAME; repeatable",
        )
        parser.add_argument(
            "--search", action="append", default=[], metavar="MODULE.CLASS", help="a provider for WebSearch; repeatable"
        )
        parser.add_argument(
            "--expires", type=int, default=EXPIRY_S, metavar="SECONDS", help="time to decide; default: 3600"
        )
        add_base_url_argument(parser)
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *_args: Any, **options: Any) -> None:
        self.run_document(_read_json(options["plan"]), find_project(options["project"]), options)

    def run_document(
        self,
        document: Any,
        project: Project,
        options: dict[str, Any],
        *,
        standard: RunPolicy = POLICY,
        replay_of: str | None = None,
    ) -> None:
        """Runs the plan and prints its outcome; `standard` is the policy without --policy.

        Raises CommandError with the exit status.
        """
        workspace = Path(options["workspace"])
        if not workspace.is_dir():
            message = f"{terminal_text(str(workspace))} is no folder: the workspace has to exist"
            raise CommandError(message, returncode=REFUSED)
        self._masks, self._asked = Masks(load_rules(project)), ""
        order = PlanOrder(
            plan=_read(document, "The plan"),
            workspace=workspace,
            approve=self._approve(options["confirm"]),
            policy=_read_policy(options["policy"], standard),
            children=_read_children(options["child"]),
            searches=tuple(_find_provider(name) for name in options["search"]),
            expiry_s=max(0, options["expires"]),
            replay_of=replay_of,
            on_waiting=partial(self._print_address, project, options),
        )
        handlers = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
        try:
            result = run_plan(project, order, on_start=self._cancel_by_signal)
        except PlanRejected as refusal:
            missing = " ".join(fault.message for fault in refusal.faults if fault.kind == "unavailable")
            advice = "".join(f"\n{option} sets up {tool}." for tool, option in SET_UP.items() if tool in missing)
            raise CommandError(_list_faults(map(str, refusal.faults)) + advice, returncode=REFUSED) from None
        except OSError as error:
            if find_outage(error) is not None:
                raise
            raise CommandError(f"The run could not go on: {error.strerror or error}") from None
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        self._print_result(result, as_json=options["as_json"])

    def _cancel_by_signal(self, executor: Executor) -> None:
        """The first Ctrl-C or SIGTERM cancels the run, a second one ends the command."""

        def cancel(number: int, _frame: Any) -> None:
            self.stderr.write("Cancelling; once more ends the command at once.")
            signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
            executor.cancel()

        for number in ENDING_SIGNALS:
            signal.signal(number, cancel)

    def _approve(self, confirm: str) -> Approve | None:
        if confirm == "yes":
            return lambda request: _decide(request, is_approved=True, reason="--confirm yes")
        return self._ask if confirm == "ask" else None

    def _ask(self, request: ConfirmationRequest) -> Decision | None:
        """Asks on the terminal once, and returns None until there is an answer. The end of the input rejects.

        Nothing is printed on stdout, which may be JSON.
        """
        if self._asked not in ("", request.run_id):
            return None  # that of another run is not answered yet
        if not self._asked:
            self._asked = request.run_id
            lines = [terminal_text(line) for line in self._masks.mask(request.preview).split("\n")]
            self.stderr.write("\n".join([*lines, f"Plan {request.plan_hash}", f"Policy {request.policy_hash}"]))
            self.stderr.write("Approve? y, or anything else and the reason: ", ending="")
            self.stderr.flush()
        if not select.select([sys.stdin], [], [], LOOK_S)[0]:
            return None
        answer = sys.stdin.readline().strip()
        if not answer:
            self.stderr.write("")  # ends the line of the question
        self._asked = ""
        is_approved = answer.lower() in ("y", "yes")
        return _decide(request, is_approved=is_approved, reason="" if is_approved else answer or "no answer")

    def _print_address(self, project: Project, options: dict[str, Any], run: UUID) -> None:
        if options["confirm"] != "dashboard":
            return
        address = options["base_url"].rstrip("/") + reverse("run-confirmation", args=[run])
        address += f"?project={project.slug}"  # whoever signed in last may be in another
        self.stderr.write(f"Waits for a confirmation: {address}")

    def _print_result(self, result: RunResult, *, as_json: bool) -> None:
        steps = {step.step_id: step.end for step in result.steps}
        status = "cancelled" if result.end == "cancelled" else "ok" if result.is_ok else "failed"
        if as_json:
            self.stdout.write(json.dumps({"run_id": result.run_id, "status": status, "steps": steps}))
        else:
            ends = ", ".join(map(_describe_end, result.steps))
            self.stdout.write(terminal_text(f"Run {result.run_id}: {status}. {ends}"))
        if status == "cancelled":
            raise CommandError(terminal_text(result.reason or "The run was cancelled."), returncode=CANCELLED)
        if status == "failed":
            reasons = _find_reasons(load_run(plan_folder(result.run_id)).events)
            unmet = []
            for step in result.steps:
                if step.end != "ok":  # a name and a reason together may look like a secret: it is masked by itself
                    reason = self._masks.mask(reasons.get(step.step_id, step.end or NOT_REACHED))
                    unmet.append(f"{step.step_id}: {_count_failed(step)}{reason}")
            raise CommandError(_list_lines("These steps did not end ok", unmet), returncode=FAILED)


def _describe_end(step: StepState) -> str:
    """The end of a step, with the exit statuses other than 0 of its commands, which are results."""
    output = step.output if isinstance(step.output, dict) else {}
    is_foreach = "okCount" in output
    outputs = output["items"] if is_foreach else [output]
    statuses = [str(item["exit_status"]) for item in outputs if isinstance(item, dict) and item.get("exit_status")]
    place = f" in {len(statuses)} of {len(outputs)} rounds" if is_foreach else ""
    exits = f" (exit {', '.join(dict.fromkeys(statuses))}{place})" if statuses else ""
    return f"{step.step_id} {step.end or NOT_REACHED}{exits}"


def _count_failed(step: StepState) -> str:
    """The rounds of a foreach that failed, before the reason of the last one; empty for any other step."""
    failed = step.output.get("failed") if isinstance(step.output, dict) else None
    if not failed or "okCount" not in step.output:
        return ""
    return f"{len(failed)} of {step.output['count']} rounds failed, the last: "


def _decide(request: ConfirmationRequest, *, is_approved: bool, reason: str) -> Decision:
    return Decision(
        is_approved=is_approved,
        actor=getpass.getuser(),
        plan_hash=request.plan_hash,
        policy_hash=request.policy_hash,
        reason=reason,
    )


def _read(document: Any, subject: str) -> ActionPlan:
    try:
        return read_plan(document)
    except Malformed as error:
        raise CommandError(_list_faults(error.faults, subject), returncode=REFUSED) from None


def _read_json(name: str) -> Any:
    raw = b""
    try:
        raw = Path(name).read_bytes()
        return parse_json(raw)
    except OSError as error:
        raise CommandError(f"{terminal_text(name)}: {error.strerror or error}", returncode=REFUSED) from None
    except Untrusted as error:
        reason = _find_syntax_error(raw) or error.reason
        raise CommandError(f"{terminal_text(name)} is no JSON: {reason}", returncode=REFUSED) from None


def _find_syntax_error(raw: bytes) -> str:
    """The place of a syntax error as an editor counts it; empty where the syntax is not at fault."""
    if not raw.strip():
        return "the file is empty"
    if raw.startswith(codecs.BOM_UTF8):
        return "it begins with a byte order mark; save it as UTF-8 without one"
    try:
        check_json(raw)
        json.loads(raw.decode("utf-8"))
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg.removesuffix(' at')}"
    except Untrusted:
        pass
    return ""


def _read_policy(name: str | None, standard: RunPolicy) -> RunPolicy:
    if name is None:
        return standard
    try:
        return read_policy(_read_json(name), POLICY, tools())
    except Malformed as error:
        raise CommandError(_list_faults(error.faults, f"The policy {name}"), returncode=REFUSED) from None


def _read_children(pairs: Iterable[str]) -> dict[str, ActionPlan]:
    children: dict[str, ActionPlan] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path) or name in children:
            raise CommandError(
                f"--child {terminal_text(pair)}: give NAME=PLAN.json, each name once", returncode=REFUSED
            )
        children[name] = _read(_read_json(path), f"The plan of --child {name}")
    return children


def _find_provider(name: str) -> SearchProvider:
    try:
        return import_string(name)()  # type: ignore[no-any-return]
    except (ImportError, TypeError) as error:
        raise CommandError(f"--search {terminal_text(name)}: {error}", returncode=REFUSED) from None


def _list_faults(faults: Iterable[str], subject: str = "The plan") -> str:
    return _list_lines(terminal_text(f"{subject} was refused, and nothing ran"), faults)


def _list_lines(title: str, lines: Iterable[str]) -> str:
    listed = "\n".join(f"  {terminal_text(line)}" for line in lines)
    return f"{title}:\n{listed}"


def _find_reasons(events: Iterable[ExecutionEvent]) -> dict[str, str]:
    """The last failure of each step, by its id; of a skipped step what it needed."""
    return {
        event.step_id: event.message
        for event in events
        if event.step_id and event.level != "info" and event.type != "step.progress"  # of an answer that came late
    }
