"""Loads what installed packages add, families and variants, from their entry points.

    [project.entry-points."counterfoil.families"]
    tickets = "my_package.tickets:FAMILY"          a Family

    [project.entry-points."counterfoil.variants"]
    terse = "my_package.terse:VARIANT"             a Variant, or several in a tuple

A package that cannot be imported, takes too long or gives something else becomes a BrokenPlugin with its reason;
the other packages are loaded all the same. The caller gives the expected type and the check, so that this module
depends on neither families nor variants. Packages run with the rights of this process: an entry point is trusted
code, as any dependency is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

import msgspec

FAMILIES = "counterfoil.families"
VARIANTS = "counterfoil.variants"
IMPORT_SECONDS = 10.0
_THREAD = threading.local()

Value = TypeVar("Value", bound=msgspec.Struct)


class PluginOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """`package` and `version` are the distribution's; both empty for one without metadata."""

    group: str
    name: str
    target: str
    package: str
    version: str


class Plugin(msgspec.Struct, Generic[Value], frozen=True):
    value: Value
    origin: PluginOrigin


class BrokenPlugin(msgspec.Struct, frozen=True):
    origin: PluginOrigin
    reason: str


class InvalidPlugin(ValueError):
    """A package gave something that the program cannot use."""


class LoadedPlugins(msgspec.Struct, Generic[Value], frozen=True):
    plugins: tuple[Plugin[Value], ...]
    broken: tuple[BrokenPlugin, ...]


def load_plugins(
    group: str, kind: type[Value], check: Callable[[Value], None], *, seconds: float = IMPORT_SECONDS
) -> LoadedPlugins[Value]:
    """Loads the plugins of one group in the order of their names, each within `seconds`. `check` raises InvalidPlugin.

    A package that asks for families while it is imported gets the program's own: it cannot wait for itself.
    """
    if getattr(_THREAD, "is_importing", False):
        return LoadedPlugins((), ())
    plugins: list[Plugin[Value]] = []
    broken: list[BrokenPlugin] = []
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        origin = PluginOrigin(
            group=point.group,
            name=point.name,
            target=point.value,
            package=point.dist.name if point.dist else "",
            version=point.dist.version if point.dist else "",
        )
        try:
            values = _import(point, kind, seconds)
            for value in values:
                check(value)
        except (Exception, SystemExit) as error:  # whatever a foreign package does when it is imported
            broken.append(BrokenPlugin(origin, _describe(error)))
            continue
        plugins.extend(Plugin(value, origin) for value in values)
    return LoadedPlugins(tuple(plugins), tuple(broken))


def _import(point: EntryPoint, kind: type[Value], seconds: float) -> list[Value]:
    """Imports in a thread of its own, so that an import that never ends blocks nobody. Raises what the import raises.

    A thread cannot be ended: one that waits costs nothing, one that spins costs time until the process ends. To
    try each package in a child process first was rejected: every command would pay for it, also where all is well.
    """
    loaded: list[object] = []
    errors: list[BaseException] = []

    def load() -> None:
        _THREAD.is_importing = True
        try:
            loaded.append(point.load())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=load, name=f"import of {point.value}", daemon=True)
    thread.start()
    thread.join(seconds)
    for error in errors:
        raise error
    if not loaded:
        raise InvalidPlugin(f"its import did not end within {seconds:g} seconds")
    values: list[Value] = []
    for value in loaded[0] if isinstance(loaded[0], tuple | list) else loaded:
        if not isinstance(value, kind):
            raise InvalidPlugin(f"expected a {kind.__name__}, found {type(value).__name__}")
        values.append(value)
    return values


def _describe(error: BaseException) -> str:
    if isinstance(error, InvalidPlugin):
        return str(error)
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}"[:500] if message else type(error).__name__
