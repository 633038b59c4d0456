"""Writes the tables of bad inputs as a page of the operator documentation.

python -m tests.faults.bad_inputs_page
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from dashboard.text.markdown import FOLDER
from tests.faults.bad_fields import FIELDS
from tests.faults.bad_lines import LINES
from tests.faults.bad_records import RECORDS
from tests.faults.bad_requests import REQUESTS
from tests.faults.bad_sendings import SENDINGS
from tests.faults.bad_texts import TEXTS
from tests.faults.bad_values import VALUES

PAGE = FOLDER / "bad-inputs.md"
COMMAND = "python -m tests.faults.bad_inputs_page"
INTRODUCTION = f"""\
What an import, a page or the server answers to inputs that are damaged or made to do harm, by the class of the fault. \
A test tries every row and compares; `{COMMAND}` writes this page from the same tables. More tests put hostile values \
into every field of every format, and keep the server busy with slow and greedy clients."""


class Row(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def answers(self) -> list[str]: ...


SECTIONS: dict[str, tuple[str, Mapping[str, Sequence[Row]]]] = {
    "In recordings": (
        "Each is in a file with a good call and its answer, which are never lost. A sentence with a line alone is a "
        "Problem: the line, or the part of it that is named, was not read. `remark:` begins a remark on a value that "
        "was changed, left out or assumed. All bytes are stored as they are, also where nothing is listed.",
        VALUES | FIELDS | LINES,
    ),
    "On pages": (
        "Each is the receipt of a call and one of its arguments. It is shown as it is written: no element, address or "
        "handler of a page comes from it.",
        TEXTS,
    ),
    "In records that programs send": (
        "Each comes behind a good call of three lines, which is stored whatever happens to it. A sentence is a line "
        "that was refused, with its field; the other lines of the row are stored, values that cannot be used are left "
        "out with a remark.",
        RECORDS,
    ),
    "In requests of programs": ("The status of the answer, and words of it. Nothing of the body is stored.", SENDINGS),
    "In requests": ("The status of the answer, and words or an address in it.", REQUESTS),
}


def render_page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f"# Bad inputs\n\n{INTRODUCTION}"
    for title, (introduction, classes) in SECTIONS.items():
        count = sum(map(len, classes.values()))
        yield f"\n## {title}\n\n{introduction} {count} inputs of {len(classes)} classes.\n"
        yield "| Class | Input | Answer |\n| --- | --- | --- |"
        for name, rows in classes.items():
            for number, row in enumerate(rows):
                answer = "; ".join(_escape(text) for text in row.answers) or "as it is"
                yield f"| {'' if number else name} | {_escape(row.name)} | {answer} |"


def _escape(text: str) -> str:
    for sign in "\\|*_<[`":
        text = text.replace(sign, f"\\{sign}")
    return text


if __name__ == "__main__":
    PAGE.write_text(render_page(), "utf-8")
