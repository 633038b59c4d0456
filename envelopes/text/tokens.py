"""Token counts, each with the encoding it was made in and whether it is exact.

`toktok` (the `tokens` extra) has the o200k vocabulary offline. Without it four characters count as one
token. The tokenizers of Claude and Gemini are not published, so a count for their models is an estimate
(dependencies.md section 4).

    count_tokens, count_all   counts made here and now
    background_counter        counts made in a process of their own while an import reads on

Loading the vocabulary takes half a second and holds the interpreter's lock, so a thread would gain nothing.
Where the process cannot be started, or ends early, the counts are made here: they are the same.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from envelopes.text.untrusted_json import visible

CHARACTERS_PER_TOKEN = 4
ENCODING = "o200k_base"
O200K_MODELS = ("gpt-4o", "gpt-4.1", "gpt-5", "o1", "o3", "o4")
PROGRAM = Path(__file__).with_name("token_process.py")
WORTH_A_PROCESS = 2**20  # bytes of recordings
PATIENCE = 5.0  # seconds for the process to end by itself


class TokenCount(msgspec.Struct, frozen=True):
    count: int
    encoding: str
    certainty: Literal["exact", "estimate"]


PendingCounts: TypeAlias = Callable[[], list[TokenCount]]  # waits for one count per text
TokenCounter: TypeAlias = Callable[[Sequence[str], str], PendingCounts]  # texts, model


def count_tokens(text: str, *, model: str = "") -> TokenCount:
    return count_all([text], model=model)[0]


def count_all(texts: Sequence[str], *, model: str = "") -> list[TokenCount]:
    """One count per text, in order; a batch costs little more than its characters."""
    batch_count = _load_vocabulary()
    if batch_count is None:
        return [TokenCount(-(-len(text) // CHARACTERS_PER_TOKEN), "characters/4", "estimate") for text in texts]
    counts = batch_count([text if text.isascii() else visible(text) for text in texts], ENCODING)
    return _with_certainty(counts, model)


def count_now(texts: Sequence[str], model: str) -> PendingCounts:
    """A TokenCounter that counts in this process, when it is waited for."""
    return lambda: count_all(texts, model=model)


@contextmanager
def background_counter(
    size: int, *, program: Path = PROGRAM, interpreter: str = sys.executable, patience: float = PATIENCE
) -> Iterator[TokenCounter]:
    """A TokenCounter for recordings of `size` bytes, in a process of its own where that is worth it.

    There is none for less than WORTH_A_PROCESS bytes, when this process has the vocabulary already, or
    when `toktok` is not installed. The process has `patience` seconds to end with its input.
    """
    process = None if size < WORTH_A_PROCESS or _is_ready() else _start(interpreter, program)
    if process is None:
        yield count_now
        return
    with process, ThreadPoolExecutor(1) as pool:
        try:
            yield lambda texts, model: pool.submit(_count_in, process, texts, model).result
        finally:
            _end(process, patience)


def _is_ready() -> bool:
    """True when the vocabulary is loaded here, or cannot be had at all."""
    return _load_vocabulary.cache_info().currsize > 0 or find_spec("toktok") is None


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


def _start(interpreter: str, program: Path) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            [interpreter, "-I", str(program), ENCODING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


def _count_in(process: subprocess.Popen[bytes], texts: Sequence[str], model: str) -> list[TokenCount]:
    assert process.stdin is not None  # it was started with pipes
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode([visible(text) for text in texts]) + b"\n")
        process.stdin.flush()
        counts = msgspec.json.decode(process.stdout.readline(), type=list[int])
    except (OSError, ValueError):  # the process is gone: a closed pipe, or no answer
        counts = []
    return _with_certainty(counts, model) if len(counts) == len(texts) else count_all(texts, model=model)


def _end(process: subprocess.Popen[bytes], patience: float) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
