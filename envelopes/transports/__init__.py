"""Transports: the message that answers a tool call, in the form of each provider. One module a provider.

A body is a plain dict, ready for the provider's client. No client is imported here.
"""

from __future__ import annotations

from envelopes.transports import anthropic, gemini, langchain, mcp, openai
from envelopes.transports.base import (
    AnsweredCall,
    Body,
    CallIds,
    DecodedBody,
    IncompleteTurn,
    Transport,
    UnsupportedPart,
)

TRANSPORTS: tuple[Transport, ...] = (
    anthropic.TRANSPORT,
    openai.RESPONSES,
    openai.CUSTOM,
    openai.CHAT,
    gemini.TRANSPORT,
    mcp.TRANSPORT,
    mcp.STRUCTURED,
    langchain.TRANSPORT,
)

__all__ = [
    "TRANSPORTS",
    "AnsweredCall",
    "Body",
    "CallIds",
    "DecodedBody",
    "IncompleteTurn",
    "Transport",
    "UnsupportedPart",
    "transport",
]


def transport(name: str) -> Transport:
    """Returns the transport of that name. Raises KeyError.

    >>> transport("anthropic").title
    'Anthropic Messages'
    """
    for candidate in TRANSPORTS:
        if candidate.name == name:
            return candidate
    raise KeyError(name)
