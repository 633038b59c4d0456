"""Template variants: sources that stay, and hostile templates that are stopped."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult, ToolError
from envelopes.text.deadline import current_deadline, time_budget
from envelopes.text.preview import find_cut, head_tail
from envelopes.variants.template import (
    TEMPLATE_PROCESS,
    TemplateProcess,
    TemplateRefused,
    TemplateUnanswered,
    check_template,
    find_missing_fields,
    template_variant,
    used_seconds,
)
from envelopes.variants.template_language import _find_cut as find_cut_in_template

OUT = "one\ntwo\nthree\n"
RESULT = {"exit_status": 101, "flag": True, "out": OUT, "items": [{"a": "x"}, {"a": "y"}], "a/b": "slash"}
CANONICAL = CanonicalResult(tool_name="ExecCommand", status="success", summary_text="it ran", result=RESULT)
ITEMS = [("x", "/result/items/0/a", 0, 1), ("y", "/result/items/1/a", 0, 1)]


def repeated(times: int, body: str, name: str = "i") -> str:
    return f"{{% for {name} in (1..{times}) %}}{body}{{% endfor %}}"


def segments(source: str, canonical: CanonicalResult = CANONICAL, **policy: Any) -> list[Segment]:
    variant = template_variant("template/command/x", 1, "X", source, RenderPolicy(**policy))
    return list(variant.render(canonical, variant.policy))


def text(source: str, process: TemplateProcess = TEMPLATE_PROCESS) -> str:
    variant = template_variant("template/command/x", 1, "X", source, RenderPolicy(), process)
    return "".join(segment.text for segment in variant.render(CANONICAL, variant.policy))


def links(source: str) -> list[tuple[str, str, int | None, int | None]]:
    return [
        (segment.text, segment.source.pointer, segment.source.start, segment.source.end)
        for segment in segments(source)
        if segment.source
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ result.out }}", [(OUT, "/result/out", 0, 14)]),
        ("code {{ result.exit_status }}", [("101", "/result/exit_status", None, None)]),
        ("{{ result['a/b'] }}", [("slash", "/result/a~1b", 0, 5)]),
        ("{{ result.out | slice: 4, 3 }}", [("two", "/result/out", 4, 7)]),
        ("{{ result.out | strip | last_lines: 1 }}", [("three", "/result/out", 8, 13)]),
        ("{{ status | upcase }}", [("SUCCESS", "/status", None, None)]),
        ("{% capture x %}<{{ status }}>{% endcapture %}{{ x }}", [("success", "/status", 0, 7)]),
        (
            "{% for i in result.items %}{{ i.a }}{% endfor %}",
            ITEMS,
        ),
        (
            "{{ result.items | map: 'a' | join: ', ' }}",
            ITEMS,
        ),
        ("{{ result.out | split: 'two' | last }}", [("\nthree\n", "/result/out", 7, 14)]),
        ("{{ result.flag }} {{ 'own' }}", []),
    ],
)
def test_what_a_template_yields_keeps_its_sources(source: str, expected: list[tuple[Any, ...]]) -> None:
    assert links(source) == expected


def test_every_linked_slice_is_the_characters_that_it_names() -> None:
    for linked, pointer, start, end in links("{{ result.out | indent: 2 }}|{{ result.out | first_lines: 2 }}"):
        assert pointer == "/result/out"
        assert OUT[start:end] == linked


def test_a_cut_of_a_template_says_how_much_there_was() -> None:
    assert text("{{ result.out | first_lines: 2 }}") == "one\ntwo\n[showing first 2 of 3 lines]"


LINES = "".join(f"line {number}\n" for number in range(1, 1_483))
PREVIEW = head_tail(LINES, 200).text
HEAD = head_tail(LINES, 200).head
NO_CUT = "a\n...\n[output truncated: showing first 5 and last 1 of 9 lines]\n...\nb"
LONG_LINES = head_tail("\n".join(["x" * 40, "y" * 90, "z" * 90]), 120).text  # the ends of 222 characters


@pytest.mark.parametrize(
    ("source", "preview", "expected"),
    [
        ("{{ result.out | first_lines: 2 }}", PREVIEW, "line 1\nline 2\n[showing first 2 of 1482 lines]"),
        ("{{ result.out | last_lines: 1 }}", PREVIEW, "[showing last 1 of 1482 lines]\nline 1482\n"),
        ("{{ result.out | first_lines: 15 }}", PREVIEW, f"{HEAD}[showing first 13 of 1482 lines]"),
        ("{{ result.out | first_lines: 3 | last_lines: 1 }}", PREVIEW, "[showing 1 of 1482 lines]\nline 3\n"),
        ("{{ result.out | first_lines: 3 | first_lines: 1 }}", PREVIEW, "line 1\n[showing first 1 of 1482 lines]"),
        ("{{ result.out | first_lines: 3 | last_lines: 1 }}", LINES, "[showing 1 of 1482 lines]\nline 3\n"),
        ("{{ result.out | first_lines: 1483 }}", PREVIEW, PREVIEW),
        ("{{ result.out | first_lines: 1 }}", LONG_LINES, "x" * 40 + "\n[showing first 41 of 222 characters]"),
        ("{{ result.out | last_lines: 1 }}", LONG_LINES, "[showing last 60 of 222 characters]\n" + "z" * 60),
        # The words of a marker whose numbers do not fit are lines like any others.
        ("{{ result.out | first_lines: 1 }}", NO_CUT, "a\n[showing first 1 of 5 lines]"),
    ],
)
def test_a_marker_of_a_template_counts_the_complete_output(source: str, preview: str, expected: str) -> None:
    canonical = CanonicalResult(tool_name="X", status="success", summary_text="s", result={"out": preview})
    assert "".join(segment.text for segment in segments(source, canonical)) == expected


def test_a_policy_that_shortens_a_preview_counts_the_complete_output_too() -> None:
    canonical = CanonicalResult(
        tool_name="X", status="success", summary_text="s", result={"out": head_tail(LINES, 4_000).text}
    )
    written = segments("{{ result.out }}", canonical, characters=500)
    (marker,) = [segment.text for segment in written if segment.role == "marker"]
    assert re.fullmatch(r"\.\.\.\n\[receipt shortened here: first \d+ and last \d+ of 1482 lines\]\n\.\.\.\n", marker)
    assert "output truncated" not in "".join(segment.text for segment in written)


def test_a_template_and_the_library_find_the_same_cut() -> None:
    for preview in (PREVIEW, LONG_LINES, LINES, NO_CUT, "", "...\n"):
        ours, its = find_cut(preview), find_cut_in_template(preview)
        assert (ours and (ours.tail_start, ours.total, ours.unit)) == (its and (its.tail_start, its.total, its.unit))


def test_roles_follow_what_a_template_says_and_what_it_shows() -> None:
    written = segments("{{ summary_text | headline }}\n{{ status }} is it\n{{ result.out }}")
    assert [segment.role for segment in written] == ["headline", "break", "value", "label", "preview"]


def test_the_policy_shortens_what_a_template_wrote() -> None:
    long = CanonicalResult(tool_name="X", status="success", summary_text="s", result={"out": "line\n" * 2_000})
    shortened = "".join(segment.text for segment in segments("{{ result.out }}", long, characters=500))
    assert len(shortened) <= 500
    assert "receipt shortened here" in shortened


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("", 1, "the template is empty"),
        ("fine\n{{ nothing }}", 2, "there is no 'nothing'"),
        ("a\nb\n{% if %}x{% endif %}", 3, "missing expression"),
        ("{{ status | nope }}", 1, "there is no filter 'nope'"),
        ("\n\n{% include 'x' %}", 3, "unexpected tag 'include'"),
        ("{% render 'x' %}", 1, "unexpected tag 'render'"),
        ("x\n{{ result.__class__.__mro__ }}", 2, "names that begin with an underscore are not reachable"),
        ("{{ result['__class__'] }}", 1, "names that begin with an underscore"),
        ("x" * 70_000, None, "at most 65,536 are allowed"),
    ],
)
def test_an_invalid_template_is_refused_with_its_line(source: str, line: int | None, reason: str) -> None:
    with pytest.raises(TemplateRefused) as refused:
        check_template(source)
    assert refused.value.line == line
    assert reason in refused.value.reason


HOSTILE = {
    "a range of a thousand million": repeated(1_000_000_000, "x"),
    "the same from its end": "{% for i in (1..1000000000) reversed %}x{% endfor %}",
    "loops in loops": repeated(1_000, repeated(1_000, repeated(1_000, "", "a"), "b")),
    "loops in a row": repeated(150_000, "{% if i == 0 %}{% endif %}") * 200,
    "a text that doubles": "{% assign a = 'xxxxxxxxxx' %}" + repeated(60, "{% assign a = a | append: a %}"),
    "a number that squares itself": "{% assign n = 9 %}" + repeated(60, "{% assign n = n | times: n %}") + "{{ n }}",
    "output without end": repeated(190_000, "xxxxxxxxxx"),
    "a list that doubles": "{% assign a = result.items %}" + repeated(60, "{% assign a = a | concat: a %}"),
}


@pytest.fixture
def templates() -> Iterator[TemplateProcess]:
    """A process for templates of this test alone."""
    process = TemplateProcess()
    yield process
    process.stop()


def work_of_templates() -> float:
    """Processor seconds of the process for templates that runs, and of all that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = TEMPLATE_PROCESS.process
    alive = running is not None and running.poll() is None
    return ended.ru_utime + ended.ru_stime + (used_seconds(running.pid) if running and alive else 0.0)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_stopped_with_a_reason_and_the_next_one_runs(name: str) -> None:
    assert text("{{ status }} again") == "success again"
    before = work_of_templates()
    with pytest.raises(TemplateRefused) as refused:
        segments(HOSTILE[name])
    assert refused.value.reason
    assert work_of_templates() - before < 1  # processor time: on a busy machine more passes on the clock
    assert text("{{ summary_text }}") == "it ran"


def test_a_refusal_is_remembered_for_its_template_and_envelope_alone(templates: TemplateProcess) -> None:
    slow = "{% if status == 'success' %}" + HOSTILE["loops in loops"] + "{% endif %}done"
    with pytest.raises(TemplateRefused) as first:
        text(slow, templates)
    assert templates.process is not None
    used = used_seconds(templates.process.pid)
    for _ in range(20):
        with pytest.raises(TemplateRefused, match=re.escape(str(first.value))):
            text(slow, templates)
    assert used_seconds(templates.process.pid) - used < 0.01
    other = structs.replace(CANONICAL, status="error", error=ToolError(kind="x", message="y", retryable=False))
    variant = template_variant("template/command/x", 1, "X", slow, RenderPolicy(), templates)
    assert "".join(segment.text for segment in variant.render(other, variant.policy)) == "done"


def test_templates_of_one_request_share_its_time_and_no_other_thread_does(templates: TemplateProcess) -> None:
    elsewhere: list[str] = []
    with time_budget(0.2):
        assert text("{{ status }}", templates) == "success", "the first one runs in any case"
        while not current_deadline().is_over:
            pass
        with pytest.raises(TemplateUnanswered, match="the time of one page was over before it could run"):
            text("{{ status }} late", templates)
        thread = threading.Thread(target=lambda: elsewhere.append(text("{{ status }} late", templates)))
        thread.start()
        thread.join()
    assert elsewhere == ["success late"]
    assert text("{{ status }} after", templates) == "success after"


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("{{ result.out }}{{ result.out.size }}{{ result.size }}{{ error.message }}{{ artifacts }}", []),
        ("fine\n{{ result.otu }}", [(2, "result.otu", "out")]),
        ("{% if result.quite_another %}x{% endif %}", [(1, "result.quite_another", "")]),
        ("{% for line in result.out %}{{ line.nope }}{% endfor %}{{ result.out.nope }}", []),
        ("{% assign mine = result %}{{ mine.nope }}", []),
        ("{{ result['otu'] }}\n{{ result.otu }}", [(1, "result.otu", "out"), (2, "result.otu", "out")]),
    ],
)
def test_a_field_that_the_envelope_lacks_is_named_with_its_line(
    source: str, missing: list[tuple[int, str, str]]
) -> None:
    canonical = CanonicalResult(tool_name="T", status="success", summary_text="s", result={"out": "text"}, error=None)
    assert [tuple(field) for field in find_missing_fields(source, canonical)] == missing


def test_a_process_that_ended_by_itself_is_replaced_and_leaves_no_open_pipe(templates: TemplateProcess) -> None:
    check_template("{{ status }}", templates)
    ended = templates.process
    assert ended is not None
    ended.kill()
    ended.wait()
    check_template("{{ status }}", templates)
    assert templates.process is not ended
    assert ended.stdin is not None
    assert ended.stdout is not None
    assert (ended.stdin.closed, ended.stdout.closed) == (True, True)


def test_a_process_that_the_machine_gives_no_time_is_waited_for(templates: TemplateProcess) -> None:
    assert text("{{ status }}, twice", templates) == "success, twice"
    process = templates.process
    assert process is not None
    templates.work_seconds = 0.1
    process.send_signal(signal.SIGSTOP)
    resume = threading.Timer(0.4, process.send_signal, [signal.SIGCONT])
    resume.start()
    assert text("{{ status }}, late", templates) == "success, late"
    resume.join()
    assert templates.process is process, "it was not replaced"


def test_elapsed_time_is_used_where_no_clock_measures_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_clock(_clock: int) -> float:
        raise OSError(22, "Invalid argument")

    assert used_seconds(os.getpid()) <= time.process_time() + 0.1
    monkeypatch.setattr(time, "clock_gettime", no_clock)
    before = time.monotonic()
    assert before <= used_seconds(os.getpid()) <= time.monotonic()


def test_an_attribute_is_not_reachable_by_a_name_that_is_made_at_run_time() -> None:
    source = "{% assign k = '_class_' | prepend: '_' | append: '_' %}[{{ result[k] }}{{ status[k] }}]"
    assert text(source) == "[]"


def test_the_hash_of_a_variant_is_over_its_text_too() -> None:
    first, other = (template_variant("template/command/x", 1, "X", source, RenderPolicy()) for source in ("a", "b"))
    assert first.hash != other.hash
    assert first.hash == template_variant("template/command/x", 1, "Y", "a", RenderPolicy()).hash


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A file that runs instead of the program of templates."""
    return tmp_path / "program.py"


@pytest.fixture
def broken(program: Path) -> Iterator[TemplateProcess]:
    process = TemplateProcess(program, work_seconds=0.2, wait_seconds=0.5)
    yield process
    assert process.process is None, "whatever failed, no process is left running"


READY = "import os, time\n{}\nprint('ready', flush=True)\n{}\ntime.sleep(9)"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("print('hello')", "the process for templates did not start"),
        ("raise SystemExit(1)", "it ended its process, by memory or by size"),
        (READY.format("", "input()"), "it did not answer within 0.5 seconds and was stopped"),
        (READY.format("", "exit(print('half an answer', end=''))"), "it ended its process, by memory or by size"),
        (READY.format("os.close(0)", ""), "it ended its process"),
    ],
)
def test_a_process_that_fails_is_named_ended_and_replaced(
    broken: TemplateProcess, program: Path, source: str, reason: str
) -> None:
    program.write_text(source)
    for name in ("status", "tool_name"):  # the second one is another process: no output of the first is its answer
        with pytest.raises(TemplateRefused) as refused:
            check_template(f"{{{{ {name} }}}}", broken)
        assert refused.value.reason == reason


def test_a_process_that_works_on_without_end_is_ended_by_its_work(broken: TemplateProcess, program: Path) -> None:
    """Also where the process's own timer does not fire, within one long step of the interpreter."""
    broken.wait_seconds = 30
    program.write_text(READY.format("", "while True: pass"))
    with pytest.raises(TemplateRefused, match=r"it worked for longer than 0\.2 seconds and was stopped"):
        check_template("{{ status }}", broken)


def test_without_the_language_a_template_is_refused_by_the_name_of_its_package(
    broken: TemplateProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "liquid", None)
    with pytest.raises(TemplateRefused, match="python-liquid, which is not installed"):
        check_template("{{ status }}", broken)
