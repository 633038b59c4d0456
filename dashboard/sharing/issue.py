"""A call or a run as Markdown for an issue tracker: short enough for one, and with nothing in it that a tracker obeys.

Recorded text stands in code alone, in fences longer than any inside, so that no mention, link or picture of it takes
effect. GitHub accepts 65,536 characters; the halves are cut to fit, and each cut is stated with the permanent address,
which has the rest. Texts are masked before they are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dashboard.artifacts.summaries import artifact_summaries
from dashboard.calls.call_columns import describe_took, describe_uncounted
from dashboard.calls.cut_bar import build_cut_bars
from dashboard.calls.half_panes import half_text
from dashboard.evidence.argument_labels import show_label
from dashboard.evidence.call_evidence import CallEvidence, load_evidence
from dashboard.evidence.fidelity import receipt_fidelity, result_fidelity
from dashboard.ingest.compute_derived import count_calls
from dashboard.models import Call, Run
from dashboard.models.runs import FAILED
from dashboard.text.formatting import format_count
from dashboard.text.masks import mask_around, mask_text
from dashboard.text.text_markup import printable
from envelopes.text.untrusted_json import visible

ARGS_CHARACTERS, HALF_CHARACTERS = 6_000, 22_000
LABEL_CHARACTERS = 300
MOST_LISTED = 40  # calls of a run
_BACKTICKS = re.compile("`+")


def write_call_issue(call: Call, query: Mapping[str, str], *, origin: str) -> str:
    """`query` chooses the receipt in view; `origin` is the address of the dashboard."""
    count_calls([call])
    evidence = load_evidence(call, query)
    fidelity = receipt_fidelity(evidence.chosen["receipt"].fidelity if "receipt" in evidence.chosen else "absent")
    bars = build_cut_bars(evidence, artifact_summaries(call), got=fidelity.got)
    title = f"### {_code(call.tool or 'a call that was not recorded')}: {call.outcome_words}"
    facts = [
        f"- Call: {origin}{call.get_absolute_url()}",
        f"- Run: {origin}{call.run.get_absolute_url()} {_code(str(call.run))}",
        *_describe_run(call.run),
        *([f"- Asked: {_code(show_label(call.asked, call.run.cwd))}"] if call.asked else []),
        *([f"- Summary: {_code(call.summary)}"] if call.summary else []),
        *([f"- Began: {call.started_at:%Y-%m-%d %H:%M:%S} UTC"] if call.started_at else []),
        *([f"- Took: {took}"] if (took := describe_took(call)) else []),
        *(f"- Cut: {_code(bar.name)}: {printable(mask_text(bar.sentence))}" for bar in bars if bar.is_cut),
    ]
    return visible("\n\n".join([title, "\n".join(facts), *_write_halves(evidence, fidelity.heading)]) + "\n")


def _write_halves(evidence: CallEvidence, heading: str) -> Iterator[str]:
    result = result_fidelity(evidence.call.result_fidelity)
    yield _write_block("Arguments", half_text(evidence, "args"), "json", ARGS_CHARACTERS)
    if evidence.is_answered:
        title = f"What the tool returned ({result.badge})"
        yield _write_block(title, half_text(evidence, "canonical"), "json", HALF_CHARACTERS)
    else:
        yield "The recording has no answer to this call; whether the tool ran is unknown."
    if evidence.halves.receipt is None:
        yield f"{heading}."
    else:
        yield _write_block(heading, evidence.receipt_text, "text", HALF_CHARACTERS)


def _write_block(title: str, text: str, language: str, limit: int) -> str:
    """A heading and a fence longer than any in the text, so that nothing in it can close the block."""
    shown = mask_around(text, 0, limit)[:limit]
    note = f" – the first {limit:,} of {len(text):,} characters" if len(text) > limit else ""
    fence = "`" * max(3, _longest_backticks(shown) + 1)
    newline = "" if shown.endswith("\n") else "\n"
    return f"**{title}**{note}\n\n{fence}{language}\n{shown}{newline}{fence}"


def _code(text: str) -> str:
    """One line of recorded text as inline code."""
    line = " ".join(printable(mask_text(text)).split())[:LABEL_CHARACTERS]
    if not line:
        return ""
    quote = "`" * (_longest_backticks(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{quote}{space}{line}{space}{quote}"


def _longest_backticks(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)


def _describe_run(run: Run) -> Iterator[str]:
    if run.agent or run.model:
        yield f"- Agent: {' '.join(_code(part) for part in (run.agent, run.version, run.model) if part)}"


def write_run_issue(run: Run, *, origin: str) -> str:
    """The counts of the run, and its failed and cut calls with their addresses, in the run's order."""
    calls = Call.objects.in_run(run)
    notable = calls.filter(FAILED) | calls.filter(is_cut=True)
    columns = ("tool", "outcome", "exit_status", "is_cut", "asked", "summary", "derivation")
    listed = list(notable.only(*columns)[: MOST_LISTED + 1])
    counts = ", ".join(
        f"{format_count(number)} {word}"
        for number, word in (
            (run.call_count, "calls"),
            (run.failed_count, "failed"),
            (run.refused_count, "refused"),
            (run.cut_count, "cut before the model"),
            (run.unanswered_count, "without an answer"),
        )
    )
    facts = [
        f"- Run: {origin}{run.get_absolute_url()}",
        *_describe_run(run),
        f"- Began: {run.started_at:%Y-%m-%d %H:%M:%S} UTC" if run.started_at else "- Began: not recorded",
        f"- {counts}",
        *([f"- {describe_uncounted(waiting)}"] if (waiting := run.count_waiting()) else []),
    ]
    blocks = [f"### Run {_code(str(run))}", "\n".join(facts)]
    if listed:
        lines = [_list_call(call, run.cwd, origin) for call in listed[:MOST_LISTED]]
        more = "\n\nMore calls failed or were cut; the run has them all." if len(listed) > MOST_LISTED else ""
        blocks.append("**Failed and cut calls**\n\n" + "\n".join(lines) + more)
    return "\n\n".join(blocks) + "\n"


def _list_call(call: Call, cwd: str, origin: str) -> str:
    words = call.outcome_words + (", cut before the model" if call.is_cut else "")
    asked = _code(show_label(call.asked, cwd) or call.summary)
    return f"- {_code(call.tool)} {words}: {asked} {origin}{call.get_absolute_url()}"
