"""The Artifact page: one window of a full output, the links that lead on from it, and what is added while it grows.

A file is followed until its run is over, by a cursor: a byte and a hash of what stood before it (its first and last
4 KiB). Where the hash differs, the file was replaced, and following stops, because what would be appended to the page
belongs to another text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.safestring import SafeString

from dashboard.artifacts.content import Absence, AbsenceCause, Content, NoContent, open_content
from dashboard.artifacts.json_tree import JsonLevel, load_json_level
from dashboard.artifacts.location import LARGEST, Location, TimeLocation, locate_time, parse_location
from dashboard.artifacts.references import References, find_later_references
from dashboard.artifacts.search import ArtifactSearch, parse_search
from dashboard.artifacts.summaries import (
    DUPLICATES,
    ListedArtifact,
    artifact_origin,
    artifact_state,
    list_call_artifacts,
)
from dashboard.artifacts.visible_lines import UnseenLines, VisibleLines, find_visible_lines
from dashboard.artifacts.window import (
    ArtifactRow,
    ArtifactWindow,
    ViewMode,
    WindowMarks,
    load_window,
    pick_mode,
    table_header,
    view_modes,
)
from dashboard.evidence.fidelity import receipt_fidelity
from dashboard.models import Artifact, Call
from dashboard.text.formatting import format_size
from dashboard.text.images import LONGEST_END, ImageHeader, read_image_header
from dashboard.text.params import Params
from envelopes.storage.encoding import ENCODINGS, Encoding, decode
from envelopes.storage.line_window import WindowStart
from envelopes.storage.search import LONGEST_QUERY
from envelopes.storage.time_search import LineStamps, detect_stamps
from envelopes.text.deadline import Deadline

KEPT_PARAMETERS = ("as", "encoding", "q", "regex", "any_case")  # in links to other windows of the same artifact
EDGE = 4 * 1024  # bytes
TAIL_MODES = ("text", "ansi", "diff")
OVER = "The run is over: nothing is added to this output any more."


@dataclass(frozen=True, kw_only=True)
class ArtifactPage:
    """Everything that the page shows. Without a `view`, `absence` says why there is no content.

    `listing` are the artifacts of the same call, this one among them; empty where it is the only one.
    """

    artifact: Artifact
    call: Call
    got: str
    listing: tuple[ListedArtifact, ...]
    duplicates: tuple[Artifact, ...]  # in other calls of the project
    has_more_duplicates: bool
    state: str
    origin: str
    references: References
    view: ArtifactView | None
    absence: Absence | None


@dataclass(frozen=True, kw_only=True)
class ArtifactView:
    """One window with its controls. Lines count from 1; 0 means that there is none, or that it is not known yet."""

    window: ArtifactWindow
    mode: ViewMode
    modes: tuple[ViewMode, ...]
    image: ImageHeader | None
    tree: JsonLevel | None
    encoding: Encoding
    encodings: tuple[tuple[str, str], ...]
    can_switch_encoding: bool  # it was guessed, or is the operator's choice
    lines: int
    indexed_percent: int
    line_ends: str  # CRLF, or a mixture; empty for LF
    header: tuple[SafeString, ...]  # cells of a table's first line, for a window behind it
    is_unverified: bool  # the file may have been changed since it was stored
    is_binary: bool  # shown as bytes because it does not begin like text
    visible: VisibleLines | None
    next_unseen: UnseenLines | None
    location_message: str  # where the requested location does not exist
    before_line: int
    before_offset: int  # where no line number is known; -1 for none
    time: TimeLocation | None  # where a time was requested
    first_time: str  # the first time stamp, where lines have one
    line_range: str  # the requested lines: 120, 120-180 or nothing
    permalink: str  # query string of a link to what is shown
    query_suffix: str  # the part of the query string that links to other windows keep, "&…" or nothing
    next_suffix: str  # the same for the next window, with the requested lines while they go on there
    search: ArtifactSearch | None
    hit_links: HitLinks | None
    can_follow: bool
    tail: TailUpdate | None  # while the file is followed
    percents: tuple[int, ...] = (25, 50, 75)


@dataclass(frozen=True, kw_only=True)
class HitLinks:
    """Addresses of the hits around the current one; `message` where there is no further one."""

    previous: str
    next: str
    message: str


def artifact_page(artifact: Artifact, params: Params, deadline: Deadline) -> ArtifactPage:
    view: ArtifactView | None = None
    absence: Absence | None = None
    try:
        with open_content(artifact, params.text("encoding")) as content:
            view = _load_view(content, artifact, params, deadline)
    except NoContent as error:
        absence = error.absence
    duplicates = list(Artifact.objects.duplicates(artifact)[: DUPLICATES + 1])
    return ArtifactPage(
        artifact=artifact,
        call=artifact.call,
        got=receipt_fidelity(artifact.call.receipt_fidelity).got,
        listing=list_call_artifacts(artifact, view.modes[0] if view else absence),
        duplicates=tuple(duplicates[:DUPLICATES]),
        has_more_duplicates=len(duplicates) > DUPLICATES,
        state=artifact_state(artifact),
        origin=artifact_origin(artifact),
        references=find_later_references(artifact, params.integer("later", default=0, most=LARGEST)),
        view=view,
        absence=absence,
    )


@dataclass(frozen=True, kw_only=True)
class _Target:
    """The location that the address leads to in opened content, and what is known of its lines."""

    location: Location
    message: str
    time: TimeLocation | None
    stamps: LineStamps | None
    visible: VisibleLines | None


def _locate(content: Content, artifact: Artifact, params: Params, *, has_lines: bool) -> _Target:
    """A time leads before unseen lines, and those before any other location."""
    location = parse_location(params)
    has_stamps = has_lines and content.encoding.name
    stamps = detect_stamps(content.head, content.encoding.name) if has_stamps else None
    time = locate_time(content, location.time, stamps) if location.time else None
    visible = find_visible_lines(artifact, content) if has_lines else None
    unseen = visible.next_unseen(0) if visible and "unseen" in params else None
    message = ""
    if time or unseen:
        location = time.location if time else unseen.location if unseen else location
    if "unseen" in params and not unseen:
        message = (
            "The model got all of it: there is no unseen line."
            if visible
            else "It is unknown which of these lines the model got: its receipt does not show them in this form."
        )
    elif content.is_indexed and location.lines.start > content.index.lines and not unseen:
        message = f"There is no line {location.lines.start:,}: the output ends with line {content.index.lines:,}."
    return _Target(location=location, message=message, time=time, stamps=stamps, visible=visible)


def _load_view(content: Content, artifact: Artifact, params: Params, deadline: Deadline) -> ArtifactView:
    modes = view_modes(content.head, content.encoding.name, artifact.path)
    target = _locate(content, artifact, params, has_lines=modes[0].has_text)
    search = parse_search(params, content.index.encoding)
    needs_lines = search is not None or target.time is not None or target.location != Location()
    mode = pick_mode(modes, params.text("as"), needs_lines=needs_lines)

    values = {name: params.text(name, strip=False) for name in KEPT_PARAMETERS}
    kept_query = urlencode({name: value for name, value in values.items() if 0 < len(value) <= LONGEST_QUERY})
    query_suffix = f"&{kept_query}" if kept_query else ""
    location, visible = target.location, target.visible
    query = search.query if search else None
    marks = WindowMarks(
        visible=visible, lines=location.lines, query=query, query_suffix=query_suffix, deadline=deadline
    )
    window = load_window(content, mode.name, location.start, marks)
    if window.first and 0 < window.last < location.lines.start and location.start.line:
        # The lines before the requested one fill the window.
        window = load_window(content, mode.name, WindowStart(line=location.lines.start), marks)
    goes_on = bool(location.lines) and location.lines[-1] > window.last
    content.stream.seek(max(0, content.size - LONGEST_END))
    end = content.stream.read(LONGEST_END)
    return ArtifactView(
        window=window,
        mode=mode,
        modes=modes,
        image=read_image_header(content.head, end),
        tree=load_json_level(content, params) if mode.name == "json" else None,
        encoding=content.encoding,
        encodings=tuple(ENCODINGS.items()),
        can_switch_encoding=content.encoding.certainty == "guess" or params.text("encoding") in ENCODINGS,
        lines=content.index.lines if content.is_indexed else 0,
        indexed_percent=100 if content.is_indexed else content.indexed_percent,
        line_ends=_line_ends(content),
        header=table_header(content, window),
        is_unverified=content.is_unverified,
        is_binary=mode.name == "hex" and modes[0].name == "hex",
        visible=visible,
        next_unseen=_next_unseen(visible, window) if visible else None,
        location_message=target.message,
        before_line=max(1, window.first - len(window.rows)) if window.start and window.first else 0,
        before_offset=max(0, 2 * window.start - window.end) if window.start and not window.first else -1,
        time=target.time,
        first_time=target.stamps.format(target.stamps.first) if target.stamps else "",
        line_range=location.line_range,
        permalink=_permalink(window, location, query_suffix),
        query_suffix=query_suffix,
        next_suffix=query_suffix + (f"&line={location.line_range}" if goes_on else ""),
        search=search,
        hit_links=_hit_links(artifact, search, params, window) if search and search.query else None,
        can_follow=can_follow(artifact) and mode.name in TAIL_MODES,
        tail=start_tail(artifact, content, window) if "follow" in params else None,
    )


def _line_ends(content: Content) -> str:
    """Judged by the beginning of the content."""
    text = decode(content.head, content.index.encoding) if content.encoding.name else ""
    lines, crlf_lines = text.count("\n"), text.count("\r\n")
    if not crlf_lines:
        return ""
    return "CRLF" if lines == crlf_lines else "CRLF and LF"


def _next_unseen(visible: VisibleLines, window: ArtifactWindow) -> UnseenLines | None:
    """None where the window was opened for them."""
    unseen = visible.next_unseen(window.last)
    is_here = unseen is not None and unseen.first <= window.first <= unseen.line and unseen.offset in (-1, window.start)
    return None if is_here else unseen


def _permalink(window: ArtifactWindow, location: Location, query_suffix: str) -> str:
    """The requested lines where the window has them, else its first line, else its first byte."""
    first = window.first
    if first and first <= location.lines.start <= window.last:
        before = "" if first == location.lines.start else f"from={first}&"
        return f"{before}line={location.line_range}{query_suffix}#L{first}"
    if first and window.rows and not window.rows[0].is_continued:
        return f"line={first}{query_suffix}#L{first}"
    return f"offset={window.start}{query_suffix}"


def _hit_links(artifact: Artifact, search: ArtifactSearch, params: Params, window: ArtifactWindow) -> HitLinks:
    """Relative to the hit that the page was opened at, or to the window where it was opened in another way."""
    hit = params.text("hit")
    start = params.integer("hit", default=0, most=LARGEST) if hit else window.start
    address = f"{artifact.get_absolute_url()}find/?"
    message = ""
    if "last" in params:
        has_no_errors = "errors" in params and not hit
        message = "Nothing in it looks like an error." if has_no_errors else "No further hit that way."
    return HitLinks(
        previous=address + urlencode(search.parameters | {"before": start, "hit": hit}),
        next=address + urlencode(search.parameters | {"next": start + 1 if hit else start, "hit": hit}),
        message=message,
    )


@dataclass(frozen=True, kw_only=True)
class TailUpdate:
    """Rows that were added. `href` requests the next ones and is empty when following is over.

    `message` says why it is over, or why nothing comes at the moment. `is_broken`: the page shows what the file no
    longer holds. `size` is in bytes.
    """

    rows: tuple[ArtifactRow, ...] = ()
    href: str = ""
    message: str = ""
    size: int = 0
    is_broken: bool = False


def can_follow(artifact: Artifact) -> bool:
    return artifact.observation_id is None and artifact.call.run.is_live


def start_tail(artifact: Artifact, content: Content, window: ArtifactWindow) -> TailUpdate | None:
    """Follows from the end of the window on; None for a window that is not at the end of the file."""
    if window.end < window.size or window.mode not in TAIL_MODES:
        return None
    if not can_follow(artifact):
        return TailUpdate(message=OVER)
    return TailUpdate(href=_next_address(artifact, content.stored, window), size=content.size)


def tail_since(artifact: Artifact, params: Params) -> TailUpdate | None:
    """Loads what was added since the cursor `?from= &mark= &was=`; None while there is nothing new."""
    start, mark = params.integer("from", default=0, most=LARGEST), params.text("mark")
    mode, encoding = params.choice("as", TAIL_MODES, default="text"), params.text("encoding")
    is_same_content = artifact.sha256.startswith(params.text("was") or "-")
    if is_same_content and artifact.size == start:
        return None if can_follow(artifact) else TailUpdate(message=OVER)
    try:
        with open_content(artifact, encoding) as content:
            if content.size < start:
                sizes = f"{format_size(start)} before, {format_size(content.size)} now"
                message = f"The file became shorter while you were reading it: {sizes}."
                return TailUpdate(message=message, is_broken=True)
            if _hash_before(content.stored, start) != mark:
                message = "The file was replaced by another one while you were reading it."
                return TailUpdate(message=message, is_broken=True)
            window = load_window(content, mode, WindowStart(offset=start), WindowMarks())
            href = _next_address(artifact, content.stored, window)
            return TailUpdate(rows=window.rows, href=href, size=content.size)
    except NoContent as error:
        if error.absence.cause == AbsenceCause.UNREACHABLE:
            same_address = f"{reverse('artifact-follow', args=[artifact.pk])}{params.url()}"
            return TailUpdate(href=same_address, message=error.absence.sentence)
        return TailUpdate(message="The content was removed while you were reading it.", is_broken=True)


def _next_address(artifact: Artifact, stream: BinaryIO, window: ArtifactWindow) -> str:
    query = {
        "from": window.end,
        "mark": _hash_before(stream, window.end),
        "was": artifact.sha256[:16] if window.end == window.size else "",
        "as": window.mode,
    }
    return f"{reverse('artifact-follow', args=[artifact.pk])}?{urlencode(query)}"


def _hash_before(stream: BinaryIO, end: int) -> str:
    digest = hashlib.sha256()
    for start in (0, max(0, end - EDGE)):
        stream.seek(start)
        digest.update(stream.read(min(EDGE, end - start)))
    return digest.hexdigest()[:32]
