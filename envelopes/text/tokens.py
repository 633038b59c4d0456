"""Token counts that say how they were made. Nobody outside knows Claude's or Gemini's tokenizer,
so a count for them is an estimate and says so (dependencies.md section 4).

`toktok` (the `tokens` extra) holds the o200k vocabulary offline. Without it a count is one token
for four characters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Literal

import msgspec

from envelopes.text.untrusted_json import visible

CHARACTERS_PER_TOKEN = 4
ENCODING = "o200k_base"
O200K_MODELS = ("gpt-4o", "gpt-4.1", "gpt-5", "o1", "o3", "o4")


class TokenCount(msgspec.Struct, frozen=True):
    count: int
    encoding: str
    certainty: Literal["exact", "estimate"]


def count_tokens(text: str, *, model: str = "") -> TokenCount:
    return count_all([text], model=model)[0]


def count_all(texts: Sequence[str], *, model: str = "") -> list[TokenCount]:
    """One count per text, in order; a batch costs little more than its characters."""
    count = _batch_counter()
    if count is None:
        return [TokenCount(-(-len(text) // CHARACTERS_PER_TOKEN), "characters/4", "estimate") for text in texts]
    return counted(count([text if text.isascii() else visible(text) for text in texts], ENCODING), model=model)


def counted(counts: Sequence[int], *, model: str) -> list[TokenCount]:
    """Counts in ENCODING, wherever they were made, and what they are worth for `model`."""
    certainty: Literal["exact", "estimate"] = "exact" if model.startswith(O200K_MODELS) else "estimate"
    return [TokenCount(tokens, ENCODING, certainty) for tokens in counts]


def is_loaded() -> bool:
    """Whether counting needs no more than its characters: the vocabulary is here, or cannot be had."""
    return _batch_counter.cache_info().currsize > 0 or find_spec("toktok") is None


@cache
def _batch_counter() -> Callable[[Sequence[str], str], list[int]] | None:
    try:
        import toktok
    except ImportError:
        return None
    counter: Callable[[Sequence[str], str], list[int]] = toktok.batch_count
    return counter
