"""The bytes of a recording are stored once, in frames; calls, messages and events refer to slices of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from dashboard.ingest.importer import import_paths
from dashboard.models import (
    CanonicalProjection,
    Event,
    Message,
    Observation,
    Project,
    Source,
    SourceFrame,
    load_slices,
)
from dashboard.models.sources import FEW_SLICES, FRAME_BYTES, DamagedEvidence
from tests.dashboard.sessions import SESSION, answers, asks, encoded, write

pytestmark = pytest.mark.django_db
SIZES = (1, 900, 40_000, FRAME_BYTES - 300, FRAME_BYTES, 300_000)


def lines_of(sizes: list[int]) -> list[bytes]:
    """A call for each size, answered by a text of as many characters."""
    return [
        encoded(line) + b"\n"
        for number, size in enumerate(sizes)
        for line in (asks(f"toolu_{number}"), answers(f"toolu_{number}", "x" * size, {"stdout": f"{number}" * size}))
    ]


def import_grown(project: Project, path: Path, lines: list[bytes], ends: list[int]) -> None:
    """Imports the file each time that it has grown to one of the numbers of lines, and at last whole."""
    for end in (*ends, len(lines)):
        path.write_bytes(b"".join(lines[:end]))
        import_paths(project, [path])


@pytest.mark.extended
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=6), data=st.data())
def test_frames_hold_the_whole_file_however_it_grew(
    project: Project, tmp_path: Path, sizes: list[int], data: st.DataObject
) -> None:
    Source.objects.all().delete()
    lines = lines_of(sizes)
    ends = data.draw(st.lists(st.integers(1, len(lines)), max_size=3).map(sorted))
    path = tmp_path / f"{SESSION}.jsonl"
    import_grown(project, path, lines, ends)
    frames = list(SourceFrame.objects.order_by("offset"))
    assert b"".join(frame.data for frame in frames) == path.read_bytes()
    assert [frame.offset for frame in frames] == [
        sum(earlier.size for earlier in frames[:index]) for index in range(len(frames))
    ]
    starts = {sum(map(len, lines[:index])): index + 1 for index in range(len(lines))}
    for frame in frames:
        assert frame.first_line == starts[frame.offset]
        assert frame.size <= FRAME_BYTES or frame.data.count(b"\n") == 1
    for model in (Observation, Message, Event):
        model.objects.all().delete()


def test_every_call_gets_the_bytes_that_its_line_holds(project: Project, tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    import_grown(project, path, lines_of(list(SIZES)), [3, 7])
    rows = list(Observation.objects.select_related("call"))
    load_slices(rows)
    assert {(row.call.external_id, row.data) for row in rows if row.surface == "receipt"} == {
        (f"toolu_{number}", b'"%b"' % (b"x" * size)) for number, size in enumerate(SIZES)
    }
    few = list(Observation.objects.filter(surface="receipt").order_by("-line")[:FEW_SLICES])
    load_slices(few)
    assert [row.data for row in few] == [b'"%b"' % (b"x" * size) for size in SIZES[: -FEW_SLICES - 1 : -1]]
    assert {row.own_data for row in rows} == {None}  # not one of them is a copy


def test_the_slices_of_a_page_are_one_query(
    project: Project, tmp_path: Path, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    import_grown(project, tmp_path / f"{SESSION}.jsonl", lines_of(list(SIZES)), [])
    rows = list(Observation.objects.all())
    with django_assert_num_queries(1):
        load_slices(rows)


@pytest.mark.postgresql("shorter")
@pytest.mark.parametrize("damage", ["no frame", "shorter", "no zstd"])
def test_missing_bytes_are_an_error_and_never_a_shorter_text(damage: str, project: Project, tmp_path: Path) -> None:
    import_grown(project, tmp_path / f"{SESSION}.jsonl", lines_of([900]), [])
    frame = SourceFrame.objects.get()
    if damage == "no frame":
        frame.delete()
    elif damage == "shorter":
        frame.own_data = frame.data[:-100]
        frame.save()
    else:
        table = SourceFrame._meta.db_table
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET own_data = %s", [b"not zstd"])
    with pytest.raises(DamagedEvidence):
        load_slices(Observation.objects.filter(surface="result"))


def test_ids_and_hashes_are_stored_as_bytes(project: Project, tmp_path: Path) -> None:
    """As characters they took a seventh of the store."""
    import_grown(project, tmp_path / f"{SESSION}.jsonl", lines_of([10]), [])
    row = Observation.objects.first()
    assert row is not None
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id, call_id, sha256 FROM {Observation._meta.db_table} ORDER BY id LIMIT 1")
        ids = [bytes(getattr(value, "bytes", value)) for value in cursor.fetchone()]
    assert ids == [row.pk.bytes, row.call_id.bytes, bytes.fromhex(row.sha256)]


def test_an_envelope_is_packed_beside_the_bytes_that_it_repeats(project: Project, tmp_path: Path) -> None:
    text = "\n".join(hashlib.sha256(b"%d" % number).hexdigest() for number in range(100))
    lines = [asks("toolu_1"), answers("toolu_1", text, {"stdout": text, "stderr": ""})]
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", lines)])
    stored = CanonicalProjection.objects.get()
    assert json.loads(stored.data)["result"]["stdout_preview"] == text
    assert len(stored.packed) < stored.size / 20
    assert CanonicalProjection.objects.select_related("observation").get().data == stored.data
    SourceFrame.objects.all().delete()
    with pytest.raises(DamagedEvidence):
        len(CanonicalProjection.objects.get().data)
