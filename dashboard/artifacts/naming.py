"""Later calls of the run that named an artifact by its path: "the model opened it at call 41".

Certain links only. The path stands whole in the arguments: as a value, or as a word of a command. A
name that is part of another one, a pattern that would match it, and a command that the shell's rules
do not take apart give no link.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db import models
from django.db.models import F, Q, QuerySet, Value

from dashboard.models import Artifact, Call, Observation, RunCall
from envelopes.result import JsonValue
from envelopes.untrusted import Untrusted, tame

MOST = 5  # named calls on the page
TAKEN = 40  # arguments that are read for them
LARGEST = 64 * 1024  # bytes of arguments
SHORTEST = 4  # characters of a path that means one file


class PlaceOf(models.Func):
    """Where bytes stand in a BLOB, from 1; 0 for nowhere. Arguments: the BLOB, the bytes."""

    function = "instr"
    output_field = models.IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        turned = self.copy()
        turned.set_source_expressions(self.get_source_expressions()[::-1])
        return turned.as_sql(compiler, connection, function="position", arg_joiner=" in ", **extra)


@dataclass(frozen=True, kw_only=True)
class Naming:
    """`number` is the place of the call in its run, from 1."""

    call: Call
    number: int


def later_namings(artifact: Artifact) -> tuple[Naming, ...]:
    """In the order of the run, MOST of them."""
    members = RunCall.objects.filter(run=artifact.call.run_id)
    own = members.filter(call=artifact.call_id).first()
    if own is None or len(artifact.path) < SHORTEST:
        return ()
    naming = (one for one in _holding(members, own, artifact.path) if names(artifact.path, bytes(one.data)))
    return tuple(
        Naming(call=one.call, number=members.filter(Q(ordinal__lt=one.ordinal)).count() + 1)
        for one in islice(naming, MOST)
    )


def _holding(members: QuerySet[RunCall], own: RunCall, path: str) -> QuerySet[Any]:
    """Calls whose arguments hold the path's bytes as JSON writes them: no others are carried to be looked at."""
    written = [json.dumps(path, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    plain, other = (Value(text.encode("utf-8", "surrogatepass")) for text in written)
    return (
        members.filter(
            ordinal__gt=own.ordinal,
            call__observations__surface=Observation.Surface.ARGS,
            call__observations__selected=True,
            call__observations__size__lte=LARGEST,
        )
        .annotate(data=F("call__observations__data"))
        .annotate(at=PlaceOf(F("data"), plain), at_other=PlaceOf(F("data"), other))
        .filter(Q(at__gt=0) | Q(at_other__gt=0))
        .select_related("call")
        .order_by("ordinal", "pk")[:TAKEN]
    )


def names(path: str, args: bytes) -> bool:
    """Whether arguments name that very path."""
    try:
        return any(text == path or path in _words(text) for text in _texts(tame(args)))
    except Untrusted:
        return False


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _words(command: str) -> set[str]:
    """Of a command line; redirections and separators are no part of a word."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return set(lexer)
    except ValueError:
        return set()
