"""`create_user NAME`: creates a user with a role in a project, and prints a one-time sign-in link."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.accounts import create_member, get_or_create_project
from dashboard.management.console import add_link_arguments, add_project_argument, find_project, print_new_link
from dashboard.models import Membership, Project


class Command(BaseCommand):
    help = (
        "Creates a user, or gives a known one a role in another project, and prints a one-time sign-in link. With "
        "--create-project also the project."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="with which the person signs in")
        parser.add_argument(
            "--role",
            choices=Membership.Role.values,
            default=Membership.Role.OPERATOR.value,
            help="a viewer changes nothing; default: %(default)s",
        )
        add_project_argument(parser)
        parser.add_argument(
            "--create-project", action="store_true", help="create the project of --project where there is none"
        )
        add_link_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"]
        try:
            User._meta.get_field("username").clean(name, None)
        except ValidationError as error:
            raise CommandError(f"{name!r} cannot be a name: {' '.join(error.messages)}") from None
        slug = options["project"]
        project = _get_or_create(slug) if options["create_project"] else find_project(slug)
        user, is_new = create_member(name, project, options["role"])
        facts = {"user": name, "role": options["role"], "project": project.slug, "created": is_new}
        if not options["as_json"]:
            outcome = "was created" if is_new else "existed already"
            self.stdout.write(f"{name} {outcome}: {options['role']} in {project.slug}.")
        print_new_link(self.stdout, user, facts, base_url=options["base_url"], as_json=options["as_json"])


def _get_or_create(slug: str | None) -> Project:
    try:
        Project._meta.get_field("slug").clean(slug or "", None)
    except ValidationError:
        raise CommandError("--create-project needs --project SLUG: letters, digits, - and _, 64 at most.") from None
    return get_or_create_project(slug or "")
