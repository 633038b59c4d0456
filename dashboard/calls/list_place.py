"""The list that a call was opened from, and the call's place in it: its number and its neighbours.

The address of a step names the list by `list`, a page and its query (`calls?q=status:failed&sort=took`), so that the
walk goes on in the filter and the order of that list, across runs. `row` is the call of the list from which a step
beside it was opened: from there the walk goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.http import QueryDict

from dashboard.calls.call_order import (
    SORTS,
    CallSelection,
    Cursor,
    find_cursor,
    find_earlier,
    format_cursor,
    load_matching,
    select_listed,
)
from dashboard.calls.call_table import SEARCH, CallTableParams
from dashboard.filters.language import Query, parse
from dashboard.models import Call, Project
from dashboard.search.match import PayloadSearch
from dashboard.text.params import Params

SHOWN_IN_SEARCH = 10  # calls that the search page lists
LEAD = 10  # rows above the call to which a list is opened
NEVER_KEPT = ("q", "row")  # parameters of a step that belong to its run


@dataclass(frozen=True, kw_only=True)
class ListPlace:
    """`call` is the call of the list from which the walk goes on; `is_here` tells that it is the one that is open.

    `number` is 0 for a call that the list does not have, or whose place was not counted, and `total` is then empty
    where the texts alone tell what matches. `before` and `after` are empty at the ends; where a search in texts was
    stopped on the way to a neighbour, they lead to the part of the list where it goes on.
    """

    name: str
    call: UUID
    is_here: bool
    number: int
    total: str
    before: str
    after: str
    back: str

    @property
    def is_search(self) -> bool:
        return self.name.startswith(SEARCH)


def read_list(name: str) -> CallTableParams | None:
    """The list that an address names; None for anything else."""
    page, _, address = name.partition("?")
    if page == "calls":
        return CallTableParams(QueryDict(address))
    if page == SEARCH:
        return CallTableParams(QueryDict(urlencode({"q": search_filter(QueryDict(address).get("q", ""))})))
    return None


def search_filter(text: str) -> str:
    """The filter over calls that the search page answers `text` with: its words are looked for in payloads."""
    return parse(text, over="calls", reads_texts=True).in_payloads() or text


def load_list_place(project: Project, call: Call, tab: str, query: Mapping[str, str]) -> ListPlace | None:
    """The place of a call in the list that its address names; None where it names none."""
    params = read_list(query.get("list", ""))
    if params is None:
        return None
    walk = _Walk(project, params)
    key = call.pk if walk.contains(call.pk) else Params(query).uuid("row") or call.pk
    cursor = find_cursor(call, walk.column) if key == call.pk else walk.find_cursor(key)
    if cursor is None:  # a call that was deleted
        key, cursor = call.pk, find_cursor(call, walk.column)
    number, before, after = walk.find_beside(cursor)
    kept = {name: value for name, value in query.items() if name not in NEVER_KEPT}
    kept |= {"tab": tab} if tab != "halves" else {}

    def url(neighbour: UUID | str) -> str:
        return f"/calls/{neighbour}/?{urlencode(kept)}" if isinstance(neighbour, UUID) else neighbour

    number = number if walk.contains(key) else 0
    return ListPlace(
        name=query["list"],
        call=key,
        is_here=key == call.pk and walk.contains(key),
        number=number,
        total=walk.total,
        before=url(before),
        after=url(after),
        back=_back_url(query["list"], params, key, number),
    )


def _back_url(name: str, params: CallTableParams, key: UUID, number: int) -> str:
    page, _, address = name.partition("?")
    if page == SEARCH and 0 < number <= SHOWN_IN_SEARCH:
        return f"/search/?{address}#call-{key.hex}"
    return f"/calls/{params.first_page_url(row=key)}#call-{key.hex}"


def find_page(project: Project, params: CallTableParams, key: UUID) -> str:
    """The address of the page of a list that has a call: the first one, or one that begins LEAD rows above it."""
    walk = _Walk(project, params)
    cursor = walk.find_cursor(key)
    size = settings.ROWS_PER_PAGE
    edges = walk.load_edges(cursor, size, is_backward=True)[0] if cursor else []
    after = edges[LEAD] if len(edges) == size else None
    return f"/calls/{params.first_page_url(after=format_cursor(after) if after else None)}"


class _Walk:
    """A list as steps walk it."""

    def __init__(self, project: Project, params: CallTableParams) -> None:
        query: Query = parse(params.q, over="calls", reads_texts=True)
        self.column = SORTS[params.sort]
        self._project = project
        self._params = params
        self._search = PayloadSearch(project, query)
        self._selection: CallSelection = select_listed(query, project, is_counted=not self._search.is_undecided)
        self._contained: dict[UUID, bool] = {}

    @property
    def total(self) -> str:
        matching = self._selection.matching
        if matching is None:
            return ""
        return f"{settings.COUNTED_CALLS:,}+" if matching > settings.COUNTED_CALLS else f"{matching:,}"

    def contains(self, key: UUID) -> bool:
        if key not in self._contained:
            is_candidate = self._selection.contains(key)
            self._contained[key] = is_candidate and (not self._search or bool(self._search.select_matching([key])))
        return self._contained[key]

    def find_cursor(self, key: UUID) -> Cursor | None:
        call = Call.objects.filter(project=self._project, pk=key).first()
        return find_cursor(call, self.column) if call else None

    def load_edges(self, cursor: Cursor, size: int, *, is_backward: bool) -> tuple[list[Cursor], Cursor | None]:
        return load_matching(self._selection, self.column, cursor, size, self._search, is_backward=is_backward)

    def find_beside(self, cursor: Cursor) -> tuple[int, UUID | str, UUID | str]:
        """The number of the call at the cursor, 0 where it was not counted, and what stands before and behind it."""
        if self._search:
            number, before = 0, self._find_neighbour(cursor, is_backward=True)
            if not self._search.is_undecided:
                number = find_earlier(self._selection, self.column, cursor)[0]
        else:
            number, earlier = find_earlier(self._selection, self.column, cursor)
            before = earlier or ""
        return number, before, self._find_neighbour(cursor, is_backward=False)

    def _find_neighbour(self, cursor: Cursor, *, is_backward: bool) -> UUID | str:
        edges, stop = self.load_edges(cursor, 1, is_backward=is_backward)
        if edges or stop is None:
            return edges[0][1] if edges else ""
        return f"/calls/{self._params.first_page_url(**{'before' if is_backward else 'after': format_cursor(stop)})}"
