"""`render CALL --variant NAME`: the exact text that a variant writes for a recorded call."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.evidence.call_evidence import surfaces_of
from dashboard.management.console import terminal_text
from dashboard.models import Call
from dashboard.variants.render_call import CannotRender, render_call
from envelopes.text.untrusted_json import visible


class Command(BaseCommand):
    help = (
        "Prints what a variant writes for a call: its text and nothing else, without a newline at the end. "
        "Lone surrogates, which no terminal can take, are written as \\udxxx."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("call", metavar="CALL", help="the call's id, or the id that its agent gave it")
        parser.add_argument("--variant", default="receipt", metavar="NAME", help="receipt unless given")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        call = _call(options["call"])
        try:
            found = render_call(surfaces_of(call, {}), options["variant"])
        except CannotRender as reason:
            raise CommandError(terminal_text(str(reason))) from None
        text = visible(found.receipt.text)
        if options["as_json"]:
            chosen = {"variant": found.variant.id, "version": found.variant.version, "hash": found.variant.hash}
            facts = {"call": str(call.pk), "tool": call.tool, "family": found.family.name, **chosen, "text": text}
            self.stdout.write(json.dumps(facts))
        else:
            self.stdout.write(text, ending="")


def _call(named: str) -> Call:
    """Ids of agents repeat across runs and projects; then ours has to be given."""
    calls = Call.objects.select_related("run").order_by("run__external_id", "line")
    own = _uuid(named)
    found = list(calls.filter(pk=own) if own else ()) or list(calls.filter(external_id=named)[:20])
    if not found:
        raise CommandError(terminal_text(f"There is no call {named!r}."))
    if len(found) > 1:
        candidates = "\n".join(f"  {one.pk}  {one.tool} in run {one.run.external_id}" for one in found)
        raise CommandError(f"{terminal_text(named)} is the id of several calls. Give one of these:\n{candidates}")
    return found[0]


def _uuid(named: str) -> UUID | None:
    try:
        return UUID(named)
    except ValueError:
        return None
