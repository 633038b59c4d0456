"""`share RUN|CALL FILE`: writes a run or a call as one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from dashboard.audit import record_command
from dashboard.management.console import add_base_url_argument, terminal_text
from dashboard.models import AuditEntry, Call, Run
from dashboard.models.sources import DamagedEvidence
from dashboard.project_rules import load_rules
from dashboard.sharing.share_file import share_call, share_run
from dashboard.text.masks import Masks, masking


class Command(BaseCommand):
    help = (
        "Writes a run or a call as one HTML file with both halves, cuts marked, secrets masked by the rules of the "
        "project, and the SHA-256 of each text, which `verify FILE` checks."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("subject", metavar="RUN|CALL", help="an id, or the id that the agent gave it")
        parser.add_argument("file", metavar="FILE", help="a file that does not exist yet")
        add_base_url_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        subject = _find_subject(options["subject"])
        origin, target = options["base_url"].rstrip("/"), Path(options["file"])
        noun = "run" if isinstance(subject, Run) else "call"
        words = f"{noun} {subject.external_id} ({subject.pk}) as an HTML file, masked"
        try:
            with masking(Masks(load_rules(subject.project))), target.open("x", encoding="utf-8", newline="") as file:
                record_command(subject.project, AuditEntry.Action.EXPORT, words)
                if isinstance(subject, Run):
                    file.write(share_run(subject, origin=origin))
                else:
                    file.write(share_call(subject, {}, origin=origin))
        except DamagedEvidence as error:
            target.unlink()
            raise CommandError(terminal_text(str(error))) from None
        except DatabaseError:
            target.unlink()  # what the audit log cannot have is not exported
            raise
        except OSError as error:
            raise CommandError(f"{terminal_text(str(target))}: {error.strerror or error}") from None
        self.stdout.write(f"{terminal_text(str(target))}: {noun} {subject.pk}, {target.stat().st_size:,} bytes")


def _find_subject(name: str) -> Run | Call:
    """Ids of agents may repeat; for those that do, our own id has to be given."""
    try:
        lookup: dict[str, Any] = {"pk": UUID(name)}
    except ValueError:
        lookup = {"external_id": name}
    runs = list(Run.objects.select_related("project").filter(**lookup).order_by("pk")[:20])
    calls = list(Call.objects.with_run_and_source().select_related("project").filter(**lookup).order_by("pk")[:20])
    matches: list[Run | Call] = [*runs, *calls]
    if not matches:
        raise CommandError(terminal_text(f"There is no run or call {name!r}."))
    if len(matches) > 1:
        candidates = "\n".join(f"  {match.pk}" for match in matches)
        sentence = f"{terminal_text(name)} is the id of several runs or calls. Give one of these:"
        raise CommandError(f"{sentence}\n{candidates}")
    return matches[0]
