"""What each call of a page asked for, in a line: `make test`, `/src/app.py`, a question.

A summary says what came of a call. Of forty commands that ended well it says forty times the same, and
nobody finds the one that is looked for. Read from the head of the recorded arguments, for the rows of one
page alone; it is a label, and the whole arguments are on the Call page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import BinaryField, ExpressionWrapper, F, QuerySet, UUIDField
from django.db.models.functions import Substr

from dashboard.models import Call, Observation
from dashboard.prepared import given, prepared
from dashboard.text.escaping import printable

HEAD_BYTES = 600
LONGEST = 160  # characters
SHORTEST_REPEATED = 4  # characters; `x` is in every sentence
# What a person would call the request, by the names that agents give it; without one of them, the first text.
NAMES = ("command", "file_path", "notebook_path", "path", "pattern", "query", "url", "description")
# A member of JSON with a text, which may end where the head does.
_TEXT = re.compile(r'"([^"\\]*)"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)', re.DOTALL)
_DECODE = json.JSONDecoder(strict=False).decode
_HALF_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{0,3}$")


def asked_by(calls: Sequence[UUID]) -> dict[UUID, str]:
    """By call, those left out that have no text among their arguments. For the calls of one page."""
    if not calls:
        return {}
    most = 1 << (len(calls) - 1).bit_length()  # else every number of calls would be a query to compile
    keys = {f"key{number}": calls[min(number, len(calls) - 1)] for number in range(most)}
    told = ((call, request(bytes(head))) for call, head in _heads(most, **keys))
    return {call: text for call, text in told if text}


def unless_said(asked: str, summary: str) -> str:
    """What was asked, or nothing where the summary has it."""
    return "" if len(asked) >= SHORTEST_REPEATED and asked in summary else asked


@prepared
def _heads(most: int) -> QuerySet[Any, Any]:
    keys = [given(f"key{number}", Call, "id") for number in range(most)]
    own = ExpressionWrapper(F("call_id"), output_field=UUIDField())  # a relation takes no placeholders in a list
    found = Observation.objects.alias(own=own).filter(own__in=keys, surface="args", selected=True)
    return found.values_list("call_id", Substr("data", 1, HEAD_BYTES, output_field=BinaryField()))


def request(head: bytes) -> str:
    """The telling text of recorded arguments, of which `head` may be only the first bytes; empty without one."""
    text = head.decode("utf-8", "replace")
    found = _TEXT.findall(text)
    texts = dict(reversed(found))  # of two with one name, the first
    chosen = next((texts[name] for name in NAMES if name in texts), found[0][1] if found else "")
    return _line(chosen, is_whole=not text.endswith(chosen)) if chosen else ""


def _line(escaped: str, *, is_whole: bool) -> str:
    try:
        text = _DECODE(f'"{_HALF_ESCAPE.sub("", escaped)}"') if "\\" in escaped else escaped
    except json.JSONDecodeError:
        return ""
    words = " ".join(text.split())
    return printable(words if is_whole and len(words) <= LONGEST else f"{words[: LONGEST - 1]}…")
