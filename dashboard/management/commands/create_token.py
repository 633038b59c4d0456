"""`create_token NAME`: creates a token for programs and prints it, once."""

from __future__ import annotations

import getpass
import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.audit import record_command
from dashboard.management.console import add_project_argument, find_project
from dashboard.models import AccessToken, AuditEntry
from dashboard.tokens import NameTaken, create_token


class Command(BaseCommand):
    help = "Creates a token with which a program sends recordings, or reads what is stored, and prints it once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="identifies the token in lists, e.g. the machine that has it")
        parser.add_argument(
            "--scope",
            choices=AccessToken.Scope.values,
            default=AccessToken.Scope.INGEST.value,
            help="ingest sends recordings, read asks the API, mcp is for agents; default: %(default)s",
        )
        add_project_argument(parser)
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        name, scope = options["name"].strip(), options["scope"]
        if not (0 < len(name) <= 60 and name.isprintable()):
            raise CommandError("A name has 1 to 60 characters that can be printed.")
        project = find_project(options["project"])
        try:
            token = create_token(project, name, scope, by=getpass.getuser())
        except NameTaken as taken:
            raise CommandError(str(taken)) from None
        record_command(project, AuditEntry.Action.SETTING, f"token {name} created for {scope}")
        if options["as_json"]:
            self.stdout.write(json.dumps({"token": token, "name": name, "scope": scope, "project": project.slug}))
            return
        self.stdout.write(f"Token {name} for {scope} in {project.slug}. It is shown only now:\n{token}")
