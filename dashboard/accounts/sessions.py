"""Django's sessions in the database, read by a query that is compiled once: every page reads one."""

from __future__ import annotations

from typing import Any

from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone

from dashboard.prepared import given, instance, names_of, prepared


@prepared
def _open_session() -> QuerySet[Any, Any]:
    key = given("key", Session, "session_key")
    now = given("now", Session, "expire_date")
    return Session.objects.filter(session_key=key, expire_date__gt=now).values_list(*names_of(Session))


class SessionStore(DatabaseStore):
    """Django asks it to have this name. A session that was ended elsewhere is gone with the next request."""

    def _get_session_from_db(self) -> Session | None:
        """A cookie can say anything, a NUL that PostgreSQL refuses too; Django's keys are letters and digits."""
        key = self.session_key or ""
        found = _open_session(key=key, now=timezone.now()) if key.isascii() and key.isalnum() else []
        if found:
            return instance(Session, found[0])
        self._session_key = None
        return None
