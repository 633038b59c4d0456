"""The outline of a JSON value, as text and as segments with their sources."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envelopes.schema.result import JsonValue
from envelopes.text.outline import outline, outline_text

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab:\n ", max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("k/\n", max_size=2), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_the_text_of_an_outline_is_that_of_its_segments(value: JsonValue) -> None:
    assert outline_text(value) == "".join(segment.text for segment in outline(value, ""))
