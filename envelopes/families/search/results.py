"""The results of searches and their bounded forms. The counts are the source's own, where it recorded them."""

from __future__ import annotations

import msgspec

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence
from envelopes.families.base import Projection, Projector, ResultMembers, pick
from envelopes.schema.budget import ProjectionPolicy


class TextMatches(msgspec.Struct, frozen=True, kw_only=True):
    """Files, or lines, that contain a pattern. `mode` is content, files_with_matches or count.

    Claude Code records 0 as the number of files in content mode.
    """

    mode: str
    filenames: list[str] = []
    content: str | None = None
    file_count: int | None = None
    line_count: int | None = None
    match_count: int | None = None
    applied_limit: int | None = None
    applied_offset: int | None = None


class FileMatches(msgspec.Struct, frozen=True, kw_only=True):
    """Files whose names match."""

    filenames: list[str] = []
    file_count: int | None = None
    truncated: bool | None = None
    duration_ms: int | float | None = None


class SymbolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A language server's answer as the text that the agent made of it."""

    operation: str | None = None
    content: str = ""
    path: str | None = None
    result_count: int | None = None
    file_count: int | None = None


def summarize_files(count: int) -> str:
    return f"{count or 'No'} file{'' if count == 1 else 's'} found"


def summarize_matches(count: int, evidence: Evidence) -> str:
    return f"{count or 'No'} match{'' if count == 1 else 'es'} found{describe_pattern(evidence)}"


def describe_pattern(evidence: Evidence) -> str:
    """The end of a summary, which names the pattern of the arguments; empty without one."""
    pattern = RecordedObject(evidence.args).text("pattern")
    return f" for '{pattern}'" if pattern else ""


def _project_text_matches(result: TextMatches, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        **pick(result, "mode", "file_count", "line_count", "match_count", "applied_limit", "applied_offset"),
        **projector.items("filenames", result.filenames, policy),
        **projector.text("content", result.content, policy.preview, role="content"),
    }


def _project_file_matches(result: FileMatches, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        **pick(result, "file_count", "truncated", "duration_ms"),
        **projector.items("filenames", result.filenames, policy),
    }


def _project_symbol_answer(result: SymbolAnswer, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        **pick(result, "operation", "path", "result_count", "file_count"),
        **projector.text("content", result.content, policy.preview, role="content"),
    }


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {
    TextMatches: _project_text_matches,
    FileMatches: _project_file_matches,
    SymbolAnswer: _project_symbol_answer,
}
