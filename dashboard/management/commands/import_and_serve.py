"""`counterfoil PATH …`: from recordings to a page in one command."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from dashboard.accounts import DEFAULT_PROJECT, OPERATOR, create_member, get_or_create_project
from dashboard.management.console import print_new_link, serve_until_stopped
from dashboard.models import Membership


class Command(BaseCommand):
    help = (
        "Migrates, imports recordings, prints a one-time sign-in link, and serves. `counterfoil PATH …` does the same."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", metavar="PATH", help="files or folders")
        parser.add_argument("--no-serve", action="store_true", help="only import and print the link")
        parser.add_argument("--addrport", default="127.0.0.1:8000", metavar="HOST:PORT", help="default: %(default)s")

    def handle(self, *_args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        call_command("import_runs", *options["paths"], stdout=self.stdout, stderr=self.stderr)
        user, _ = create_member(OPERATOR, get_or_create_project(), Membership.Role.OPERATOR)
        base_url = f"http://{options['addrport']}"
        print_new_link(self.stdout, user, {}, base_url=base_url, as_json=False, to=f"/runs/?project={DEFAULT_PROJECT}")
        if not options["no_serve"]:
            serve_until_stopped(self.stdout, options["addrport"])
