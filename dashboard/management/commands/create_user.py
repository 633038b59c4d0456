"""`create_user NAME`: creates a user with a role in a project, and prints a one-time sign-in link."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.accounts import create_member
from dashboard.management.console import add_link_arguments, add_project_argument, find_project, print_new_link
from dashboard.models import Membership


class Command(BaseCommand):
    help = "Creates a user, or gives a known one a role in another project, and prints a one-time sign-in link."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="with which the person signs in")
        parser.add_argument(
            "--role",
            choices=Membership.Role.values,
            default=Membership.Role.OPERATOR.value,
            help="a viewer changes nothing; default: %(default)s",
        )
        add_project_argument(parser)
        add_link_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"]
        try:
            User._meta.get_field("username").clean(name, None)
        except ValidationError as error:
            raise CommandError(f"{name!r} cannot be a name: {' '.join(error.messages)}") from None
        project = find_project(options["project"])
        user, is_new = create_member(name, project, options["role"])
        facts = {"user": name, "role": options["role"], "project": project.slug, "created": is_new}
        if not options["as_json"]:
            outcome = "was created" if is_new else "existed already"
            self.stdout.write(f"{name} {outcome}: {options['role']} in {project.slug}.")
        print_new_link(self.stdout, user, facts, base_url=options["base_url"], as_json=options["as_json"])
