"""A receipt is a list of segments with their sources."""

from __future__ import annotations

import pytest

from envelopes.schema.receipt import ImagePart, Receipt, Segment, SegmentSource, TextPart

FIELD = SegmentSource("canonical", "/result/path")
PARTS = (
    TextPart((Segment("read ", "label"), Segment("a.py", "value", FIELD))),
    ImagePart("image/png", "iVBORw0=", 5),
    TextPart((Segment("two", "label"),)),
)


@pytest.mark.parametrize(
    ("characters", "pieces"),
    [
        (0, []),
        (5, [("read ", None)]),
        (7, [("read ", None), ("a.", FIELD)]),
        (10, [("read ", None), ("a.py", FIELD), ("t", None)]),
        (99, [("read ", None), ("a.py", FIELD), ("two", None)]),
    ],
)
def test_the_beginning_of_a_receipt_runs_over_its_texts_and_keeps_the_sources(
    characters: int, pieces: list[tuple[str, SegmentSource | None]]
) -> None:
    assert [(segment.text, segment.source) for segment in Receipt(PARTS).beginning(characters)] == pieces
