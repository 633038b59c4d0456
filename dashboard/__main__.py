"""`counterfoil …` and `python manage.py …` are the same program."""

from __future__ import annotations

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    from django.core.management import call_command, execute_from_command_line
    from django.db import DatabaseError

    try:
        execute_from_command_line(sys.argv)
    except DatabaseError as error:
        if "migrate" in sys.argv:
            raise
        try:
            call_command("migrate", check_unapplied=True, verbosity=0)  # changes nothing; exits where some are pending
        except SystemExit:
            sys.exit(f"CommandError: {error}\nThe store has pending migrations. Run: python manage.py migrate")
        raise


if __name__ == "__main__":
    main()
