"""The names that occur in a project (tools, models, branches …), and those that a term means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from django.db import connection

from dashboard.filters.keys import KEYS
from dashboard.filters.syntax import Term, describe_place

LISTED = 5
# Each step is one look into the index, so that 20,000 runs with five tools cost five looks.
DISTINCT_VALUES = """
WITH RECURSIVE names(value) AS (
  SELECT (SELECT min(value) FROM dashboard_runfacet WHERE project_id = %(project)s AND kind = %(kind)s)
  UNION ALL
  SELECT (SELECT min(value) FROM dashboard_runfacet
          WHERE project_id = %(project)s AND kind = %(kind)s AND value > names.value)
  FROM names WHERE names.value IS NOT NULL
) SELECT value FROM names WHERE value IS NOT NULL
"""


class Names:
    """The names of one project, each kind read at most once."""

    def __init__(self, project_id: int) -> None:
        self.project_id = project_id
        self._names: dict[str, list[str]] = {}

    def occurring(self, kind: str) -> list[str]:
        if kind not in self._names:
            with connection.cursor() as cursor:
                cursor.execute(DISTINCT_VALUES, {"project": self.project_id, "kind": kind})
                self._names[kind] = [row[0] for row in cursor.fetchall()]
        return self._names[kind]

    def matching(self, term: Term) -> list[str]:
        """The names that the term means, without regard to case."""
        if term.is_pattern:
            pattern = re.compile(".*".join(map(re.escape, term.value.casefold().split("*"))), re.DOTALL)
            return [name for name in self.occurring(term.kind) if pattern.fullmatch(name.casefold())]
        folded = term.value.casefold()
        return [name for name in self.occurring(term.kind) if name.casefold() == folded]

    def hints(self, terms: Iterator[Term]) -> Iterator[str]:
        """A sentence for each term whose name occurs nowhere, with the nearest that does."""
        for term in terms:
            if term.kind not in KEYS or not KEYS[term.kind].is_name or self.matching(term):
                continue
            names = {name.casefold(): name for name in self.occurring(term.kind)}
            near = get_close_matches(term.value.casefold().replace("*", ""), list(names), n=1, cutoff=0.5)
            sentence = f"“{term}” {describe_place(term.at)} occurs nowhere"
            if near:
                yield f"{sentence}; the nearest that does is “{Term(term.kind, names[near[0]])}”."
            else:
                listed = ", ".join(list(names.values())[:LISTED])
                yield f"{sentence}; {f'{listed} do' if listed else 'nothing does'}."
