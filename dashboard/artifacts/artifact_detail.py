"""The Artifact page: one window of a full output, and where the operator can go from it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.safestring import SafeString

from dashboard.artifacts.content import Absence, Content, NoContent, open_content
from dashboard.artifacts.json_tree import Branch, tree_of
from dashboard.artifacts.location import Wanted, place_of
from dashboard.artifacts.picture import LONGEST_END, Picture, picture_of
from dashboard.artifacts.queries import SAME_SHOWN, same_content
from dashboard.artifacts.references import Namings, later_namings
from dashboard.artifacts.search import Asked, asked_of, number
from dashboard.artifacts.summaries import Listed, listing_of, origin_of, state_of
from dashboard.artifacts.tail import FORMS as FOLLOWED
from dashboard.artifacts.tail import Followed, begun, can_follow
from dashboard.artifacts.times import Jump, jump_to, stamps_of
from dashboard.artifacts.view_modes import Form, chosen, forms_of
from dashboard.artifacts.visible_lines import Seen, Unseen, seen_of
from dashboard.artifacts.window import ArtifactWindow, Marks, heads_of, window_of
from dashboard.evidence.fidelity import of_receipt
from dashboard.models import Artifact, Call
from envelopes.storage.encoding import ENCODINGS, Encoding, decode
from envelopes.storage.line_window import WindowStart
from envelopes.storage.search import LONGEST_QUERY

KEPT = ("as", "encoding", "q", "regex", "any_case")  # what a link to another place of the same artifact keeps


@dataclass(frozen=True, kw_only=True)
class ArtifactPage:
    """What is known of the artifact. Where `shown` is None, `absence` says why there is no content."""

    artifact: Artifact
    call: Call
    got: str
    listing: tuple[Listed, ...]  # of the same call, this one among them; none where it is the only one
    same: tuple[Artifact, ...]  # other calls of the project with the same content
    has_more_same: bool
    state: str
    origin: str
    namings: Namings
    shown: Shown | None
    absence: Absence | None


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One window. Lines count from 1; 0 means that there is none, or that it is not known yet."""

    window: ArtifactWindow
    form: Form
    forms: tuple[Form, ...]
    picture: Picture | None
    tree: Branch | None
    encoding: Encoding
    encodings: tuple[tuple[str, str], ...]
    can_switch: bool  # the encoding was a guess, or is the operator's choice
    lines: int
    indexed_percent: int
    line_ends: str  # said where they are not what most are
    heads: tuple[SafeString, ...]  # of a table's columns, in a window behind its first line
    is_unverified: bool  # its file may have been changed since it was stored
    is_no_text: bool  # shown as bytes because its beginning is no text
    seen: Seen | None
    next_unseen: Unseen | None
    place_said: str  # where what was asked for is not there: such a line, or one that the model never saw
    before_line: int
    before_offset: int  # where no line is known; -1 for none
    jump: Jump | None  # where a time was asked for
    begins_at: str  # the first time stamp, where lines carry one
    lines_asked: str  # 120, 120-180 or nothing
    address: str  # of what is shown: the query string of a link to be sent to somebody
    onward: str  # as `kept`, and the lines that are asked for while they go on behind the window
    asked: Asked | None  # what is set off in the window
    steps: Steps | None
    kept: str  # the part of the query string that other windows keep, "&…" or nothing
    can_follow: bool
    followed: Followed | None  # where it is being followed
    percents: tuple[int, ...] = (25, 50, 75)


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Addresses of the hits around the place that is shown."""

    before: str
    next: str
    said: str  # where there is no further one


def artifact_page(artifact: Artifact, query: QueryDict) -> ArtifactPage:
    shown = _shown(artifact, query)
    same = same_content(artifact)
    return ArtifactPage(
        artifact=artifact,
        call=artifact.call,
        got=of_receipt(artifact.call.receipt_fidelity).got,
        listing=listing_of(artifact, shown.forms[0] if isinstance(shown, Shown) else shown),
        same=same[:SAME_SHOWN],
        has_more_same=len(same) > SAME_SHOWN,
        state=state_of(artifact),
        origin=origin_of(artifact),
        namings=later_namings(artifact, number(query, "later")),
        shown=shown if isinstance(shown, Shown) else None,
        absence=shown if isinstance(shown, Absence) else None,
    )


def _shown(artifact: Artifact, query: QueryDict) -> Shown | Absence:
    try:
        with open_content(artifact, query.get("encoding", "")) as content:
            return _opened(content, artifact, query)
    except NoContent as no:
        return no.absence


def _opened(content: Content, artifact: Artifact, query: QueryDict) -> Shown:
    forms = forms_of(content, artifact.path)
    has_lines = forms[0].has_text
    stamps = stamps_of(content) if has_lines else None
    wanted = place_of(query)
    jump = jump_to(content, wanted.time, stamps) if wanted.time else None
    seen = seen_of(artifact, content) if has_lines else None
    first_unseen = seen.first if seen and "unseen" in query else None
    wanted = jump.wanted if jump else first_unseen.wanted if first_unseen else wanted
    asked = asked_of(query, content.index.encoding)
    is_place = asked is not None or jump is not None or wanted != Wanted(place=WindowStart())
    form = chosen(forms, query.get("as", ""), is_place=is_place)
    kept = _kept(query)
    marks = Marks(seen=seen, lines=wanted.lines, query=asked.query if asked else None, kept=kept)
    window = window_of(content, form.name, wanted.place, marks)
    return Shown(
        window=window,
        form=form,
        forms=forms,
        picture=picture_of(content.head, _end_of(content)),
        tree=tree_of(content, query) if form.name == "json" else None,
        encoding=content.encoding,
        encodings=tuple(ENCODINGS.items()),
        can_switch=content.encoding.certainty == "guess" or query.get("encoding", "") in ENCODINGS,
        lines=content.index.lines if content.is_indexed else 0,
        indexed_percent=100 if content.is_indexed else content.indexed_percent,
        line_ends=_line_ends(content),
        heads=heads_of(content, window),
        is_unverified=content.is_unverified,
        is_no_text=form.name == "hex" and forms[0].name == "hex",
        seen=seen,
        next_unseen=_next_unseen(seen, window) if seen else None,
        place_said=_unseen_said(seen) if "unseen" in query and not first_unseen else _beyond(content, wanted),
        before_line=max(1, window.first - len(window.rows)) if window.start and window.first else 0,
        before_offset=max(0, 2 * window.start - window.end) if window.start and not window.first else -1,
        jump=jump,
        begins_at=stamps.format(stamps.first) if stamps else "",
        lines_asked=wanted.range,
        address=_address(window, wanted, kept),
        onward=kept + (f"&line={wanted.range}" if wanted.lines[-1:] and wanted.lines[-1] > window.last else ""),
        asked=asked,
        steps=_steps(artifact, asked, query, window) if asked and asked.query else None,
        kept=kept,
        can_follow=can_follow(artifact) and form.name in FOLLOWED,
        followed=begun(artifact, content, window) if "follow" in query else None,
    )


def _address(window: ArtifactWindow, wanted: Wanted, kept: str) -> str:
    """The lines that are asked for where the window begins with them, else its first line, else its byte."""
    first = window.first
    if first and first == wanted.lines.start:
        return f"line={wanted.range}{kept}#L{first}"
    is_line = first and window.rows and not window.rows[0].is_continued
    return f"line={first}{kept}#L{first}" if is_line else f"offset={window.start}{kept}"


def _kept(query: QueryDict) -> str:
    said = {name: query[name] for name in KEPT if 0 < len(query.get(name, "")) <= LONGEST_QUERY}
    return f"&{urlencode(said)}" if said else ""


def _steps(artifact: Artifact, asked: Asked, query: QueryDict, window: ArtifactWindow) -> Steps:
    """From the hit that the page was opened at; from the window's edges when it was walked to."""
    here = query.get("hit", "")
    start = number(query, "hit") if here else window.start
    address = f"{artifact.get_absolute_url()}find/?"
    return Steps(
        before=address + urlencode(asked.parameters | {"before": start, "hit": here}),
        next=address + urlencode(asked.parameters | {"next": start + 1 if here else start, "hit": here}),
        said=_last_said(query) if "last" in query else "",
    )


def _last_said(query: QueryDict) -> str:
    is_none = "errors" in query and not query.get("hit")
    return "Nothing in it looks like an error." if is_none else "No further hit that way."


def _end_of(content: Content) -> bytes:
    content.stream.seek(max(0, content.size - LONGEST_END))
    return content.stream.read(LONGEST_END)


def _line_ends(content: Content) -> str:
    """By the beginning: a carriage return at each end of a line, or at some."""
    text = decode(content.head, content.index.encoding) if content.encoding.name else ""
    lines, returns = text.count("\n"), text.count("\r\n")
    if not returns:
        return ""
    return "CRLF" if lines == returns else "CRLF and LF"


def _next_unseen(seen: Seen, window: ArtifactWindow) -> Unseen | None:
    """None where it is what the window begins with."""
    found = seen.after(window.last)
    begins = Unseen(line=window.first, offset=window.start if found and found.offset >= 0 else -1)
    return found if found != begins else None


def _beyond(content: Content, wanted: Wanted) -> str:
    if not content.is_indexed or wanted.lines.start <= content.index.lines:
        return ""
    return f"There is no line {wanted.lines.start:,}: the output ends with line {content.index.lines:,}."


def _unseen_said(seen: Seen | None) -> str:
    if seen is not None:
        return "The model got all of it: there is no line that it never saw."
    return "Which of these lines the model got is not known: its receipt does not show them as they stand here."
