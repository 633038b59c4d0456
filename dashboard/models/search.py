"""The index over the words of payloads: a row for each call, with a column for each half, and for each message.

A text that a receipt and the result have in common, character for character, is in a column of its own, because most
receipts repeat the output: to index it once halves the index and its time.

SQLite: a full-text table without content, whose entries cannot be deleted one by one; PostgreSQL: a row of lexemes.
`Call.search_id` and `Message.search_id` name the entry of the current evidence, and are empty until there is one: an
older entry is no longer named by anything. What an index finds is a candidate, which `dashboard.search` looks for in
the text itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import re2
from django.conf import settings
from django.db import connection
from django.db.models import F, QuerySet
from django.db.models.expressions import RawSQL

from dashboard.models.projects import Project
from dashboard.models.runs import Message
from envelopes.text.search_words import LONGEST, Phrase, index_word, separate_words, split_words

HALVES = ("receipt", "canonical", "args")
ANY = "any"
KINDS = (*HALVES, ANY)
COMMON = "both"  # of receipt and canonical
COLUMNS = (*HALVES, "message", COMMON)
COLUMNS_BY_HALF = {"receipt": ("receipt", COMMON), "canonical": ("canonical", COMMON), ANY: COLUMNS}
BETWEEN_TEXTS = " ¶ "  # as a word between two texts of one half, so that no words in a row are of both
TABLE = "dashboard_searchtext"
MANY_ENTRIES = 10_000  # of a phrase: more are estimated by PostgreSQL's planner, not counted
Entry: TypeAlias = Sequence[str]  # as `prepare_entry` makes it
# `re` looks at each word again from each of its characters.
_LONG_WORD = re2.compile(f"[A-Za-z0-9_\u0080-\U0010ffff]{{{LONGEST + 1}}}")
MATCHING = {
    "sqlite": f"SELECT rowid FROM {TABLE} WHERE {TABLE} MATCH %s",  # noqa: S608 - a constant
    "postgresql": f"SELECT id FROM {TABLE} WHERE words @@ %s::tsquery",  # noqa: S608 - a constant
}


def is_exact(phrase: Phrase) -> bool:
    """True where the index alone tells which texts contain the phrase, as far as they are indexed."""
    return not phrase.parts and (connection.vendor == "sqlite" or len(phrase.words) == 1)


def matching_ids(half: str, phrase: Phrase, *, is_listed: bool = False) -> RawSQL:
    """The entries that may contain the phrase in this half, or in any.

    With `is_listed` PostgreSQL reads all of them first (`is_read_whole`). Else its planner may look into the lexemes of
    each call that it comes by, which is right where most calls match and the first ones are wanted.
    """
    is_sqlite = connection.vendor == "sqlite"
    words = (_sqlite_query if is_sqlite else _postgresql_query)(half, phrase)
    entries = MATCHING[connection.vendor]
    if is_listed and not is_sqlite:
        entries = f"WITH matching AS MATERIALIZED ({entries}) SELECT id FROM matching"  # noqa: S608 - constants
    return RawSQL(entries, [words])  # noqa: S611 - the words are a parameter


def newest_matching(half: str, phrases: Sequence[Phrase], most: int) -> list[int]:
    """The last `most` entries that may contain all of the phrases in this column, the last one first."""
    is_sqlite = connection.vendor == "sqlite"
    write, joint = (_sqlite_query, " AND ") if is_sqlite else (_postgresql_query, " & ")
    words = joint.join(f"({write(half, phrase)})" for phrase in phrases)
    order = f"{'rowid' if is_sqlite else 'id'} DESC LIMIT %s"
    with connection.cursor() as cursor:
        cursor.execute(f"{MATCHING[connection.vendor]} ORDER BY {order}", [words, most])
        return [int(row[0]) for row in cursor.fetchall()]


def select_messages(project: Project, entries: Sequence[int]) -> QuerySet[Message]:
    """The messages of a project that these entries are of, the last entry first."""
    messages = Message.objects.filter(search_id__in=entries, run__project=project)
    return messages.order_by(F("search_id").desc(nulls_last=True))


def is_read_whole(entries: int) -> bool:
    """True where PostgreSQL reads so many entries faster than it looks into those of one call after another.

    To look into an entry takes four times as long, because its lexemes lie in another table, and a page with counted
    calls looks into as many thousands as the phrase is rare. SQLite always reads them all.
    """
    return connection.vendor == "postgresql" and entries <= settings.LISTED_ENTRIES


def _estimate_entries(half: str, phrase: Phrase) -> int:
    """How many entries PostgreSQL's planner expects, from its statistics: it counts none of them."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {MATCHING['postgresql']}", [_postgresql_query(half, phrase)])
        return int(cursor.fetchone()[0][0]["Plan"]["Plan Rows"])


def count_calls_with(half: str, phrase: Phrase, most: int) -> int:
    """How many calls the entries are of, up to `most`; of few entries, how many these are: some may be of messages.

    On PostgreSQL always how many entries, because the join takes longer there; of more than MANY_ENTRIES its estimate.
    """
    is_sqlite = connection.vendor == "sqlite"
    if not is_sqlite and (estimate := _estimate_entries(half, phrase)) > max(most, MANY_ENTRIES):
        return estimate
    words = (_sqlite_query if is_sqlite else _postgresql_query)(half, phrase)
    entries = MATCHING[connection.vendor]
    count = _count_rows(entries, words, most)
    if not is_sqlite or count < most:
        return count
    # CROSS JOIN has SQLite go from entry to entry, and stop at the last one that is counted.
    join = f"SELECT 1 FROM ({entries}) AS entry CROSS JOIN dashboard_call ON search_id = entry.rowid"  # noqa: S608
    return _count_rows(join, words, most)


def _count_rows(query: str, words: str, most: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM ({query} LIMIT %s) AS few", [words, most])  # noqa: S608 - constants
        return int(cursor.fetchone()[0])


def _sqlite_query(half: str, phrase: Phrase) -> str:
    words = '"' + " ".join(map(index_word, phrase.words)) + '"' + "*" * phrase.is_prefix
    return words if half == ANY else f"{{{' '.join(_columns_of(half))}}} : {words}"


def _postgresql_query(half: str, phrase: Phrase) -> str:
    last = len(phrase.words) - 1
    return " | ".join(
        " & ".join(
            f"'{column[0]}{index_word(word)}'" + ":*" * (phrase.is_prefix and index == last)
            for index, word in enumerate(phrase.words)
        )
        for column in _columns_of(half)
    )


def _columns_of(half: str) -> Sequence[str]:
    return COLUMNS_BY_HALF.get(half, (half,))


def prepare_entry(texts: Sequence[Sequence[str]]) -> Entry:
    """Makes of the texts of each of HALVES, and of a message, what the index stores, without a database."""
    receipt, canonical, *others = texts
    common = set(receipt).intersection(canonical)
    own = ([text for text in half if text not in common] for half in (receipt, canonical))
    columns = [*own, *others, sorted(common)]
    return [*map(_join_texts, columns)] if connection.vendor == "sqlite" else [" ".join(_lexemes(columns))]


def insert_entries(entries: Sequence[Entry]) -> list[int]:
    """Adds entries; returns their ids."""
    if not entries:
        return []
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"SELECT max(rowid) FROM {TABLE}")  # noqa: S608 - a constant
            first = (cursor.fetchone()[0] or 0) + 1
            ids = list(range(first, first + len(entries)))
            rows: list[list[int | str]] = [[key, *entry] for key, entry in zip(ids, entries, strict=True)]
            names = ", ".join(("rowid", *COLUMNS))
            cursor.executemany(f"INSERT INTO {TABLE} ({names}) VALUES (%s{', %s' * len(COLUMNS)})", rows)  # noqa: S608
            return ids
        numbers = f"SELECT nextval('{TABLE}_id_seq') FROM generate_series(1, %s)"  # noqa: S608 - a constant
        cursor.execute(numbers, [len(entries)])
        ids = [row[0] for row in cursor.fetchall()]
        cursor.executemany(
            f"INSERT INTO {TABLE} (id, words) VALUES (%s, array_to_tsvector(string_to_array(%s, ' ')))",  # noqa: S608
            [(key, *entry) for key, entry in zip(ids, entries, strict=True)],
        )
        return ids


def _join_texts(texts: Sequence[str]) -> str:
    """The texts of a column, so that the table's tokenizer splits them into our words: ASCII it does as we do."""
    return BETWEEN_TEXTS.join(map(_prepare_text, texts))


def _prepare_text(text: str) -> str:
    separated = text if text.isascii() else separate_words(text)
    return " ".join(map(index_word, split_words(text))) if _LONG_WORD.search(separated) else separated


def _lexemes(texts: Sequence[Sequence[str]]) -> set[str]:
    return {
        column[0] + index_word(word)
        for column, texts_of_column in zip(COLUMNS, texts, strict=True)
        for text in texts_of_column
        for word in set(split_words(text))
    }


def delete_all_entries() -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"INSERT INTO {TABLE} ({TABLE}) VALUES ('delete-all')")  # noqa: S608 - a constant
        else:
            cursor.execute(f"DELETE FROM {TABLE}")  # noqa: S608 - a constant
