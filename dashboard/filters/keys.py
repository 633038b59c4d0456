"""The keys of the filter language: what may stand behind the colon, and whether it is about a call or about its run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, get_args

from dashboard.filters.syntax import TEXT, Term, describe_place
from dashboard.models import Remark
from dashboard.models.notes import READER
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import ReceiptAuthor
from dashboard.text.formatting import DAY, EARLIEST, HOUR, LATEST, MAX_INTEGER, MINUTE, SECOND
from envelopes.schema.outcome import DeniedReason
from envelopes.schema.tool import RiskLevel
from envelopes.text.search_words import Phrase, parse_phrase

Over = Literal["runs", "calls"]
Subject = Literal["run", "call", "row"]  # a row is what the list consists of

# From a number behind the colon: by lookup of Django, in the unit of the column.
Bounds = dict[str, Any]

UNITS = {"ms": 1, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}  # milliseconds
THOUSANDS = {"": 1, "k": 1_000, "m": 1_000_000}
LOOKUPS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "=": "exact", "": "exact"}
OPPOSITES = {"gt": "lt", "gte": "lte", "lt": "gt", "lte": "gte", "exact": "exact"}
_COMPARISON = re.compile(r"(>=|<=|>|<|=|)(?!\.\.)(.+)", re.DOTALL)
_COUNT = re.compile(r"([0-9]{1,18})([km]?)", re.IGNORECASE)
_SIGNED = re.compile(r"-?[0-9]{1,10}")
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9])?)%")
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)(ms|s|m|h|d)", re.IGNORECASE)


class Share(NamedTuple):
    """A part of a whole, in thousandths."""

    thousandths: int


@dataclass(frozen=True)
class Key:
    """`words` are the only values; `read` makes bounds of the value; with neither, the value is a name or a text.

    A text that `is_payload` is looked for in what a call contains, by words.
    """

    subject: Subject
    help: str
    words: tuple[str, ...] = ()
    read: Callable[[str], Bounds | None] | None = None
    example: str = ""
    is_name: bool = False
    is_payload: bool = False


def read_count(text: str) -> Bounds | None:
    return _read_bounds(text, _parse_count)


def read_integer(text: str) -> Bounds | None:
    return _read_bounds(text, lambda number: int(number) if _SIGNED.fullmatch(number) else None)


def read_lines(text: str) -> Bounds | None:
    """Bounds in lines, or in Shares of all lines."""
    return _read_bounds(text, _parse_share if text.endswith("%") else _parse_count)


def read_duration(text: str) -> Bounds | None:
    return _read_bounds(text, _parse_duration)


def read_age(text: str) -> Bounds | None:
    """Bounds of the time since then: what is younger than two days has a later stamp."""
    bounds = _read_bounds(text, _parse_duration)
    return bounds and {OPPOSITES[lookup]: timedelta(milliseconds=value) for lookup, value in bounds.items()}


def read_time(text: str) -> datetime | None:
    """A day or a time, in UTC where nothing else is said; None unless it is between 1970 and 2200."""
    try:
        time = datetime.fromisoformat(text.upper())
        time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return time if EARLIEST <= time < LATEST else None


def _read_bounds(text: str, parse: Callable[[str], Any]) -> Bounds | None:
    low, dots, high = text.partition("..")
    if dots and (low or high):
        ends = {lookup: parse(end) for lookup, end in (("gte", low), ("lte", high)) if end}
        return None if None in ends.values() else ends
    comparison = _COMPARISON.fullmatch(text)
    number = parse(comparison[2]) if comparison else None
    return {LOOKUPS[comparison[1]]: number} if comparison and number is not None else None


def _parse_count(text: str) -> int | None:
    count = _COUNT.fullmatch(text)
    number = int(count[1]) * THOUSANDS[count[2].lower()] if count else MAX_INTEGER
    return number if number < MAX_INTEGER else None


def _parse_share(text: str) -> Share | None:
    share = _SHARE.fullmatch(text)
    thousandths = round(10 * float(share[1])) if share else 1_001
    return Share(thousandths) if thousandths <= 1_000 else None


def _parse_duration(text: str) -> int | None:
    duration = _DURATION.fullmatch(text)
    number = round(float(duration[1]) * UNITS[duration[2].lower()]) if duration else MAX_INTEGER
    return number if number < 100 * 365 * DAY else None


def _read_after(text: str) -> Bounds | None:
    return {"gte": time} if (time := read_time(text)) else None


def _read_before(text: str) -> Bounds | None:
    return {"lt": time} if (time := read_time(text)) else None


COUNT_EXAMPLES = "a number: 3, >3, <=3, 1000..5000 or >5k"
DURATION_EXAMPLES = "a duration with its unit (ms, s, m, h, d): >30s, <200ms, 1m..5m"
EXIT_EXAMPLES = "a whole number: 1, >0, -9, 1..127"
LINES_EXAMPLES = "a number of lines or a share of them: 0, >100, <50%, 10%..50%"
TIME_EXAMPLES = "a day or a time in UTC: 2026-01-20, 2026-01-20T14:00"

STATES = ("failed", "cut", "unanswered", "retried", "halves", "disagree", "drifted")
CALL_STATUSES = ("failed", "ok", "skipped", "unanswered", "waiting")
RUN_STATUSES = ("live", "ended", "idle")

KEYS: dict[str, Key] = {
    "tool": Key("call", "the tool", is_name=True),
    "outcome": Key("call", "how the call ended", tuple(Outcome.values)),
    "status": Key("call", "failed, ok, unanswered …; of a run live, ended, idle", (*CALL_STATUSES, *RUN_STATUSES)),
    "cut": Key("call", "the model got a part of the output", ("yes", "no")),
    "error": Key("call", "the kind of error", is_name=True),
    "family": Key("call", "the family of tools", is_name=True),
    "tokens": Key("call", "tokens of the receipt", read=read_count, example=COUNT_EXAMPLES),
    "took": Key("call", "the tool's own time where it is known", read=read_duration, example=DURATION_EXAMPLES),
    "waited": Key("call", "the other time, as of a person", read=read_duration, example=DURATION_EXAMPLES),
    "exit": Key("call", "the exit status of a command", read=read_integer, example=EXIT_EXAMPLES),
    "seen": Key("call", "lines of the output that the model got", read=read_lines, example=LINES_EXAMPLES),
    "state": Key("call", "a mark of the call", (*STATES, "child")),
    "risk": Key("call", "the risk that an executor recorded", get_args(RiskLevel)),
    "reason": Key("call", "why it was stopped before it ran", get_args(DeniedReason)),
    "author": Key("call", "who wrote the receipt", tuple(ReceiptAuthor.values)),
    "context": Key("call", "tokens left the context unexplained", ("uncertain",)),
    "remark": Key("call", "changed on import", tuple(Remark.Kind.values)),
    "receipt": Key("call", "words that the receipt contains, as the model got it", is_payload=True),
    "canonical": Key("call", "words that the complete recorded result contains", is_payload=True),
    "args": Key("call", "words that the arguments contain", is_payload=True),
    "any": Key("call", "words in any half; on Runs in messages too", is_payload=True),
    "model": Key("run", "the model", is_name=True),
    "agent": Key("run", "the agent", is_name=True),
    "source": Key("run", "the format of the recording", is_name=True),
    "branch": Key("run", "the branch", is_name=True),
    "title": Key("run", "words in the run's title"),
    "failed": Key("run", "number of failed calls of the run", read=read_count, example=COUNT_EXAMPLES),
    "calls": Key("run", "number of calls of the run", read=read_count, example=COUNT_EXAMPLES),
    "child": Key("run", "runs of subagents", ("any", "yes", "no")),
    "tag": Key("row", "a tag that somebody gave; on Runs to one of its calls too", is_name=True),
    "note": Key("row", "words of a note, or yes"),
    "reviewed": Key("row", "somebody marked it as reviewed", ("yes", "no")),
    "assigned": Key("row", "the member who takes care of it, or me", is_name=True),
    "after": Key("row", "began at that time or later", read=_read_after, example=TIME_EXAMPLES),
    "before": Key("row", "began earlier", read=_read_before, example=TIME_EXAMPLES),
    "age": Key("row", "time since it began", read=read_age, example=DURATION_EXAMPLES),
}


def describe_subject(term: Term, over: Over) -> Literal["run", "call"]:
    """Tells a term about calls from one about runs, in a filter over that list."""
    if term.kind == "status":
        return "run" if term.value in RUN_STATUSES or (over, term.value) == ("runs", "ok") else "call"
    if (term.kind, term.value) == ("state", "child") or (over, term.kind, term.value) == ("runs", "cut", "no"):
        return "run"
    subject: Subject = "row" if term.kind == TEXT else KEYS[term.kind].subject
    return ("run" if over == "runs" else "call") if subject == "row" else subject


def phrase_of(term: Term) -> Phrase | None:
    """The words that a term about payloads searches for; None for any other term, and for one without words."""
    key = KEYS.get(term.kind)
    return parse_phrase(term.value, is_pattern=term.is_pattern) if key and key.is_payload else None


def check_term(term: Term) -> tuple[Term, str]:
    """The term with its value as the language writes it, and a sentence about what is wrong with it."""
    if term.kind == TEXT:
        return term, ""
    name = f"“{term.kind[:40]}:” {describe_place(term.at)}"
    key = KEYS.get(term.kind)
    if key is None:
        return term, f"{name} is not a filter{_suggest(term.kind, KEYS, ':')} Text with a colon needs quotes."
    if key.is_payload:
        has_words = phrase_of(term) is not None
        return term, "" if has_words else f"{name} needs a letter or a digit to search for."
    if (term.kind, term.value.casefold()) == ("assigned", "me"):
        reader = READER.get()
        problem = "" if reader else f"{name} cannot be “me” here: nobody is signed in."
        return Term("assigned", reader, at=term.at), problem
    if not key.words and key.read is None:
        return Term(term.kind, term.value, term.is_pattern and key.is_name, term.at), ""
    value = term.value if key.read else term.value.lower()
    checked = Term(term.kind, value, at=term.at)
    shown = value if len(value) <= 60 else value[:59] + "…"
    if key.read is not None:
        return checked, "" if key.read(value) else f"{name} cannot be “{shown}”; it takes {key.example}."
    if value not in key.words:
        words = ", ".join(key.words)
        return checked, f"{name} cannot be “{shown}”; it is one of {words}{_suggest(value, key.words)}"
    return checked, ""


def _suggest(word: str, known: Any, suffix: str = "") -> str:
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean “{near[0]}{suffix}”?" if near else "."
