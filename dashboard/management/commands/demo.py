"""`demo`: the first command for a newcomer. Imports real runs, runs a plan, prints a sign-in link and serves."""

from __future__ import annotations

import json
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from django.core.management import call_command
from django.core.management.base import BaseCommand

from dashboard.accounts import DEMO_PROJECT, OPERATOR, create_link, create_member, get_or_create_project
from dashboard.ingest.importer import import_paths
from dashboard.management.console import serve_until_stopped
from dashboard.models import Membership, Project
from dashboard.plans.plan_run import POLICY, PlanOrder, run_plan
from dashboard.text.markdown import documents
from envelopes.plan.confirmation import Decision
from envelopes.plan.schema import read_plan
from envelopes.runtime.web import Hit, SearchFailed

PACKAGE = Path(__file__).resolve().parents[2]
SAMPLES, PLAN = PACKAGE / "samples", PACKAGE / "plans" / "demo.json"
PLAN_RUN = "demo-plan"


class Command(BaseCommand):
    help = (
        "Migrates, imports the bundled recordings into a project of their own, runs one plan in a temporary folder, "
        "prints a one-time sign-in link, and serves."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-serve", action="store_true", help="only prepare the store and print the link")
        parser.add_argument("--addrport", default="127.0.0.1:8000", metavar="HOST:PORT", help="default: %(default)s")
        parser.add_argument("--json", action="store_true", help="one JSON document on stdout and nothing else")

    def handle(self, *_args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        project = get_or_create_project(DEMO_PROJECT)
        report = import_paths(project, [SAMPLES], shown_as=lambda path: f"samples/{path.relative_to(SAMPLES)}")
        run_demo_plan(project)
        user, _ = create_member(OPERATOR, project, Membership.Role.OPERATOR)
        create_member(OPERATOR, get_or_create_project(), Membership.Role.OPERATOR)  # where own recordings go
        path, expires_at = create_link(user)
        link = f"http://{options['addrport']}{path}"
        if options["json"]:
            facts = {"sign_in": link, "expires_at": expires_at.isoformat(), **report.to_json()}
            self.stdout.write(json.dumps(facts))
        else:
            self.stdout.write(f"{report.seen['runs']} runs with {report.seen['calls']} calls are in the store.")
            self.stdout.write("One plan was run with real tools: its run is the newest.")
            self.stdout.write(f"Sign in once with this link: {link}")
        if not options["no_serve"]:
            serve_until_stopped(self.stdout, options["addrport"])


class DocumentationSearch:
    """A search provider over the dashboard's own documentation. The first query finds it busy, as real ones may be."""

    name = "documentation"

    def __init__(self) -> None:
        self._is_ready = False

    def search(self, query: str, limit: int) -> Sequence[Hit]:
        if not self._is_ready:
            self._is_ready = True
            raise SearchFailed("rate_limited", "the index of the documentation is being read; ask again")
        found = [document for document in documents() if query in document.title.lower()]
        return [Hit(title=page.title, url=f"/docs/{page.name}/", source=self.name) for page in found[:limit]]


def run_demo_plan(project: Project) -> None:
    """Runs the plan once a store, in a folder that is removed afterwards; its records stay."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "ledger"
        (workspace / "secrets").mkdir(parents=True)
        order = PlanOrder(
            plan=read_plan(json.loads(PLAN.read_text("utf-8"))),
            workspace=workspace,
            approve=lambda request: Decision(
                is_approved=True,
                actor=OPERATOR,
                plan_hash=request.plan_hash,
                policy_hash=request.policy_hash,
                reason="the demo approves its own plan",
            ),
            policy=msgspec.structs.replace(
                POLICY, sandbox=msgspec.structs.replace(POLICY.sandbox, deny_patterns=("secrets",))
            ),
            run_id=PLAN_RUN,
            searches=(DocumentationSearch(),),
        )
        if order.folder.exists():
            import_paths(project, [order.folder])
        elif not project.runs.filter(external_id=PLAN_RUN).exists():  # its folder is removed after a day
            run_plan(project, order)
