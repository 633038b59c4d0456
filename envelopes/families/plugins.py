"""What installed packages add: families and variants, found through their entry points.

    [project.entry-points."counterfoil.families"]
    tickets = "my_package.tickets:FAMILY"          a Family

    [project.entry-points."counterfoil.variants"]
    terse = "my_package.terse:VARIANT"             a Variant, or several in a tuple

A package that cannot be imported, takes too long, or gives something else, is a `Broken` with its reason and
harms nothing besides. This module knows neither families nor variants: who asks says what it expects and what
it checks.
Packages run with the rights of this process: an entry point is trusted code, as any dependency is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

import msgspec

FAMILIES = "counterfoil.families"
VARIANTS = "counterfoil.variants"
IMPORTED_WITHIN = 10.0  # seconds
_HERE = threading.local()

Thing = TypeVar("Thing", bound=msgspec.Struct)


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """`package` and `version` are the distribution's; both empty for one without metadata."""

    group: str
    name: str
    target: str
    package: str
    version: str


class Plugged(msgspec.Struct, Generic[Thing], frozen=True):
    thing: Thing
    origin: Origin


class Broken(msgspec.Struct, frozen=True):
    origin: Origin
    reason: str


class Refused(ValueError):
    """What a check says of something that a package gave."""


class Found(msgspec.Struct, Generic[Thing], frozen=True):
    plugged: tuple[Plugged[Thing], ...]
    broken: tuple[Broken, ...]


def found(group: str, kind: type[Thing], check: Callable[[Thing], None]) -> Found[Thing]:
    """In the order of their names. `check` raises Refused for a thing that may not be taken in.

    A package that asks for families while it is imported gets the program's own: it cannot wait for itself.
    """
    if getattr(_HERE, "is_importing", False):
        return Found((), ())
    plugged: list[Plugged[Thing]] = []
    broken: list[Broken] = []
    for point in sorted(entry_points(group=group), key=lambda one: (one.name, one.value)):
        origin = _origin(point)
        try:
            things = list(_things(point, kind))
            for thing in things:
                check(thing)
        except (Exception, SystemExit) as error:  # whatever a foreign package does when it is imported
            broken.append(Broken(origin, _reason(error)))
            continue
        plugged.extend(Plugged(thing, origin) for thing in things)
    return Found(tuple(plugged), tuple(broken))


def _origin(point: EntryPoint) -> Origin:
    dist = point.dist
    return Origin(
        group=point.group,
        name=point.name,
        target=point.value,
        package=dist.name if dist else "",
        version=dist.version if dist else "",
    )


def _things(point: EntryPoint, kind: type[Thing]) -> Iterable[Thing]:
    loaded = _loaded(point)
    for thing in loaded if isinstance(loaded, tuple | list) else (loaded,):
        if not isinstance(thing, kind):
            raise Refused(f"expected a {kind.__name__}, found {type(thing).__name__}")
        yield thing


def _loaded(point: EntryPoint) -> object:
    """In a thread of its own, so that an import that never ends holds nobody up. Whatever it raises is raised here.

    A thread cannot be ended: one that waits costs nothing, one that spins costs time until the process ends. To
    try each package in a child process first was rejected: every command would pay for it, also where all is well.
    """
    ended: list[object] = []
    failed: list[BaseException] = []

    def load() -> None:
        _HERE.is_importing = True
        try:
            ended.append(point.load())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=load, name=f"import of {point.value}", daemon=True)
    thread.start()
    thread.join(IMPORTED_WITHIN)
    for error in failed:
        raise error
    if not ended:
        raise Refused(f"its import did not end within {IMPORTED_WITHIN:g} seconds")
    return ended[0]


def _reason(error: BaseException) -> str:
    if isinstance(error, Refused):
        return str(error)
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}"[:500] if said else type(error).__name__
