"""A run or a call as one self-contained HTML file, readable without scripts, and the check that it is unchanged.

    share_call(call, query, origin=…)      the file as text; secrets are masked by the masks of the context
    share_run(run, origin=…)               the same for a run, within SHARED_CALLS and MOST_CHARACTERS
    check_file(data)                       what was changed in a file, a sentence each

Every text in the file stands with its SHA-256, the hashes are listed at its end, and one hash covers the whole file, so
that a changed byte anywhere is found. None of them proves who made the file: whoever changes a text can write another
hash. Notes and tags are not shared.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from html.parser import HTMLParser

from django.conf import settings
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString

from dashboard.artifacts.summaries import artifact_summaries
from dashboard.calls.call_columns import describe_took
from dashboard.calls.cut_bar import build_cut_bars
from dashboard.calls.half_panes import half_text
from dashboard.evidence.argument_labels import show_label
from dashboard.evidence.call_evidence import CallEvidence, iterate_evidence, load_evidence
from dashboard.evidence.fidelity import Fidelity, receipt_fidelity, result_fidelity
from dashboard.ingest.compute_derived import count_calls
from dashboard.models import Call, Run
from dashboard.text.formatting import format_count
from dashboard.text.masks import current_masks, mask_around, mask_text
from dashboard.text.shared_file_markup import hash_text, shared_text, style_element
from envelopes.halves import OutputCut
from envelopes.schema.receipt import TextPart
from envelopes.text.pointer import text_at
from envelopes.text.preview import split_lines

MOST_CHARACTERS = 8_000_000  # of all texts of a run
CHARACTERS_OF_CALL = 400_000  # of each text
PLACEHOLDER = "0" * 64
_CODE = re.compile("[0-9]{1,7}")
_FILE_HASH = re.compile(rb'(<html lang="en" data-file-sha256=")([0-9a-f]{64})(">)')


@dataclass(frozen=True, kw_only=True)
class SharedText:
    """A text of a call as the file shows it. `note` explains it, or what of it is left out."""

    name: str
    title: str
    note: str
    html: SafeString
    sha256: str
    characters: int
    has_unseen: bool


@dataclass(frozen=True, kw_only=True)
class SharedCall:
    """`cuts` are sentences about what the model did not get, `outputs` the texts that were cut, unseen parts marked."""

    number: int
    title: str
    url: str
    facts: tuple[tuple[str, str], ...]
    cuts: tuple[str, ...]
    args: SharedText
    result: SharedText
    receipt: SharedText
    outputs: tuple[SharedText, ...]

    @property
    def texts(self) -> tuple[SharedText, ...]:
        return (self.args, self.result, self.receipt, *self.outputs)


def share_call(call: Call, query: Mapping[str, str], *, origin: str = "") -> str:
    """`query` chooses the receipt in view; `origin` is the address of the dashboard, for links back to it."""
    count_calls([call])
    evidence = load_evidence(call, query)
    shared = _build_call(evidence, call.run, 1, CHARACTERS_OF_CALL, origin)
    keys = list(Call.objects.in_run(call.run).values_list("pk", flat=True))
    step = ("Step", f"{keys.index(call.pk) + 1:,} of {len(keys):,}")
    shared = replace(shared, facts=(step, *shared.facts))
    return _render(shared.title, call.run, [shared], origin, left_out="")


def share_run(run: Run, *, origin: str = "") -> str:
    """The first calls of the run in its order, with the receipts that the run has, and how many are left out."""
    keys = list(Call.objects.in_run(run).values_list("pk", flat=True)[: settings.SHARED_CALLS + 1])
    calls: list[SharedCall] = []
    room = MOST_CHARACTERS
    for number, evidence in enumerate(iterate_evidence(keys[: settings.SHARED_CALLS], run.pk), 1):
        count_calls([evidence.call])
        shared = _build_call(evidence, run, number, settings.SHARED_CHARACTERS, origin)
        room -= sum(text.characters for text in shared.texts)
        if room < 0:
            break
        calls.append(shared)
        masks = current_masks()
        if masks is not None:
            masks.renew()
    total = Call.objects.in_run(run).count()
    left_out = f"{total - len(calls):,} of {total:,} calls are left out: the file has the first ones."
    left_out = left_out if total > len(calls) else ""
    return _render(mask_text(str(run)), run, calls, origin, left_out=left_out)


def _build_call(evidence: CallEvidence, run: Run, number: int, limit: int, origin: str) -> SharedCall:
    """`run` is the one that the file names; a receipt of another run is stated."""
    call = evidence.call
    fidelity = receipt_fidelity(evidence.chosen["receipt"].fidelity if "receipt" in evidence.chosen else "absent")
    bars = build_cut_bars(evidence, artifact_summaries(call), got=fidelity.got)
    facts = (
        ("Outcome", call.outcome_words),
        ("Asked", mask_text(show_label(call.asked, call.run.cwd))),
        ("Started", f"{call.started_at:%Y-%m-%d %H:%M:%S} UTC" if call.started_at else ""),
        ("Took", describe_took(call)),
        ("Receipt", f"{format_count(call.tokens)} tokens ({call.token_certainty})"),
        ("Receipt of another run", mask_text(_name_other_run(evidence, run))),
        ("Error", mask_text(call.error_kind)),
        ("Call", mask_text(call.external_id)),
    )
    name = f"call-{number}"
    return SharedCall(
        number=number,
        title=mask_text(" · ".join(part for part in (call.tool, call.outcome_words, call.summary) if part)),
        url=origin + call.get_absolute_url(),
        facts=tuple((term, value) for term, value in facts if value),
        cuts=tuple(mask_text(f"{bar.name}: {bar.sentence}") for bar in bars if bar.is_cut),
        args=_share_text(f"{name}-arguments", "Arguments", half_text(evidence, "args"), limit),
        result=_share_result(evidence, f"{name}-canonical", limit),
        receipt=_share_receipt(evidence, f"{name}-receipt", fidelity, limit),
        outputs=tuple(_share_outputs(evidence, name, limit)),
    )


def _name_other_run(evidence: CallEvidence, run: Run) -> str:
    """The run whose receipt a copied call is shown with; empty for `run` itself."""
    receipt = evidence.receipts[0] if evidence.receipts else None
    if receipt is None or receipt.run_id == run.pk:
        return ""
    other = evidence.call.run if receipt.run_id == evidence.call.run_id else receipt.run
    return other.external_id


def _share_result(evidence: CallEvidence, name: str, limit: int) -> SharedText:
    fidelity = result_fidelity(evidence.call.result_fidelity)
    text = half_text(evidence, "canonical") if evidence.is_answered else ""
    note = fidelity.means if evidence.is_answered else "The recording has no answer to this call."
    return _share_text(name, f"What the tool returned: {fidelity.badge}", text, limit, note=note)


def _share_receipt(evidence: CallEvidence, name: str, fidelity: Fidelity, limit: int) -> SharedText:
    receipt = evidence.halves.receipt
    others = sum(not isinstance(part, TextPart) for part in receipt.parts) if receipt else 0
    note = fidelity.means + (
        f" {others} of its parts {'is' if others == 1 else 'are'} no text and left out here." if others else ""
    )
    return _share_text(name, fidelity.heading, evidence.receipt_text, limit, note=note)


def _share_outputs(evidence: CallEvidence, name: str, limit: int) -> Iterator[SharedText]:
    """The recorded outputs of which the model got a part."""
    for number, output in enumerate(evidence.halves.outputs, 1):
        text = text_at(evidence.halves.evidence.result, output.field.pointer) or ""
        if output.is_known and not output.cut.is_whole and output.cut.shown:
            title = f"Recorded output {output.field.pointer}"
            note = "Marked lines were not seen by the model, or not whole."
            unseen = list(_find_unseen(output, text))
            yield _share_text(f"{name}-output-{number}", mask_text(title), text, limit, note=note, unseen=unseen)


def _find_unseen(output: OutputCut, text: str) -> Iterator[tuple[int, int]]:
    """The gaps of the cut, which count lines from 0, as ranges of characters."""
    starts = [0]
    for line in split_lines(text):
        starts.append(starts[-1] + len(line))
    for first, last in output.cut.gaps:
        if first < len(starts) - 1:
            yield starts[first], min(len(text), starts[min(last, len(starts) - 1)])


def _share_text(
    name: str, title: str, text: str, limit: int, *, note: str = "", unseen: Iterable[tuple[int, int]] = ()
) -> SharedText:
    """The text up to `limit` characters, masked before it is cut."""
    shown = mask_around(text, 0, limit)[:limit]
    if len(text) > limit:
        note = f"{note} The first {limit:,} of {len(text):,} characters.".strip()
    spans = [(start, min(end, limit)) for start, end in unseen if start < limit]
    return SharedText(
        name=name,
        title=title,
        note=note,
        html=shared_text(name, shown, spans),
        sha256=hash_text(shown),
        characters=len(shown),
        has_unseen=bool(spans),
    )


def _render(title: str, run: Run, calls: list[SharedCall], origin: str, *, left_out: str) -> str:
    context = {
        "title": title,
        "run": {name: mask_text(getattr(run, name)) for name in ("agent", "model", "external_id")},
        "run_title": mask_text(str(run)),
        "run_url": origin + run.get_absolute_url(),
        "started": run.started_at,
        "calls": calls,
        "texts": [text for call in calls for text in call.texts],
        "left_out": left_out,
        "style": style_element(),
        "placeholder": PLACEHOLDER,
        "is_masked": current_masks() is not None,
        "now": timezone.now(),
    }
    markup = render_to_string("sharing/share.html", context)
    return _FILE_HASH.sub(lambda match: match[1] + _hash_file(markup.encode()) + match[3], markup.encode()).decode()


def _hash_file(data: bytes) -> bytes:
    """The hash of the file with noughts in the place of this hash."""
    blank = _FILE_HASH.sub(rb"\g<1>" + PLACEHOLDER.encode() + rb"\g<3>", data, count=1)
    return hashlib.sha256(blank).hexdigest().encode()


class _FileTexts(HTMLParser):
    """The texts of a shared file with the hashes that stand beside them, and the list of hashes at its end."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: dict[str, tuple[str, str]] = {}  # by name: the hash beside it, the text
        self.listed: dict[str, str] = {}
        self.twice: list[str] = []
        self._current: tuple[str, str] | None = None
        self._pieces: list[str] = []
        self._is_in_mark = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "pre" and "data-text" in attributes:
            self._current, self._pieces = (attributes["data-text"], attributes.get("data-sha256", "")), []
        elif tag == "li" and "data-hash-of" in attributes:
            self.listed[attributes["data-hash-of"]] = attributes.get("data-listed", "")
        elif tag == "i" and _CODE.fullmatch(code := attributes.get("data-code", "")) and int(code) < 0x110000:
            self._pieces.append(chr(int(code)))
            self._is_in_mark = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "i":
            self._is_in_mark = False
        elif tag == "pre" and self._current is not None:
            name, sha256 = self._current
            if name in self.texts:
                self.twice.append(name)
            self.texts[name] = sha256, "".join(self._pieces).removeprefix("\n")
            self._current = None

    def handle_data(self, data: str) -> None:
        if not self._is_in_mark:
            self._pieces.append(data)


class NotShared(ValueError):
    """The sentence says why the file cannot be checked."""


@dataclass(frozen=True)
class FileCheck:
    """`changes` is a sentence for each difference, empty where the file is as it was shared."""

    texts: int
    changes: tuple[str, ...]


def check_file(data: bytes) -> FileCheck:
    """Computes every hash again from the file's own text. Raises NotShared."""
    stated = _FILE_HASH.search(data)
    if stated is None:
        raise NotShared("Not a file that Counterfoil shared: it has no hash of the whole file.")
    parser = _FileTexts()
    try:
        parser.feed(data.decode("utf-8", "surrogateescape").replace("\r\n", "\n"))
        parser.close()
    except AssertionError:  # html.parser, about a marked section that is none
        return FileCheck(len(parser.texts), ("something beside the texts: the file is no HTML that Counterfoil wrote",))
    changes = list(_compare_texts(parser))
    if stated[2] != _hash_file(data) and not changes:
        changes.append("something beside the texts: each text has its hash, the whole file has another")
    return FileCheck(len(parser.texts), tuple(changes))


def _compare_texts(parser: _FileTexts) -> Iterator[str]:
    for name, (sha256, text) in parser.texts.items():
        computed = hash_text(text)
        if computed not in (sha256, parser.listed.get(name)):
            yield f"{name}: the text was changed"
        elif sha256 != parser.listed.get(name):
            yield f"{name}: the hash beside the text is not the one in the list"
    yield from (f"{name}: the text is twice in the file" for name in parser.twice)
    yield from (f"{name}: the text is missing" for name in parser.listed if name not in parser.texts)
