"""`counterfoil mcp`: an MCP server over the store on stdin and stdout, for an agent on this machine."""

from __future__ import annotations

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from dashboard.api.mcp_server import answer_message
from dashboard.management.console import add_project_argument, find_project
from dashboard.project_rules import load_rules
from dashboard.text.masks import Masks, masking
from envelopes.text.deadline import time_budget


class Command(BaseCommand):
    help = "Answers an agent's questions about recorded calls: an MCP server on stdin and stdout. It changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        add_project_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Each message is a line. Answers are masked by the project's rules, whole, as pages are."""
        project = find_project(options["project"])
        for line in sys.stdin.buffer:
            project.refresh_from_db()
            masks = Masks(load_rules(project), seconds=settings.MASK_SECONDS) if settings.MASK else None
            with masking(masks), time_budget(settings.ANSWER_SECONDS):
                answer = answer_message(project, line) if line.strip() else None
            if answer is not None:
                sys.stdout.buffer.write((masks.mask_bytes(answer) if masks else answer) + b"\n")
                sys.stdout.buffer.flush()
