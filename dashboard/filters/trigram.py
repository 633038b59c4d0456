"""The text of runs by its trigrams, on SQLite; PostgreSQL's planner finds its own index (migration 0002).

What is too short for a trigram is looked for in the texts themselves: they lie close together, while the
rows of runs are wide and in the order of another index.
"""

from __future__ import annotations

from functools import lru_cache
from uuid import UUID

from django.db import connection

SHORTEST = 3  # characters; less has no trigram
SCAN = "SELECT run_id FROM dashboard_runtext WHERE project_id = %s AND text LIKE %s ESCAPE '\\' LIMIT %s"
FIND = """
SELECT t.run_id FROM dashboard_runtext_grams g JOIN dashboard_runtext t ON t.id = g.rowid
WHERE g.text MATCH %s AND t.project_id = %s LIMIT %s
"""


def runs_with_text(project: int, text: str, most: int) -> list[UUID] | None:
    """At most so many runs, among them all that can have the text when there are fewer; None without an index.

    Letter case is folded further than the filter folds it: what is found must still be compared.
    """
    if connection.vendor != "sqlite" or not _is_indexed(str(connection.settings_dict["NAME"])):
        return None
    with connection.cursor() as cursor:
        if len(text) < SHORTEST:
            cursor.execute(SCAN, [project, f"%{connection.ops.prep_for_like_query(text)}%", most])
        else:
            cursor.execute(FIND, ['"' + text.replace('"', '""') + '"', project, most])
        return [UUID(hex=row[0]) for row in cursor.fetchall()]


@lru_cache
def _is_indexed(_database: str) -> bool:
    with connection.cursor() as cursor:
        return "dashboard_runtext_grams" in connection.introspection.table_names(cursor)
