"""The names that occur in a project (tools, models, branches …): which of them a term means, and completions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import NamedTuple

from django.db import connection

from dashboard.filters.keys import KEYS, Key
from dashboard.filters.syntax import Term, describe_place
from dashboard.models import Project

LISTED = 5
COMPLETIONS = 8
# The word that ends at the cursor, behind a dash or a parenthesis, and the rest of it behind the cursor.
_TYPED = re.compile(r'(?:^|(?<=[\s(]))-?((?:([A-Za-z_]+):)?("[^"]*|[^\s()"]*))$')
_BEHIND = re.compile(r"[^\s()]*")
SUGGESTED_NAMES = ("tool", "model", "agent", "branch")  # for a word without a key
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
            value = term.value.casefold().replace("*", "")
            within = [name for name in names if value and value in name]
            near = within[:1] or get_close_matches(value, list(names), n=1, cutoff=0.5)
            sentence = f"“{term}” {describe_place(term.at)} occurs nowhere"
            if near:
                yield f"{sentence}; the nearest that does is “{Term(term.kind, names[near[0]])}”."
            else:
                listed = ", ".join(f"“{name}”" for name in list(names.values())[:LISTED])
                yield f"{sentence}; {f'{listed} do' if listed else 'nothing does'}."


class Completion(NamedTuple):
    """A label with its help, and the whole filter with it, the cursor at `at`."""

    label: str
    help: str
    text: str
    at: int


def complete(project: Project, text: str, at: int) -> list[Completion]:
    """The best completions; none where the cursor is not in a word that has any."""
    word = _TYPED.search(text, 0, min(at, len(text)))
    if word is None:
        return []
    key, value = word[2], word[3].lstrip('"')
    end = _BEHIND.match(text, word.end())
    before, behind = text[: word.start(1)], text[end.end() if end else word.end() :]
    completions = []
    for label, help_text in islice(_candidates(Names(project.pk), key and key.lower(), value), COMPLETIONS):
        space = "" if label.endswith(":") or behind[:1] in (" ", ")") else " "
        completed = before + label + space
        completions.append(Completion(label, help_text, completed + behind, len(completed)))
    return completions


def _candidates(names: Names, name: str | None, value: str) -> Iterator[tuple[str, str]]:
    """Labels with their help, the best first."""
    if name is not None:
        key = KEYS.get(name)
        if key is not None and key.words:
            yield from ((f"{name}:{word}", "") for word in _matching(key.words, value))
        elif key is not None and key.is_name:
            yield from ((str(Term(name, word)), "") for word in _matching(names.occurring(name), value))
        return
    yield from ((f"{known}:", _help(KEYS[known])) for known in KEYS if known.startswith(value.lower()))
    for kind in SUGGESTED_NAMES if value else ():
        words = _matching(names.occurring(kind), value)
        yield from ((str(Term(kind, word)), "") for word in words if word.casefold().startswith(value.casefold()))


def _matching(words: Iterable[str], typed: str) -> list[str]:
    """Words that contain what was typed, those that begin with it first."""
    folded = typed.casefold()
    matching = [word for word in words if folded in word.casefold()]
    return sorted(matching, key=lambda word: (not word.casefold().startswith(folded), word.casefold()))


def _help(key: Key) -> str:
    return key.help + (f": {', '.join(key.words)}" if len(key.words) in (2, 3) else "")
