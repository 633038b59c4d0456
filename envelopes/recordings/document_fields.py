"""The members of an object in a document by their types. A value of another type is noted, for a remark.

Whoever looks whether a value has a form asks the value itself, which notes nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from envelopes.recordings.documents import DocumentValue
from envelopes.recordings.json_lines import LARGEST_COUNT, changed_time, epoch_time, valid_timestamp

WRONG_TYPE = "left out: wrong type"


def text_member(members: dict[str, DocumentValue], *names: str) -> str | None:
    """The first of these members that is a string; others are noted."""
    for name in names:
        if name not in members:
            continue
        if (text := members[name].text()) is not None:
            return text
        members[name].note(WRONG_TYPE)
    return None


def time_member(members: dict[str, DocumentValue], name: str, *, may_count: bool = False) -> str | None:
    """A point in time: a text of ISO 8601, or seconds or milliseconds since 1970. Others are noted.

    So is a number, unless the format writes such (`may_count`).
    """
    if name not in members:
        return None
    node = members[name]
    value = node.value() if not node.is_text else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        at = epoch_time(value)
        became = ("" if may_count else "read as a time since 1970") if at else "left out: no time"
    else:
        text = node.text()
        at, became = valid_timestamp(text), changed_time(text) if text is not None else "left out: no text"
    if became:
        node.note(became, "timestamp")
    return at


def object_member(members: dict[str, DocumentValue], name: str) -> dict[str, DocumentValue]:
    """The members of an object; nothing for another value, which is noted."""
    if name in members and not members[name].is_object:
        members[name].note(WRONG_TYPE)
    return members[name].members() if name in members else {}


def list_member(members: dict[str, DocumentValue], name: str) -> list[DocumentValue]:
    """The elements of a list; nothing for another value, which is noted."""
    if name in members and not members[name].is_list:
        members[name].note(WRONG_TYPE)
    return members[name].elements() if name in members else []


def integer_member(members: dict[str, DocumentValue], name: str) -> int:
    """A number of tokens or milliseconds; 0 for another value, which is noted."""
    value = members[name].value() if name in members else 0
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST_COUNT:
        return value
    members[name].note("left out: not a possible number")
    return 0


def milliseconds_member(members: dict[str, DocumentValue], name: str) -> int | None:
    """A duration in seconds as milliseconds; None for another value, which is noted."""
    if name not in members:
        return None
    seconds = members[name].value()
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds < 2**40:
        members[name].note("left out: not a possible number", "duration")
        return None
    return int(seconds * 1000)


def flag_member(members: dict[str, DocumentValue], name: str) -> bool | None:
    """True or false; None for another value, which is noted."""
    raw = members[name].raw if name in members else b"null"
    if raw not in (b"true", b"false", b"null"):
        members[name].note("left out: neither true nor false")
    return {b"true": True, b"false": False}.get(raw)


def failed_member(members: dict[str, DocumentValue], name: str, failed: Collection[str]) -> bool | None:
    """True for one of `failed`, false for success; None for a word of no known meaning, which is noted."""
    word = text_member(members, name)
    if word is None or word in failed or word == "success":
        return None if word is None else word in failed
    members[name].note("left out: not a known outcome")
    return None


def note_unknown(members: dict[str, DocumentValue], name: str, known: Collection[str], became: str) -> None:
    """Notes a word that has no known meaning."""
    if name in members and text_member(members, name) not in known:
        members[name].note(became)


def join_texts(content: DocumentValue) -> str:
    """The text of a content: a text, or the texts of its parts, a line end between them."""
    return content.text() or "\n".join(text_member(part.members(), "text") or "" for part in content.elements())
