"""`signin_link NAME`: prints a new one-time link for a user."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.management.console import add_link_arguments, print_new_link


class Command(BaseCommand):
    help = "Prints a new one-time sign-in link; earlier unused ones stay valid until they expire."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="with which the person signs in")
        add_link_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["name"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no user {options['name']!r}. `create_user {options['name']}` creates one.")
        facts = {"user": user.get_username()}
        print_new_link(self.stdout, user, facts, base_url=options["base_url"], as_json=options["as_json"])
