"""Indents the further lines of values, so that none of them can pass for a line of the receipt's own (RFC-025).

A path or a title can hold a line break and behind it the words `Kind: …`. Previews are blocks of their own, and stay as
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import ParamSpec

from envelopes.families.fitting import indent_lines
from envelopes.schema.receipt import Segment

Arguments = ParamSpec("Arguments")


def with_indented_values(body: Callable[Arguments, Iterable[Segment]]) -> Callable[Arguments, Iterable[Segment]]:
    """The function that writes the body of a receipt, with its values indented."""

    @wraps(body)
    def write(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Iterator[Segment]:
        for segment in body(*args, **kwargs):
            is_value = segment.role in ("value", "headline") and segment.source is not None
            yield from indent_lines(segment) if is_value and "\n" in segment.text.rstrip("\n") else (segment,)

    return write
