"""Token counts beside other work. Loading the vocabulary takes half a second and holds the interpreter's
lock, so a thread would gain nothing: a process does it while the first lines are read.

    with counting_beside(size) as count:
        wait = count(texts, model="")      a function that gives one TokenCount per text
        ...
        counts = wait()

Where the process cannot be had, or ends, the counts are made here: they are the same.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

from envelopes.text.tokens import ENCODING, TokenCount, count_all, counted, is_loaded
from envelopes.text.untrusted_json import visible

Wait: TypeAlias = Callable[[], list[TokenCount]]
Count: TypeAlias = Callable[[Sequence[str], str], Wait]
PROGRAM = Path(__file__).with_name("token_process.py")
WORTH = 2**20  # bytes of recordings
PATIENCE = 5  # seconds for the process to end by itself


def count_here(texts: Sequence[str], model: str) -> Wait:
    return lambda: count_all(texts, model=model)


@contextmanager
def counting_beside(size: int) -> Iterator[Count]:
    """Without a process when `size` bytes are not worth it, when this process has the vocabulary already, or
    when the library is not installed.
    """
    process = None if size < WORTH or is_loaded() else _started()
    if process is None:
        yield count_here
        return
    with process, ThreadPoolExecutor(1) as asking:
        try:
            yield lambda texts, model: asking.submit(_asked, process, texts, model).result
        finally:
            _end(process)


def _started() -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            [sys.executable, "-I", str(PROGRAM), ENCODING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


def _asked(process: subprocess.Popen[bytes], texts: Sequence[str], model: str) -> list[TokenCount]:
    try:
        counts = _answer(process, texts)
    except (OSError, ValueError):  # it is gone: a closed pipe, or no answer
        return count_all(texts, model=model)
    return counted(counts, model=model) if len(counts) == len(texts) else count_all(texts, model=model)


def _answer(process: subprocess.Popen[bytes], texts: Sequence[str]) -> list[int]:
    assert process.stdin is not None  # it was started with pipes
    assert process.stdout is not None
    process.stdin.write(msgspec.json.encode([visible(text) for text in texts]) + b"\n")
    process.stdin.flush()
    return msgspec.json.decode(process.stdout.readline(), type=list[int])


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
