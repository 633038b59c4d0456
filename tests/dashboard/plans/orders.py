"""Plans over the real tools for tests, and the functions that run them as the command does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from dashboard.models import Project, Run
from dashboard.plans.plan_run import PlanOrder, run_plan
from envelopes.plan.executor import RunResult
from envelopes.plan.schema import read_plan
from tests.conftest import CHECKOUT


def command(step: str, cmd: str, **fields: Any) -> dict[str, Any]:
    return {"id": step, "tool": "ExecCommand", "args": {"cmd": cmd, "login": False}, **fields}


def plan(*steps: dict[str, Any], risk: str = "commands", **fields: Any) -> dict[str, Any]:
    return {"version": "1.0", "goal": "Count the lines", "riskLevel": risk, "steps": list(steps), **fields}


def run_command(project: Project, folder: Path, document: Any, *options: str) -> tuple[dict[str, Any], str, int]:
    """`run_plan` in the folder `workspace`: the JSON document on stdout, the error, and the exit status."""
    path = folder / "plan.json"
    path.write_text(json.dumps(document))
    return call(folder, "run_plan", str(path), "--project", project.slug, *options)


def call(folder: Path, *arguments: str) -> tuple[dict[str, Any], str, int]:
    workspace, printed = folder / "workspace", StringIO()
    workspace.mkdir(exist_ok=True)
    error, status = "", 0
    try:
        call_command(*arguments, "--workspace", str(workspace), "--json", stdout=printed, stderr=StringIO())
    except CommandError as refusal:
        error, status = str(refusal), refusal.returncode
    return json.loads(printed.getvalue() or "{}"), error, status


def run_until_asked(
    project: Project, folder: Path, document: Any, on_waiting: Callable[[Run], Any], **fields: Any
) -> tuple[Run, RunResult]:
    """Runs a plan that waits for an operator; `on_waiting` is called with its run when the page asks."""
    (folder / "workspace").mkdir(exist_ok=True)

    def tell(key: UUID) -> None:
        on_waiting(Run.objects.get(pk=key))

    order = PlanOrder(plan=read_plan(document), workspace=folder / "workspace", on_waiting=tell, **fields)
    result = run_plan(project, order)
    return Run.objects.get(external_id=order.run_id), result


@contextmanager
def running_plan(project: Project, folder: Path, document: Any, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`run_plan` as a process of its own, on the database of the test, which must be a file of SQLite."""
    (folder / "workspace").mkdir()
    (folder / "plan.json").write_text(json.dumps(document))
    store = {"COUNTERFOIL_DATA": str(folder / "data"), "DATABASE_URL": f"sqlite:///{connection.settings_dict['NAME']}"}
    arguments = ["run_plan", str(folder / "plan.json"), "--workspace", str(folder / "workspace")]
    arguments += ["--project", project.slug, "--json", *options]
    with subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=CHECKOUT,
        env={**os.environ, **store},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
