"""Waiting for the network no longer than was said, where a client library may wait for ever.

Work runs on an event loop in a thread of its own; what is not done in time is cancelled there and raises
TimeoutError here. The limits that the library takes are no such promise: they end its requests, but not
an upload in parts as a whole, and nothing at all in a process that was forked from one that had used it,
where the threads are gone that would have done the work.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")
GRACE = 2.0  # seconds for the cancelling


def within(seconds: float, work: Callable[[], Awaitable[T]]) -> T:
    """What the work comes to. Raises TimeoutError after `seconds`."""
    waiting = asyncio.run_coroutine_threadsafe(_bounded(seconds, work), _loop(os.getpid()))
    try:
        return waiting.result(seconds + GRACE)
    except CancelledError:
        raise TimeoutError from None
    finally:
        waiting.cancel()


async def _bounded(seconds: float, work: Callable[[], Awaitable[T]]) -> T:
    return await asyncio.wait_for(work(), seconds)


@lru_cache(maxsize=1)
def _loop(_process: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="bucket", daemon=True).start()
    return loop
