"""An index over the text of runs, for a search that looks at no run that cannot match.

SQLite: a table of the texts with a full-text index of their trigrams, kept by triggers, so that every
way to write a run keeps it. PostgreSQL: a trigram index over the two columns. Where the database has no
trigrams (SQLite before 3.34, PostgreSQL without pg_trgm), the search reads the runs one by one as before.

A later migration that has SQLite write `dashboard_run` anew drops the triggers with the old table and
must run `index_text` again; tests/dashboard/filters/test_trigram.py finds it out.
"""

from __future__ import annotations

from typing import Any

from django.db import DatabaseError, migrations, transaction

ADD = """
INSERT INTO dashboard_runtext (run_id, project_id, text)
VALUES (new.id, new.project_id, new.title || char(10) || new.external_id);
INSERT INTO dashboard_runtext_grams (rowid, text) SELECT id, text FROM dashboard_runtext WHERE run_id = new.id;
"""
TAKE_OUT = """
INSERT INTO dashboard_runtext_grams (dashboard_runtext_grams, rowid, text)
SELECT 'delete', id, text FROM dashboard_runtext WHERE run_id = old.id;
DELETE FROM dashboard_runtext WHERE run_id = old.id;
"""
SQLITE = (
    "CREATE TABLE IF NOT EXISTS dashboard_runtext (id integer PRIMARY KEY, run_id char(32) NOT NULL UNIQUE,"
    " project_id bigint NOT NULL, text text NOT NULL)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS dashboard_runtext_grams"
    " USING fts5(text, content='dashboard_runtext', content_rowid='id', tokenize='trigram')",
    f"CREATE TRIGGER IF NOT EXISTS run_text_added AFTER INSERT ON dashboard_run BEGIN {ADD} END",
    f"CREATE TRIGGER IF NOT EXISTS run_text_gone AFTER DELETE ON dashboard_run BEGIN {TAKE_OUT} END",
    "CREATE TRIGGER IF NOT EXISTS run_text_changed AFTER UPDATE OF title, external_id, project_id ON dashboard_run"
    " WHEN old.title <> new.title OR old.external_id <> new.external_id OR old.project_id <> new.project_id"
    f" BEGIN {TAKE_OUT} {ADD} END",
    "DELETE FROM dashboard_runtext",
    "INSERT INTO dashboard_runtext (run_id, project_id, text)"
    " SELECT id, project_id, title || char(10) || external_id FROM dashboard_run",
    "INSERT INTO dashboard_runtext_grams (dashboard_runtext_grams) VALUES ('rebuild')",
)
POSTGRESQL = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE INDEX dashboard_run_title_grams ON dashboard_run USING gin (upper(title::text) gin_trgm_ops)",
    "CREATE INDEX dashboard_run_external_id_grams ON dashboard_run USING gin (upper(external_id::text) gin_trgm_ops)",
)
STATEMENTS = {"sqlite": SQLITE, "postgresql": POSTGRESQL}
TAKEN_BACK = {
    "sqlite": (
        "DROP TRIGGER IF EXISTS run_text_added",
        "DROP TRIGGER IF EXISTS run_text_gone",
        "DROP TRIGGER IF EXISTS run_text_changed",
        "DROP TABLE IF EXISTS dashboard_runtext_grams",
        "DROP TABLE IF EXISTS dashboard_runtext",
    ),
    "postgresql": (
        "DROP INDEX IF EXISTS dashboard_run_title_grams",
        "DROP INDEX IF EXISTS dashboard_run_external_id_grams",
    ),
}


def index_text(_apps: Any, editor: Any) -> None:
    try:
        with transaction.atomic(using=editor.connection.alias):
            _execute(editor, STATEMENTS)
    except DatabaseError:
        return  # no trigrams here, or nobody may install them


def forget_text(_apps: Any, editor: Any) -> None:
    _execute(editor, TAKEN_BACK)


def _execute(editor: Any, statements: dict[str, tuple[str, ...]]) -> None:
    with editor.connection.cursor() as cursor:
        for statement in statements[editor.connection.vendor]:
            cursor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0005_comparisons")]

    operations = [migrations.RunPython(index_text, forget_text)]
