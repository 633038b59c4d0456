"""`tool_inventory`: writes `envelopes/families/inventory.json` from the definitions of the built-in tools."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from envelopes.families.registry import INVENTORY_PATH, build_inventory, load_inventory


class Command(BaseCommand):
    help = "Rewrites the inventory of built-in tools and raises its version when something changed."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; fail when the file is not up to date")

    def handle(self, *args: Any, **options: Any) -> None:
        file = INVENTORY_PATH
        stored = load_inventory(file)
        current = build_inventory(previous=stored)
        count = len(current["tools"])
        if stored == current:
            self.stdout.write(f"{file.name} is up to date: version {current['version']}, {count} tools.")
            return
        if options["check"]:
            raise CommandError(f"{file.name} is not what the code defines. Run `python manage.py tool_inventory`.")
        file.write_text(json.dumps(current, indent=2, ensure_ascii=False) + "\n", "utf-8")
        self.stdout.write(f"{file.name} has version {current['version']} now and {count} tools.")
