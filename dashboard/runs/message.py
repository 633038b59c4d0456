"""One message of a run by itself: as text in windows, or the recorded JSON as a file."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.http import Http404, HttpResponse
from django.utils.safestring import SafeString

from dashboard.models import Message, Run
from dashboard.text.chunks import NEXT_CHARS, chunk_end
from dashboard.text.payload_preview import labelled_parts
from dashboard.text.responses import sandboxed
from dashboard.text.text_markup import escape

# Recorded text never runs: no type of its own, no scripts, not shown in the page's origin.


@dataclass(frozen=True, slots=True)
class Part:
    label: str
    body: SafeString


@dataclass(frozen=True)
class WholeMessage:
    """The characters from `start` to `end` of `total`; offsets count over all parts in order."""

    run: Run
    message: Message
    parts: tuple[Part, ...]
    start: int
    end: int
    total: int

    @property
    def previous(self) -> int:
        return max(0, self.start - NEXT_CHARS)


def whole_message(run: Run, key: str, start: str | None) -> WholeMessage:
    """The window of message `key` from character `start`. Raises Http404."""
    message = _message(run, key)
    parts = labelled_parts(bytes(message.data))
    total = sum(len(text) for _, text in parts)
    first = min(int(start), total) if start and start.isdecimal() and len(start) < 12 else 0
    end = chunk_end("".join(text for _, text in parts), first, NEXT_CHARS)
    return WholeMessage(run, message, tuple(_within(parts, first, end)), first, end, total)


def raw_message(run: Run, key: str) -> HttpResponse:
    """The message's JSON, byte for byte as recorded, as a download. Raises Http404."""
    message = _message(run, key)
    response = HttpResponse(bytes(message.data), content_type="application/octet-stream")
    return sandboxed(response, file_name=f"message-{message.pk.hex[:12]}.json")


def _message(run: Run, key: str) -> Message:
    try:
        return run.messages.get(pk=UUID(key))
    except (ValueError, Message.DoesNotExist):
        raise Http404("No such message in this run.") from None


def _within(parts: list[tuple[str, str]], start: int, end: int) -> list[Part]:
    found: list[Part] = []
    offset = 0
    for label, text in parts:
        piece = text[max(0, start - offset) : max(0, end - offset)]
        if piece or not text:
            found.append(Part(label, escape(piece)))
        offset += len(text)
    return found
