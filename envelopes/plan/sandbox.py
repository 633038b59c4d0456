"""The paths in a call's arguments, and whether the sandbox of the run allows them (CALL-106, OD-21).

    check_sandbox   refuses a call whose path arguments leave the allowed roots or match a denied pattern
    refuse_path     the same for one path, for a tool that knows where a link leads
    find_values     the values that the pointers of a definition select, `*` standing for each item of a list

It is the second policy gate: it runs when the arguments are known. Paths are relative to the workspace, whose root is
`/` in `allowed_roots`; an absolute path is refused, because it names a place of the machine. A path is normalised
before it is compared: NFC, forward slashes, no dot segments. The gate compares texts and touches no file. A path may
contain symbolic links, so a tool resolves it where it is used and has the place that it leads to checked again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from envelopes.schema.call import Sandbox
from envelopes.schema.result import JsonValue, ToolError
from envelopes.schema.tool import ToolDefinition
from envelopes.text.pointer import join

_DRIVE = re.compile(r"[A-Za-z]:")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_GLOB = re.compile(r"[*?\[]")


_HINTS = {
    "policy_denied": "do without it, or ask the operator to allow it",
    "execution_root_violation": "use a path in one of these folders",
    "path_escape": "use a relative path inside the workspace",
}


class RefusedPath(ValueError):
    """A path that the sandbox does not allow: the kind of the error, and a reason that follows the path."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


def check_sandbox(
    tool: ToolDefinition, args: dict[str, Any], sandbox: Sandbox, paths: Iterable[str] = ()
) -> ToolError | None:
    """The error of the first path that is not allowed; None where all are, or the sandbox is off.

    `paths` are those that the tool finds inside of its arguments, such as the files of a patch (`Tool.find_paths`).
    """
    named = [(value, {"pointer": place}) for place, value in find_values(args, tool.path_args)]
    for path, place in (*named, *((path, {}) for path in paths)):
        if isinstance(path, str) and (error := refuse_path(path, sandbox, **place)) is not None:
            return error
    return None


def refuse_path(path: str, sandbox: Sandbox, **details: JsonValue) -> ToolError | None:
    """The error of a path that is not allowed; None for any other, and where the sandbox is off."""
    if not sandbox.enabled:
        return None
    try:
        check_path(path, sandbox)
    except RefusedPath as refusal:
        return ToolError(
            kind=refusal.kind,
            message=f"{path} {refusal.reason}",
            details={**details, "path": path},
            recovery_hint=_HINTS[refusal.kind],
            retryable=False,
        )
    return None


def check_path(path: str, sandbox: Sandbox) -> str:
    """The normalised path, without a slash in front; "" is the root. Raises RefusedPath."""
    normalised = normalise_path(path)
    for pattern in sandbox.deny_patterns or ():
        if matches_pattern(path, pattern) or matches_pattern(normalised, pattern):
            raise RefusedPath("policy_denied", f"matches the denied pattern {pattern!r}")
    roots = sandbox.allowed_roots
    if roots is not None and not any(_is_within(normalised, normalise_path(root.lstrip("/"))) for root in roots):
        raise RefusedPath("execution_root_violation", f"is in none of the allowed folders: {', '.join(roots)}")
    return normalised


def normalise_path(path: str) -> str:
    """NFC, forward slashes, no dot segments. Raises RefusedPath for an absolute path and one that leaves the root."""
    text = unicodedata.normalize("NFC", path).replace("\\", "/")
    if "\0" in text:
        raise RefusedPath("path_escape", "contains a NUL character")
    if text.startswith("/") or _DRIVE.match(text) or _SCHEME.match(text):
        raise RefusedPath("path_escape", "is absolute; paths are relative to the workspace")
    segments: list[str] = []
    for segment in text.split("/"):
        if segment == "..":
            if not segments:
                raise RefusedPath("path_escape", "leaves the workspace")
            segments.pop()
        elif segment not in ("", "."):
            segments.append(segment)
    return "/".join(segments)


def matches_pattern(path: str, pattern: str) -> bool:
    """A pattern with `*`, `?` or `[` is compared with the path and each of its segments; any other is a substring."""
    pattern = unicodedata.normalize("NFC", pattern)
    if not _GLOB.search(pattern):
        return pattern in path
    return any(fnmatchcase(text, pattern) for text in (path, *path.split("/")))


def find_values(args: Any, pointers: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yields each value with its own pointer. A pointer to nothing yields nothing: the argument was not given."""
    for pointer in pointers:
        yield from _select(args, pointer.split("/")[1:], "")


def _select(value: Any, parts: list[str], place: str) -> Iterator[tuple[str, Any]]:
    if not parts:
        yield place, value
        return
    part, *rest = parts
    if part == "*" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _select(item, rest, join(place, index))
    elif isinstance(value, dict) and part in value:
        yield from _select(value[part], rest, join(place, part))


def _is_within(path: str, root: str) -> bool:
    return root == "" or path == root or path.startswith(f"{root}/")
