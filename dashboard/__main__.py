"""`counterfoil …` and `python manage.py …` are the same program."""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    from django.core.management import execute_from_command_line
    from django.db import Error

    try:
        execute_from_command_line(sys.argv)
    except (Error, OSError) as error:
        if "migrate" not in sys.argv:
            _explain_pending_migrations(error)
        _end_for_outage(error)
        raise


def _explain_pending_migrations(error: Exception) -> None:
    """Exits where the tables are not those of this version."""
    from django.core.management import call_command
    from django.db import DatabaseError

    try:
        call_command("migrate", check_unapplied=True, verbosity=0)  # changes nothing; exits where some are pending
    except SystemExit:
        sys.exit(f"CommandError: {error}\nThe store has pending migrations. Run: python manage.py migrate")
    except DatabaseError:
        return  # an outage that goes on


def _end_for_outage(error: Exception) -> None:
    """Exits where the store cannot be used now; with --json the sentence is in a document."""
    from dashboard.faults import TRY_AGAIN, find_outage
    from dashboard.management.console import terminal_text

    outage = find_outage(error)
    if outage is None:
        return
    sentence, detail = f"{outage.title}. {outage.sentence}", terminal_text(str(error).partition("\n")[0])
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps({"ok": False, "error": sentence, "detail": detail}) + "\n")
    else:
        sys.stderr.write(f"CommandError: {sentence}\n({detail})\n")
    sys.exit(TRY_AGAIN)


if __name__ == "__main__":
    main()
