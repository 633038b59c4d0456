"""Parses how a later call read an artifact, from its arguments: with which program, and which part.

Only certain readings count. The whole path has to be in the arguments, as a value or as a word of a shell command;
a command that merely carries it (`cp`, a prompt, a list of files) mentions it and opens nothing. Patterns that would
match the path, variables and loops are not resolved.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from envelopes.schema.result import JsonValue
from envelopes.text.untrusted_json import Untrusted, parse_json

LONGEST_PATTERN = 60  # characters of a search pattern that are shown
_QUOTES = str.maketrans("", "", "\\'\" \t")
_SEPARATORS = re.compile(r"[();&|\n]+|\|&")
_LINE_SPAN = re.compile(r"(\d{1,12})(?:,(\d{1,12}|\$))?p;?(?:\d{1,12}q)?")
_LINES_OPTION = re.compile(r"(?:-n ?|--lines[= ]|-)(\+?\d{1,12})|(\+\d{1,12})")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PREFIXES = frozenset({"sudo", "time", "nohup", "command", "exec", "env", "nice"})


@dataclass(frozen=True, kw_only=True)
class ReadCommand:
    """`program` is empty where the path is only mentioned. `lines` count from 1 and are empty where none are named."""

    program: str = ""
    part: str = ""
    lines: range = range(0)
    is_tail: bool = False


MENTIONED = ReadCommand()
ALL, PIPED = "all of it", "through a pipe"


def parse_read_command(path: str, tool: str, args: bytes) -> ReadCommand | None:
    """How a call with these arguments (JSON) reads `path`; None where they do not contain it as a whole."""
    try:
        values = parse_json(args)
    except Untrusted:
        return None
    name = re.split(r"__|\.", tool)[-1]
    named = [values.get(key) for key in ("file_path", "path", "notebook_path")] if isinstance(values, dict) else []
    if isinstance(values, dict) and name in TOOLS and path in named:
        return TOOLS[name](name, values)
    commands = [_parse_text(path, text) for text in _texts(values)]
    return _pick([command for command in commands if command is not None])


def _pick(commands: Sequence[ReadCommand]) -> ReadCommand | None:
    """The first command that reads, else the first that mentions."""
    return next((command for command in commands if command.program), commands[0] if commands else None)


def _read_lines(name: str, args: Mapping[str, JsonValue]) -> ReadCommand:
    """`offset` is the first line, `limit` how many."""
    first, count = _positive(args.get("offset")), _positive(args.get("limit"))
    if not first and not count:
        return ReadCommand(program=name)
    return _span(name, max(first, 1), max(first, 1) + count - 1) if count else _from_line(name, first)


def _read_search(name: str, args: Mapping[str, JsonValue]) -> ReadCommand:
    pattern = args.get("pattern")
    return ReadCommand(program=name, part=_search_label(pattern) if isinstance(pattern, str) else "")


def _read_ends(name: str, args: Mapping[str, JsonValue]) -> ReadCommand:
    head, tail = _positive(args.get("head")), _positive(args.get("tail"))
    return _span(name, 1, head) if head else _last_lines(name, tail) if tail else ReadCommand(program=name)


TOOLS: dict[str, Callable[[str, Mapping[str, JsonValue]], ReadCommand]] = {
    "Read": _read_lines,
    "NotebookRead": lambda name, _args: ReadCommand(program=name),
    "Grep": _read_search,
    "read_file": lambda name, _args: ReadCommand(program=name),
    "read_text_file": _read_ends,
}


def _positive(value: JsonValue) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**12 else 0


def _texts(value: JsonValue) -> Iterator[str | list[str]]:
    """Every text; a list of texts counts as the words of one command."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        words = [inner for inner in value if isinstance(inner, str)]
        if len(words) == len(value):
            yield words
        for inner in value:
            yield from _texts(inner)


def _parse_text(path: str, text: str | list[str]) -> ReadCommand | None:
    if isinstance(text, list):
        return _parse_words(path, text, is_piped=False) if path in text[1:] else None
    if text == path:
        return MENTIONED
    if path.translate(_QUOTES) not in text.translate(_QUOTES):  # true of most texts, and shlex is slow
        return None
    return _pick([_parse_words(path, words, is_piped=is_piped) for words, is_piped in _commands(text) if path in words])


def _commands(text: str) -> Iterator[tuple[list[str], bool]]:
    """The words of each shell command, and whether its output goes through a pipe; none behind a syntax error."""
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            if _SEPARATORS.fullmatch(word):
                yield words, word.startswith("|") and word != "||"
                words = []
            else:
                words.append(word)
    except ValueError:
        return
    yield words, False


def _parse_words(path: str, words: list[str], *, is_piped: bool) -> ReadCommand:
    """A command whose words contain the path."""
    read, goes_to_file = _without_redirects(words)
    prefixes = list(takewhile(lambda word: word in _PREFIXES or _ASSIGNMENT.match(word), read))
    program = read[len(prefixes)].rpartition("/")[2] if len(prefixes) < len(read) else ""
    arguments = read[len(prefixes) + 1 :]
    if path not in arguments or program not in PROGRAMS or goes_to_file:
        return MENTIONED
    command = PROGRAMS[program](program, [word for word in arguments if word != path])
    if not is_piped:
        return command
    return replace(command, part=f"{command.part}, {PIPED}" if command.part not in ("", ALL) else PIPED)


def _without_redirects(words: list[str]) -> tuple[list[str], bool]:
    """The words with what `<` reads and without what `>` writes; and whether the output goes to a file."""
    arguments: list[str] = []
    goes_to_file = False
    following = iter(words)
    for word in following:
        if not word or set(word) - set("<>&"):
            arguments.append(word)
        elif word != "<":
            next(following, None)
            stream = arguments.pop() if arguments and arguments[-1] in ("1", "2") else "1"
            goes_to_file = goes_to_file or (stream == "1" and word in (">", ">>", "&>", "&>>", ">|"))
    return arguments, goes_to_file


def _parse_plain(program: str, _options: list[str]) -> ReadCommand:
    return ReadCommand(program=program)


def _parse_cat(program: str, options: list[str]) -> ReadCommand:
    return ReadCommand(program=program, part=ALL if program == "cat" and not options else "")


def _parse_head(program: str, options: list[str]) -> ReadCommand:
    count = _lines_option(options)
    return _span(program, 1, int(count)) if count.isdecimal() else ReadCommand(program=program)


def _parse_tail(program: str, options: list[str]) -> ReadCommand:
    count = _lines_option(options)
    if count[:1] == "+" and count[1:].isdecimal():
        return _from_line(program, max(1, int(count[1:])))
    return _last_lines(program, int(count)) if count.isdecimal() else ReadCommand(program=program)


def _lines_option(options: list[str]) -> str:
    """The count of `-n 5`, `-n5`, `-5` or `--lines=5`; 10 without options, "" for bytes or another option."""
    text = " ".join(options)
    match = _LINES_OPTION.fullmatch(text)
    return (match[1] or match[2]) if match else "" if text else "10"


def _parse_sed(program: str, options: list[str]) -> ReadCommand:
    """`-n` with one span of lines to print; other scripts are not parsed."""
    scripts = [match for word in options if (match := _LINE_SPAN.fullmatch(word.strip()))]
    if "-n" not in options or len(scripts) != 1:
        return ReadCommand(program=program)
    first, last = int(scripts[0][1]), scripts[0][2]
    return _from_line(program, first) if last == "$" else _span(program, first, int(last or first))


def _parse_grep(program: str, options: list[str]) -> ReadCommand:
    words = [word for word in options if not word.startswith("-")]
    return ReadCommand(program=program, part=_search_label(words[0]) if len(words) == 1 else "")


PROGRAMS: dict[str, Callable[[str, list[str]], ReadCommand]] = {
    **dict.fromkeys(("cat", "bat", "less", "more", "nl", "tac"), _parse_cat),
    "head": _parse_head,
    "tail": _parse_tail,
    "sed": _parse_sed,
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "ag", "zgrep"), _parse_grep),
    **dict.fromkeys(("awk", "jq", "yq", "cut", "sort", "uniq", "wc", "strings", "tr", "column"), _parse_plain),
    **dict.fromkeys(("xxd", "hexdump", "od", "diff", "cmp", "zcat", "gunzip"), _parse_plain),
}


def _span(program: str, first: int, last: int) -> ReadCommand:
    part = f"lines {first:,}–{last:,}" if last > first else f"line {first:,}"
    return ReadCommand(program=program, part=part, lines=range(first, max(first, last) + 1))


def _from_line(program: str, first: int) -> ReadCommand:
    return ReadCommand(program=program, part=f"from line {first:,} on", lines=range(first, first + 1))


def _last_lines(program: str, count: int) -> ReadCommand:
    part = f"the last {count:,} lines" if count != 1 else "the last line"
    return ReadCommand(program=program, part=part, is_tail=True)


def _search_label(pattern: str) -> str:
    return f"searched for “{pattern if len(pattern) <= LONGEST_PATTERN else f'{pattern[:LONGEST_PATTERN]}…'}”"
