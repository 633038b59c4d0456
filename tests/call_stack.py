"""pytest plugin: each process runs above one large frame, so that its call stack never needs another piece of memory.

CPython keeps the frames of Python functions in pieces of 16 KB, some eighty calls deep. It maps a piece when a call
goes past the end of the one before and unmaps it when that call returns. A loop at that depth does so in each turn, and
a test of a page has several such depths: half of the system's time, and two thirds of the page faults, went to it. A
frame that is larger than a piece gets a piece of its own, of the next power of two, and the frames above it share what
it leaves free.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

# Slots of eight bytes. The piece is the next power of two, 1 MB, of which 488 KB are left: 3,000 calls or more.
# What is not used is not touched, and so takes no memory.
SLOTS = 70_000


def call_above_a_large_frame(function: Callable[..., Any], **arguments: Any) -> Any:
    return function(**arguments)


call_above_a_large_frame.__code__ = call_above_a_large_frame.__code__.replace(co_stacksize=SLOTS)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Any:
    """Calls what pytest would have called, and returns its result."""
    rest = config.pluginmanager.subset_hook_caller("pytest_cmdline_main", [sys.modules[__name__]])
    return call_above_a_large_frame(rest, config=config)
