"""`render CALL --variant NAME`: prints the text that a variant writes for a recorded call, with secrets masked."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.audit import record_command
from dashboard.evidence.call_evidence import load_evidence
from dashboard.management.console import terminal_text
from dashboard.models import AuditEntry, Call
from dashboard.project_rules import load_rules
from dashboard.text.masks import Masks
from dashboard.variants.render_call import CannotRender, render_call
from envelopes.text.untrusted_json import visible


class Command(BaseCommand):
    help = (
        "Prints the text that a variant writes for a call, and nothing else: no newline at the end. Lone surrogates, "
        "which no terminal can print, are written as \\udxxx; on a terminal so are control characters and others that "
        "cannot be seen, while a file or a pipe gets them as they are. Secrets are masked by the rules of the project; "
        "--stored prints them, and the audit log has that."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("call", metavar="CALL", help="the call's id, or the id that its agent gave it")
        parser.add_argument("--variant", default="receipt", metavar="NAME", help="default: receipt")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")
        parser.add_argument("--stored", action="store_true", help="the text with any secrets in it")

    def handle(self, *args: Any, **options: Any) -> None:
        call = _find_call(options["call"])
        try:
            rendered = render_call(load_evidence(call, {}), options["variant"])
        except CannotRender as error:
            raise CommandError(terminal_text(str(error))) from None
        text = visible(rendered.receipt.text)
        if options["stored"]:
            record_command(
                call.project, AuditEntry.Action.EXPORT, f"text of call {call.external_id} ({call.pk}), as stored"
            )
        else:
            text = Masks(load_rules(call.project)).mask(text)
        if options["as_json"]:
            variant = rendered.variant
            facts = {
                "call": str(call.pk),
                "tool": call.tool,
                "family": rendered.family.name,
                "variant": variant.id,
                "version": variant.version,
                "hash": variant.hash,
                "text": text,
            }
            self.stdout.write(json.dumps(facts))
        else:
            self.stdout.write(_terminal_lines(text) if self.stdout.isatty() else text, ending="")


def _terminal_lines(text: str) -> str:
    """The text as `terminal_text` has it, with its line ends and tabs."""
    return "".join(part if part in ("\n", "\t") else terminal_text(part) for part in re.split(r"([\n\t])", text))


def _find_call(name: str) -> Call:
    """Ids of agents repeat across runs and projects; for those that do, our own id has to be given."""
    calls = Call.objects.select_related("run", "project").order_by("run__external_id", "line")
    try:
        by_id = list(calls.filter(pk=UUID(name)))
    except ValueError:
        by_id = []
    matches = by_id or list(calls.filter(external_id=name)[:20])
    if not matches:
        raise CommandError(terminal_text(f"There is no call {name!r}."))
    if len(matches) > 1:
        candidates = "\n".join(
            terminal_text(f"  {call.pk}  {call.tool} in run {call.run.external_id}") for call in matches
        )
        raise CommandError(f"{terminal_text(name)} is the id of several calls. Give one of these:\n{candidates}")
    return matches[0]
