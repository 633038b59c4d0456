"""What goes on the wire: one module a provider, each thin. They consume the receipt and add no meaning.

A body is a plain dict, ready for the provider's client. No client is imported here.
"""

from __future__ import annotations

from functools import cache

from envelopes.transports import anthropic, gemini, mcp, openai_chat, openai_responses
from envelopes.transports.base import Body, CallIds, Delivered, NotCarried, Transport

TRANSPORTS: tuple[Transport, ...] = (
    anthropic.TRANSPORT,
    openai_responses.TRANSPORT,
    openai_responses.CUSTOM,
    openai_chat.TRANSPORT,
    gemini.TRANSPORT,
    mcp.TRANSPORT,
)

__all__ = ["TRANSPORTS", "Body", "CallIds", "Delivered", "NotCarried", "Transport", "transport"]


def transport(name: str) -> Transport:
    """Raises KeyError for a name that no provider has."""
    return _by_name()[name]


@cache
def _by_name() -> dict[str, Transport]:
    return {one.name: one for one in TRANSPORTS}
