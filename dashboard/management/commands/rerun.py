"""`rerun RUN`: runs the plan of a run again, as a new run that names it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from dashboard.management.commands import run_plan
from dashboard.management.console import find_run, terminal_text
from dashboard.plans.plan_run import POLICY
from envelopes.codecs.call import encode_policy
from envelopes.text.untrusted_json import object_slices, parse_json


class Command(run_plan.Command):
    help = (
        "Runs the plan of a run again, in a folder that you name, and records which run it repeats: both stand side by "
        "side on the page of two runs. A plan with masked secrets cannot be run again from its records."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", metavar="RUN", help="the run's id, or the id that its executor gave it")
        self.add_run_arguments(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        run = find_run(options["run"])
        name = terminal_text(run.external_id)
        if not run.plan:
            raise CommandError(f"{name} has no plan: runs of other agents cannot be run again.", returncode=2)
        document = object_slices(bytes(run.document)) if run.document else {}
        if "redactions" in document:
            raise CommandError(
                f"The plan of {name} has secrets, which are masked in its records: give the plan to run_plan.",
                returncode=2,
            )
        if options["policy"] is None and parse_json(document.get("policy", b"null")) != encode_policy(POLICY):
            self.stderr.write(f"{name} had another policy than the standard one: --policy FILE gives one to this run.")
        self.run_document(parse_json(bytes(run.plan)), run.project, options, replay_of=run.external_id)
