"""`counterfoil …` and `python manage.py …` are the same program."""

from __future__ import annotations

import json
import os
import sys

from dashboard.garbage_collection import collect_rarely

WITHOUT_STORE = ("verify", "tap")


def main() -> None:
    collect_rarely()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    from django.core.management import execute_from_command_line
    from django.db import Error

    arguments = _name_the_command(sys.argv)
    try:
        if len(arguments) > 1 and not {"-h", "--help"} & set(arguments):
            _make_the_tables_of_an_empty_store(arguments[1])
        execute_from_command_line(arguments)
    except (Error, OSError) as error:
        if "migrate" not in arguments:
            _explain_pending_migrations(error)
        _end_for_outage(error)
        raise


def _name_the_command(arguments: list[str]) -> list[str]:
    """`counterfoil PATH …` is `import_and_serve PATH …`. A command's name is the command: `./demo` is the folder."""
    import django
    from django.core.management import get_commands

    program, *rest = arguments
    if not rest or not (os.path.exists(rest[0]) or os.sep in rest[0]):
        return arguments
    django.setup()
    return arguments if rest[0] in get_commands() else [program, "import_and_serve", *rest]


def _make_the_tables_of_an_empty_store(command: str) -> None:
    """Before a command of ours; in an outage the command itself says what is wrong."""
    import django
    from django.core.management import call_command, get_commands
    from django.db import Error, connection

    django.setup()
    if get_commands().get(command) != "dashboard" or command in WITHOUT_STORE:
        return
    try:
        is_empty = not connection.introspection.table_names()
    except Error:
        return
    if is_empty:
        call_command("migrate", verbosity=0)


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
