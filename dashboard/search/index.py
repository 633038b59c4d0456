"""Keeps the index of payloads in step with the evidence: a derived product of its own, which can be built again.

`ingest.store_derived` indexes a call with what else it derives of it; here are those that wait, and messages.

A call or message whose text is not searchable has no `search_id`; a killed process leaves some, and the next import,
the worker or `rederive --search` continues. A full-text table without content cannot forget one entry, so after a run
was deleted all of them go and the index is built anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from dashboard.models import Call, Message, Project
from dashboard.models.search import HALVES, Entry, delete_all_entries, insert_entries, prepare_entry
from dashboard.search.documents import load_call_texts, load_message_texts

MESSAGES_AT_ONCE = 512
UPDATE_CALL = "UPDATE dashboard_call SET search_id = %s WHERE id = %s AND evidence_version = %s"
UPDATE_MESSAGE = "UPDATE dashboard_message SET search_id = %s WHERE id = %s"


def index_waiting(project: Project) -> int:
    """Indexes the project's calls and messages that wait for it; returns how many."""
    calls = Call.objects.unsearchable().exclude(derivation="").filter(project=project).order_by("pk")
    messages = Message.objects.filter(search_id=None, run__project=project).order_by("pk")
    done = 0
    for rows, index, at_once in (
        (calls, _index_calls, settings.INDEXED_AT_ONCE),
        (messages, _index_messages, MESSAGES_AT_ONCE),
    ):
        keys = list(rows.values_list("pk", flat=True))
        for start in range(0, len(keys), at_once):
            index(keys[start : start + at_once])
        done += len(keys)
    return done


def index_next_waiting() -> bool:
    """Indexes what waits in one project; False when there was nothing to do."""
    call = Call.objects.unsearchable().exclude(derivation="").values_list("project", flat=True).first()
    if call is None:
        call = Message.objects.filter(search_id=None).values_list("run__project", flat=True).first()
    return call is not None and index_waiting(Project.objects.get(pk=call)) > 0


def reset_index() -> None:
    """Deletes every entry: from then on all calls and messages wait to be indexed."""
    with transaction.atomic():
        delete_all_entries()
        Call.objects.exclude(search_id=None).update(search_id=None)
        Message.objects.exclude(search_id=None).update(search_id=None)


def _index_calls(keys: Sequence[UUID]) -> None:
    versions = dict(Call.objects.filter(pk__in=keys).values_list("pk", "evidence_version"))
    texts = load_call_texts(list(versions))
    entries = [prepare_entry([*(texts[key][half].texts for half in HALVES), ()]) for key in versions]
    _store(UPDATE_CALL, entries, list(versions.items()))


def _index_messages(keys: Sequence[UUID]) -> None:
    messages = list(Message.objects.filter(pk__in=keys))
    texts = load_message_texts(messages)
    entries = [prepare_entry([(), (), (), texts[message.pk].texts]) for message in messages]
    _store(UPDATE_MESSAGE, entries, [(message.pk,) for message in messages])


def _store(statement: str, entries: Sequence[Entry], keys: Sequence[tuple[Any, ...]]) -> None:
    """Adds the entries and names them in their rows, except where newer evidence came in."""
    convert: Callable[[UUID], Any] = (lambda key: key.bytes) if connection.vendor == "sqlite" else (lambda key: key)
    with transaction.atomic():
        ids = insert_entries(entries)
        with connection.cursor() as cursor:
            cursor.executemany(
                statement,
                [(entry, convert(key), *rest) for entry, (key, *rest) in zip(ids, keys, strict=True)],
            )
