"""`demo`: the first command for a newcomer. Imports real runs, prints a sign-in link and serves."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from dashboard.accounts import DEMO_PROJECT, OPERATOR, create_link, create_member, get_or_create_project
from dashboard.ingest.importer import import_paths
from dashboard.management.console import serve_until_stopped
from dashboard.models import Membership

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


class Command(BaseCommand):
    help = (
        "Migrates, imports the bundled recordings into a project of their own, prints a one-time sign-in link, and "
        "serves."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-serve", action="store_true", help="only prepare the store and print the link")
        parser.add_argument("--addrport", default="127.0.0.1:8000")
        parser.add_argument("--json", action="store_true", help="one JSON document on stdout and nothing else")

    def handle(self, *_args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        project = get_or_create_project(DEMO_PROJECT)
        report = import_paths(project, [SAMPLES], shown_as=lambda path: f"samples/{path.relative_to(SAMPLES)}")
        user, _ = create_member(OPERATOR, project, Membership.Role.OPERATOR)
        create_member(OPERATOR, get_or_create_project(), Membership.Role.OPERATOR)  # where own recordings go
        path, expires_at = create_link(user)
        link = f"http://{options['addrport']}{path}"
        if options["json"]:
            facts = {"sign_in": link, "expires_at": expires_at.isoformat(), **report.to_json()}
            self.stdout.write(json.dumps(facts))
        else:
            self.stdout.write(f"{report.seen['runs']} runs with {report.seen['calls']} calls are in the store.")
            self.stdout.write(f"Sign in once with this link: {link}")
        if not options["no_serve"]:
            serve_until_stopped(self.stdout, options["addrport"])
