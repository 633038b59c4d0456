"""Labels each call with the argument that a person would name it by: `make test`, `/src/app.py`, a question.

A summary describes what came of a call. Forty commands that ended well have the same summary forty times, and a
reader could not find one of them. A label is read from the head of the recorded arguments, once, and stored in the
call's column `asked`; all arguments are on the Call page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from dashboard.models import Call, Observation, load_slices
from dashboard.models.sources import SLICE_FIELDS
from dashboard.text.formatting import column_text
from dashboard.text.masks import mask_text, mask_value
from dashboard.text.text_markup import printable
from envelopes.schema.result import JsonValue
from envelopes.text.untrusted_json import Untrusted, dump_json, is_portable, object_slices, parse_json

ESCAPE_CHARACTERS = 6  # of the longest escape in JSON
HEAD_BYTES = 600
MAX_CHARACTERS = 160
# Of a stored label or line: more than is shown, so that a secret is masked before it is cut.
STORED_CHARACTERS = 500
RECEIPT_CHARACTERS = 2_000  # in which the first line of a receipt is looked for
LEAST_REPEATED = 4  # characters; `x` is in every sentence
# Members of results that have what a tool printed.
OUTPUT_NAMES = ("stdout", "stdout_preview", "output", "content", "text", "stderr", "stderr_preview")
# Argument names that agents give to what identifies a request. Without one of them the first text is the label,
# without any text all of them. Members of the arguments themselves come before those of objects in them.
NAMES = (
    *("command", "file_path", "notebook_path", "pattern", "path", "query", "url"),
    *("plan", "question", "description", "prompt"),
)
# Of an editor of files the command is one of these, and the path names the call.
EDITOR_COMMANDS = frozenset({"view", "create", "str_replace", "insert", "undo_edit", "delete"})
SHELL_FLAGS = ("-c", "-lc")  # behind a shell, before the command
# A member of JSON with a text or a list of texts, which may end where the head does.
_STRING = r'"(?>[^"\\]*(?:\\.[^"\\]*)*)"?+'
_MEMBER = re.compile(rf'"([^"\\]*)"\s*:\s*({_STRING}|\[(?:\s*{_STRING}\s*,?)+(?=\]|\Z))', re.DOTALL)
_TEXT = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"?', re.DOTALL)
_NAME_OR_BRACKET = re.compile(rf"{_STRING}(\s*:)?|[{{}}\[\]]", re.DOTALL)
_TAG = re.compile(r"<[\w-]+>")
_CODEX_HEAD = re.compile(
    r"(?:(?:(?:Script \w+|Chunk ID|Wall time|Exit code|Process|Original token count|Total output lines)\b[^\n]*\n)+"
    r"Output:\n?)+"
)  # of one or more receipts without an output yet
_COUNT = re.compile(r"Total output lines: \d+|Warning: truncated output \(original token count: \d+\)")  # of Codex
_SHELL_HEAD = re.compile(
    r"Command: [^\n]*(?:\n[^\n]*){0,20}?\nDirectory: [^\n]*\n(?:Output|Stdout): "
)  # of the Gemini CLI and Qwen Code
_DECODE = json.JSONDecoder(strict=False).decode


def argument_labels(calls: Sequence[UUID]) -> dict[UUID, str]:
    """The label of each call whose arguments contain a text. Paths are relative to the working folder of the run.

    One query, for the calls of one page; two more where some of them are not derived yet.
    """
    if not calls:
        return {}
    rows = Call.objects.filter(pk__in=calls).order_by().values_list("pk", "asked", "derivation", "run__cwd")
    labels, waiting = {}, []
    for key, asked, derivation, cwd in rows:
        labels[key] = show_label(asked, cwd)
        if not derivation:
            waiting.append(key)
    labels |= _read_labels(waiting)
    return {key: label for key, label in labels.items() if label}


def label_calls(calls: Sequence[Call], cwd: str) -> dict[UUID, str]:
    """The same labels, of calls of a run with this working folder: without a query, once they are derived."""
    others = [call.pk for call in calls if call.inherited or not call.derivation]
    labels = {call.pk: show_label(call.asked, cwd) for call in calls if call.derivation and not call.inherited}
    return labels | argument_labels(others)


def _read_labels(calls: Sequence[UUID]) -> dict[UUID, str]:
    """The labels of calls whose column does not follow from their evidence yet."""
    if not calls:
        return {}
    arguments = Observation.objects.filter(call__in=calls, surface="args", selected=True)
    rows = list(arguments.select_related("call__run").only(*SLICE_FIELDS, "call__run__cwd"))
    load_slices(rows)
    return {row.call_id: shorten_paths(label_arguments(row.data), row.call.run.cwd) for row in rows}


def shorten_paths(text: str, cwd: str) -> str:
    """Paths below the working folder without it: what distinguishes two files is the end of their paths."""
    folder = cwd.rstrip("/")
    return text.removesuffix(f" in {folder}").replace(f"{folder}/", "") if folder else text


def unless_repeated(label: str, summary: str) -> str:
    """The label, or nothing where the summary beside it contains it."""
    return "" if len(label) >= LEAST_REPEATED and label in summary else label


def label_arguments(raw: bytes) -> str:
    """The label for recorded arguments, of which `raw` may be only the first bytes; empty for no arguments.

    Of a repeated key it has the last value, which is the one that is read.
    """
    name, line = _find_label(raw)
    return _shorten(mask_value(name, line))


def store_label(raw: bytes) -> str:
    """The name and the label for the column of a call, of which `show_label` makes the label."""
    name, line = _find_label(raw)
    return column_text(f"{name.replace('=', '-')}={line}", STORED_CHARACTERS) if line else ""


def show_label(stored: str, cwd: str) -> str:
    name, _, line = stored.partition("=")
    return _shorten(shorten_paths(mask_value(name, line), cwd))


def store_first_line(text: str) -> str:
    """The first line of a receipt with a text in it, for the column of a call; a tag on a line of its own is none.

    Nor is a line of the header that Codex writes before an output, or the command that other agents repeat before it.
    Without any other line it is empty: the summary of the call says more.

    A line without a letter or digit, such as the `{` of indented JSON, counts only where there is no other.
    """
    first = ""
    head = _SHELL_HEAD.match(text) or _CODEX_HEAD.match(text)
    start = head.end() if head else 0
    for raw in text[start : start + RECEIPT_CHARACTERS].splitlines():
        line = " ".join(raw.split())
        if line and not _TAG.fullmatch(line) and not _COUNT.fullmatch(line):
            if any(map(str.isalnum, line)):
                return column_text(line, STORED_CHARACTERS)
            first = first or line
    return column_text(first, STORED_CHARACTERS)


def find_printed(result: JsonValue) -> str:
    """Finds what a tool printed, for a call whose source keeps no receipt; empty where its result has no such text."""
    members = result if isinstance(result, dict) else {"text": result}
    texts = [text for name in OUTPUT_NAMES if isinstance(text := members.get(name), str)]
    return next((text for text in texts if text.strip()), "")


def show_first_line(stored: str, cwd: str) -> str:
    return _shorten(shorten_paths(mask_text(stored), cwd))


def _shorten(line: str) -> str:
    return printable(line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 1]}…")


def _find_label(raw: bytes) -> tuple[str, str]:
    """The name of the argument and its text as one line, which ends in an ellipsis where `raw` or the head ends."""
    text = raw[:HEAD_BYTES].decode("utf-8", "replace")
    if text.startswith('"'):  # the input of a tool that takes a text
        return "", _as_text(text)
    outer = _outer_members(text)
    if len(raw) > HEAD_BYTES and outer.keys().isdisjoint(NAMES) and (behind := _head_behind(raw)):
        text, outer = behind, _outer_members(behind)
    name, written = _choose_text(text, outer)
    may_be_repeated = raw.count(f'"{name}"'.encode()) > 1 or b"\\u" in raw
    if may_be_repeated and not is_portable(raw):
        with suppress(Untrusted):
            text = dump_json(parse_json(raw))[:HEAD_BYTES].decode("utf-8", "replace")
            name, written = _choose_text(text, _outer_members(text))
    if not written.strip('"'):
        return "", _as_line(text)
    line = _read_texts(name, written)
    place = _find_place(text, name)
    is_cut = text.endswith(written if written.startswith("[") else _TEXT.findall(written)[-1])
    return name, f"{line}…" if line and is_cut else f"{line} in {place}" if place else line


def _read_texts(name: str, written: str) -> str:
    """A text, or a list of them, as JSON writes it: as one line. Of a shell's arguments the command alone."""
    texts = [_decode_text(text) for text in _TEXT.findall(written)]
    if name != "command":
        return ", ".join(texts)
    return texts[2] if len(texts) == 3 and texts[1] in SHELL_FLAGS else " ".join(texts)


def _decode_text(written: str) -> str:
    """One line, without an escape that is cut at its end. Empty for what is no JSON."""
    if "\\" not in written:
        return " ".join(written.split())
    for cut in range(ESCAPE_CHARACTERS):
        with suppress(json.JSONDecodeError):
            return " ".join(str(_DECODE(f'"{written[: len(written) - cut]}"')).split())
    return ""


def _as_text(text: str) -> str:
    """A JSON string as one line; where its end is missing, without the escape that is cut."""
    with suppress(json.JSONDecodeError):
        return " ".join(str(_DECODE(text)).split())
    return f"{line}…" if (line := _decode_text(text[1:])) else ""


def _as_line(text: str) -> str:
    """JSON without a text in it, as `{"x":1}`; empty for no arguments."""
    line = " ".join(text.split())
    is_json = line.startswith(("{", "[")) and line not in ("{}", "[]")
    return line if is_json and len(text) < HEAD_BYTES else f"{line}…" if is_json else ""


def _find_place(text: str, name: str) -> str:
    """The path that a search looked in, where all of it is in the head."""
    path = dict(_MEMBER.findall(text)).get("path", "") if name == "pattern" else ""
    return "" if text.endswith(path) else _read_texts("path", path)


def _outer_members(text: str) -> dict[str, str]:
    """The texts of the members of the outermost object, as JSON writes them; the first one of a repeated name."""
    starts, depth = set(), 0
    for token in _NAME_OR_BRACKET.finditer(text):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
        elif depth == 1 and token[1]:
            starts.add(token.start())
    outer = [(str(member[1]), str(member[2])) for member in _MEMBER.finditer(text) if member.start() in starts]
    return dict(reversed(outer))


def _head_behind(raw: bytes) -> str:
    """The head of the member that names the call, where it stands behind a long one; empty without it."""
    with suppress(Untrusted):
        members = object_slices(raw)
        for name in NAMES:
            if members.get(name, b"").startswith(b'"'):
                return (b'{"%s":%s}' % (name.encode(), members[name]))[:HEAD_BYTES].decode("utf-8", "replace")
    return ""


def _choose_text(text: str, outer: Mapping[str, str]) -> tuple[str, str]:
    """The name and the text, or the texts, as JSON writes them, of the argument that names the call.

    `outer` are the members of the outermost object.
    """
    members = _MEMBER.findall(text)
    values = dict(reversed(members))  # of two objects with the same name in them, the first
    is_editor = values.get("command", "").strip('"') in EDITOR_COMMANDS and "path" in values
    names = NAMES[1:] if is_editor else NAMES
    first = members[0][0] if members else ""
    if first == "id" and len(members) > 1 and "[" in text[: text.index('"id"')]:  # the number of an item of a list
        first = members[1][0]
    values |= outer
    named = [name for name in names if name in values]
    chosen = next((name for name in named if name in outer), named[0] if named else first)
    return chosen, values.get(chosen, "")
