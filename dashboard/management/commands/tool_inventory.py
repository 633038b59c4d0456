"""`tool_inventory`: writes `envelopes/families/inventory.json` from the definitions of the built-in tools."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from envelopes import families
from envelopes.families.inventory import PATH, inventory, stored, text


class Command(BaseCommand):
    help = "Writes the inventory of built-in tools anew and raises its version when something changed."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; fail when the file is not up to date")

    def handle(self, *args: Any, **options: Any) -> None:
        before = stored()
        listed = [(family.name, tool) for family, tool in map(families.builtin, families.tools())]
        now = inventory(listed, families.WITHHELD, before)
        count = len(now["tools"])
        if before == now:
            self.stdout.write(f"{PATH.name} is up to date: version {now['version']}, {count} tools.")
            return
        if options["check"]:
            raise CommandError(f"{PATH.name} is not what the code defines. Run `python manage.py tool_inventory`.")
        PATH.write_text(text(now), "utf-8")
        self.stdout.write(f"{PATH.name} has version {now['version']} now and {count} tools.")
