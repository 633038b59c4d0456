"""Token counts, each with the encoding it was made in and whether it is exact.

`toktok` (the `tokens` extra) has the o200k vocabulary offline. Without it four characters count as one
token. The tokenizers of Claude and Gemini are not published, so a count for their models is an estimate.
Loading the vocabulary takes half a second, once a process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

import msgspec

from envelopes.text.untrusted_json import visible

CHARACTERS_PER_TOKEN = 4
ENCODING = "o200k_base"
WITHOUT_VOCABULARY = "characters/4"
O200K_MODELS = ("gpt-4o", "gpt-4.1", "gpt-5", "o1", "o3", "o4")


class TokenCount(msgspec.Struct, frozen=True):
    count: int
    encoding: str
    certainty: Literal["exact", "estimate"]


def current_encoding() -> str:
    """The encoding in which tokens are counted here, without loading the vocabulary."""
    return WITHOUT_VOCABULARY if _load_vocabulary() is None else ENCODING


def count_tokens(text: str, *, model: str = "") -> TokenCount:
    return count_all([text], model=model)[0]


def count_all(texts: Sequence[str], *, model: str = "") -> list[TokenCount]:
    """One count per text, in order; a batch costs little more than its characters."""
    batch_count = _load_vocabulary()
    if batch_count is None:
        return [TokenCount(-(-len(text) // CHARACTERS_PER_TOKEN), WITHOUT_VOCABULARY, "estimate") for text in texts]
    counts = batch_count([text if text.isascii() else visible(text) for text in texts], ENCODING)
    return _with_certainty(counts, model)


@cache
def _load_vocabulary() -> Callable[[Sequence[str], str], list[int]] | None:
    try:
        import toktok
    except ImportError:
        return None
    batch_count: Callable[[Sequence[str], str], list[int]] = toktok.batch_count
    return batch_count


def _with_certainty(counts: Sequence[int], model: str) -> list[TokenCount]:
    """Counts in ENCODING: exact for the models that have it."""
    certainty: Literal["exact", "estimate"] = "exact" if model.startswith(O200K_MODELS) else "estimate"
    return [TokenCount(tokens, ENCODING, certainty) for tokens in counts]
