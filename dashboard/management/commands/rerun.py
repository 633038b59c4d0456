"""`rerun RUN`: runs the plan of a run again, as a new run that names it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from dashboard.management.commands import run_plan
from dashboard.management.console import find_run, terminal_text
from dashboard.models import Run
from dashboard.plans.plan_run import POLICY
from envelopes.codecs.call import decode_policy, encode_policy
from envelopes.schema.call import RunPolicy
from envelopes.schema.result import JsonValue
from envelopes.text.untrusted_json import object_slices, parse_json


class Command(run_plan.Command):
    help = (
        "Runs the plan of a run again, in a folder that you name, under the policy of that run, and records which run "
        "it repeats: both stand side by side on the page of two runs. A plan with masked secrets cannot be run again "
        "from its records."
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
        policy = POLICY if options["policy"] else self._find_policy(run, parse_json(document.get("policy", b"null")))
        self.run_document(parse_json(bytes(run.plan)), run.project, options, standard=policy, replay_of=run.external_id)

    def _find_policy(self, run: Run, recorded: JsonValue) -> RunPolicy:
        """The recorded policy of a run that this store ran. An imported one might allow what nobody here allowed."""
        if run.lease_until is not None:
            return decode_policy(recorded)
        if recorded != encode_policy(POLICY):
            name = terminal_text(run.external_id)
            self.stderr.write(
                f"{name} was imported: the standard policy is used, not the recorded one. --policy FILE gives another."
            )
        return POLICY
