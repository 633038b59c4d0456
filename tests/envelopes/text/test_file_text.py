"""A text that stays in its file has the preview of the whole text, and takes little memory."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.families.task.results import TaskRead
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import resolve
from envelopes.text.preview import FILE_CHUNK, FileText, head_tail, read_file_text
from tests.cases import each
from tests.conftest import CHECKOUT
from tests.envelopes.built_in import output, projected, receipt_of

MEGABYTES = 1024
ALLOWED_MEGABYTES = 64
LINES = st.lists(st.sampled_from(["", "a", "line", "é" * 7, "x" * 60]), max_size=40).map("\n".join)

PROJECT = """
import re, sys
from pathlib import Path
from envelopes import CompleteOutput, project, render
from envelopes.storage.sinks import MemorySink
from envelopes.families.registry import builtin
from envelopes.families.task.results import TaskRead
from envelopes.text.preview import read_file_text

family, _ = builtin("TaskOutput")
with open(sys.argv[1], "rb") as file:
    read = TaskRead(retrieval_status="success", task_id="t1", status="completed", output=read_file_text(file, "t1.log"))
complete = CompleteOutput(tool_name="TaskOutput", status="success", summary_text="done", result=read)
text = render(project(complete, family, family.projection, MemorySink()).canonical, family, family.rendering).text
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(len(text), text.count("t1.log"), int(peak[1]) // 1024)
"""


@given(text=LINES, keep=st.integers(1, 80), budget=st.integers(0, 100))
def test_a_preview_from_the_ends_is_the_preview_of_the_whole(text: str, keep: int, budget: int) -> None:
    read = read_file_text(io.BytesIO(text.encode()), "log", keep)
    if len(text) <= keep or 1 < budget <= keep:
        assert read.preview(budget) == head_tail(text, budget)
    assert len(read.preview(budget).head + read.preview(budget).tail) <= max(budget, 0)


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)])
def test_lines_are_counted_as_an_output_counts_them(text: str, lines: int) -> None:
    read = read_file_text(io.BytesIO(text.encode()), "log")
    assert (read.lines, read.characters, read.start, read.end) == (lines, len(text), text, "")


def test_a_character_that_two_chunks_share_is_one_and_broken_bytes_are_replaced() -> None:
    raw = b"x" * (FILE_CHUNK - 1) + "é".encode() + b"\n\xff" + b"\xc3"
    read = read_file_text(io.BytesIO(raw), "log", 4)
    assert (read.characters, read.end) == (FILE_CHUNK + 3, "é\n\ufffd\ufffd")


def test_a_task_output_in_a_file_is_referenced_and_never_written_again() -> None:
    text = "".join(f"line {number}\n" for number in range(5_000))
    read = TaskRead(task_id="t1", status="running", output=read_file_text(io.BytesIO(text.encode()), "tasks/t1.log"))
    sink = MemorySink()
    projection = projected(output("TaskOutput", read), sink)
    whole = projected(
        output("TaskOutput", TaskRead(task_id="t1", status="running", output=text, log_path="tasks/t1.log"))
    )
    assert projection == whole
    assert not sink.texts
    task = resolve(projection.canonical.result, "/task")
    assert isinstance(task, dict)
    assert (task["output_truncated"], task["output_artifact"]) == (True, 0)
    assert receipt_of(projection.canonical).text.endswith("Artifacts, for ReadArtifact path=…:\ntasks/t1.log")


@pytest.mark.long
def test_an_output_of_a_gigabyte_is_projected_in_64_megabytes(tmp_path: Path) -> None:
    """Measures the peak memory of a process of its own, the interpreter and the library included.

    VmHWM is read, because ru_maxrss includes the memory of the parent when it forked.
    """
    log = tmp_path / "t1.log"
    piece = b"".join(b"%07d a line of a log that never ends\n" % number for number in range(30_000))
    with log.open("wb") as file:
        while file.tell() < MEGABYTES * 1024 * 1024:
            file.write(piece)
    done = subprocess.run(
        [sys.executable, "-c", PROJECT, str(log)], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    characters, named, megabytes = map(int, done.stdout.split())
    print(f"{log.stat().st_size / 2**30:.2f} GiB projected and rendered, peak {megabytes} MB")
    assert 8_000 <= characters <= 12_000
    assert named == 2, "in the marker and in the list of artifacts"
    assert megabytes < ALLOWED_MEGABYTES


@each("size", (0, 5, 6, 9, 12, 13, 40))
def test_an_output_is_kept_once_and_records_that_have_it_twice_are_read_alike(size: int) -> None:
    text = "".join(f"{number}\n" for number in range(10, 60))[:size]
    kept = read_file_text(io.BytesIO(text.encode()), "log", 6)
    assert len(kept.start) + len(kept.end) == min(size, 12)
    twice = msgspec.convert({**msgspec.to_builtins(kept), "start": text[:6], "end": text[-6:]}, FileText)
    for budget in (2, 4, 6):
        assert kept.preview(budget) == twice.preview(budget) == head_tail(text, budget)
