"""One recorded call under every variant of its family, in numbers: the strip of the Call page.

It is asked for by the page when it comes into view, so that a first screen costs nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec
from django.urls import reverse

from dashboard.calls.surfaces import surfaces_of
from dashboard.calls.variants import canonical_of
from dashboard.models import Call, Project
from dashboard.renderers.preview import Failed, written
from dashboard.renderers.preview_subject import NoSubject, Subject, of_call
from dashboard.renderers.receipt_diff import Difference, difference
from dashboard.renderers.receipt_drift import Sent, drifts_of
from dashboard.renderers.variant_list import Offered, offered
from envelopes.families.base import Family
from envelopes.finding import Pair
from envelopes.lint import lint
from envelopes.receipt import Receipt
from envelopes.result import InvalidOutput
from envelopes.tokens import TokenCount, count_all
from envelopes.untrusted import Untrusted

KEYS = "ABCDEFGHIJKL"  # one each; the small letters are the page's own


@dataclass(frozen=True, kw_only=True)
class StripCell:
    """`change` is in tokens against the recorded receipt; `failure` says why there is nothing."""

    offered: Offered
    href: str
    hotkey: str
    tokens: TokenCount | None = None
    change: int | None = None
    is_cut: bool = False
    findings: int = 0
    difference: Difference | None = None
    failure: str = ""


@dataclass(frozen=True, kw_only=True)
class Strip:
    """`recorded` are the tokens of the receipt that the model got, where one was recorded."""

    family: str
    recorded: TokenCount | None
    cells: tuple[StripCell, ...]
    sent: tuple[Sent, ...] = ()
    reason: str = ""


def variant_strip(project: Project, call: Call) -> Strip:
    try:
        owner, _ = canonical_of(surfaces_of(call, {}))
        subject = of_call(call, owner)
    except (NoSubject, Untrusted, msgspec.ValidationError, InvalidOutput, KeyError) as error:
        return Strip(
            family=call.family, recorded=None, cells=(), reason=f"There is no envelope to write about: {error}"
        )
    receipts = [(one, *_written(subject, owner, one)) for one in offered(project, owner)]
    texts = [receipt.text if receipt else "" for _, receipt, _ in receipts]
    counts = count_all(texts, model=subject.model)
    recorded = subject.recorded_tokens
    return Strip(
        family=owner.name,
        recorded=recorded,
        cells=tuple(_cells(subject, owner, receipts, counts, recorded.count if recorded else None)),
        sent=tuple(drifts_of(call)),
    )


def _written(subject: Subject, owner: Family, one: Offered) -> tuple[Receipt | None, str]:
    try:
        return written(subject, owner, one.variant, one.variant.policy), ""
    except Failed as error:
        return None, str(error)


def _cells(
    subject: Subject,
    owner: Family,
    receipts: list[tuple[Offered, Receipt | None, str]],
    counts: list[TokenCount],
    recorded: int | None,
) -> Iterator[StripCell]:
    keys = iter(KEYS)
    for (one, receipt, failure), tokens in zip(receipts, counts, strict=True):
        query = urlencode({**subject.named, "variant": one.key})
        href = f"{reverse('renderer-detail', args=[owner.name])}?{query}"
        if receipt is None:
            yield StripCell(offered=one, href=href, hotkey=next(keys, ""), failure=failure)
            continue
        yield StripCell(
            offered=one,
            href=href,
            hotkey=next(keys, ""),
            tokens=tokens,
            change=None if recorded is None else tokens.count - recorded,
            is_cut=any(segment.role == "marker" for segment in receipt.segments),
            findings=len(lint(Pair(canonical=subject.canonical, receipt=receipt, cuts=subject.cuts), owner.lint)),
            difference=None if subject.recorded is None else difference(subject.recorded, receipt.text),
        )
