"""How a later call read an artifact, as its arguments say: with which program, and which part.

Certain readings only. The path stands whole in the arguments, as a value or as a word of a command that
the shell's rules take apart; whoever merely carries it (`cp`, a prompt, a list of files) names it and
opens nothing. A pattern that would match it, a variable and a loop say nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from envelopes.schema.result import JsonValue
from envelopes.text.untrusted_json import Untrusted, parse_json

SHORT = 60  # characters of what was searched for
_QUOTES = str.maketrans("", "", "\\'\" \t")
_SEPARATORS = re.compile(r"[();&|\n]+|\|&")
_LINE_SPAN = re.compile(r"(\d{1,12})(?:,(\d{1,12}|\$))?p;?(?:\d{1,12}q)?")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_CARRIERS = frozenset({"sudo", "time", "nohup", "command", "exec", "env", "nice"})


@dataclass(frozen=True, kw_only=True)
class Opening:
    """`program` is empty where the path is only named. `lines` count from 1; empty where none are said."""

    program: str = ""
    part: str = ""
    lines: range = range(0)
    is_tail: bool = False


NAMED = Opening()
ALL, PIPED = "all of it", "through a pipe"


def opening_of(path: str, tool: str, args: bytes) -> Opening | None:
    """None where the arguments do not name that very path."""
    try:
        given = parse_json(args)
    except Untrusted:
        return None
    direct = _of_tool(path, tool, given)
    if direct is not None:
        return direct
    found = [one for words in _texts(given) if (one := _of_text(path, words)) is not None]
    return next((one for one in found if one.program), found[0] if found else None)


def _of_tool(path: str, tool: str, given: JsonValue) -> Opening | None:
    name = re.split(r"__|\.", tool)[-1]
    reader = TOOLS.get(name)
    if reader is None or not isinstance(given, dict):
        return None
    if path not in (given.get("file_path"), given.get("path"), given.get("notebook_path")):
        return None
    return reader(name, given)


def _numbered(name: str, given: Mapping[str, JsonValue]) -> Opening:
    """`offset` is the first line, `limit` how many."""
    first, count = _count(given.get("offset")), _count(given.get("limit"))
    if not first and not count:
        return Opening(program=name)
    if not count:
        return Opening(program=name, part=f"from line {first:,} on", lines=range(first, first + 1))
    return _span(name, max(first, 1), max(first, 1) + count - 1)


def _searched(name: str, given: Mapping[str, JsonValue]) -> Opening:
    pattern = given.get("pattern")
    return Opening(program=name, part=_search_said(pattern) if isinstance(pattern, str) else "")


def _ends(name: str, given: Mapping[str, JsonValue]) -> Opening:
    first, last = _count(given.get("head")), _count(given.get("tail"))
    return _span(name, 1, first) if first else _last(name, last) if last else Opening(program=name)


TOOLS: dict[str, Callable[[str, Mapping[str, JsonValue]], Opening]] = {
    "Read": _numbered,
    "NotebookRead": lambda name, _given: Opening(program=name),
    "Grep": _searched,
    "read_file": lambda name, _given: Opening(program=name),
    "read_text_file": _ends,
}


def _count(value: JsonValue) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**12 else 0


def _texts(value: JsonValue) -> Iterator[str | list[str]]:
    """Every text; a list of texts is the words of one command."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        words = [one for one in value if isinstance(one, str)]
        if len(words) == len(value):
            yield words
        for inner in value:
            yield from _texts(inner)


def _of_text(path: str, text: str | list[str]) -> Opening | None:
    if isinstance(text, list):
        return _of_words(path, text, is_piped=False) if path in text[1:] else None
    if text == path:
        return NAMED
    if path.translate(_QUOTES) not in text.translate(_QUOTES):  # most texts, and a shell's words cost time
        return None
    found = [_of_words(path, words, is_piped=piped) for words, piped in _commands(text) if path in words]
    return next((one for one in found if one.program), found[0] if found else None)


def _commands(text: str) -> Iterator[tuple[list[str], bool]]:
    """The words of each command, and whether its output goes through a pipe; none of what does not come apart."""
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


def _of_words(path: str, words: list[str], *, is_piped: bool) -> Opening:
    """`words` hold the path."""
    read, goes_elsewhere = _without_redirects(words)
    begin = list(takewhile(lambda word: word in _CARRIERS or _ASSIGNED.match(word), read))
    program = read[len(begin)].rpartition("/")[2] if len(begin) < len(read) else ""
    rest = read[len(begin) + 1 :]
    if path not in rest or program not in PROGRAMS or goes_elsewhere:
        return NAMED
    found = PROGRAMS[program](program, [word for word in rest if word != path])
    if not is_piped:
        return found
    part = f"{found.part}, {PIPED}" if found.part not in ("", ALL) else PIPED
    return Opening(program=program, part=part, lines=found.lines, is_tail=found.is_tail)


def _without_redirects(words: list[str]) -> tuple[list[str], bool]:
    """What is read from behind a `<` is an argument, where output goes to is none. Whether it goes to a file."""
    kept: list[str] = []
    goes_elsewhere = False
    following = iter(words)
    for word in following:
        if not word or set(word) - set("<>&"):
            kept.append(word)
        elif word != "<":
            next(following, None)
            stream = kept.pop() if kept and kept[-1] in ("1", "2") else "1"
            goes_elsewhere = goes_elsewhere or (stream == "1" and word in (">", ">>", "&>", "&>>", ">|"))
    return kept, goes_elsewhere


def _whole(program: str, options: list[str]) -> Opening:
    return Opening(program=program, part=ALL if program == "cat" and not options else "")


def _plain(program: str, _options: list[str]) -> Opening:
    return Opening(program=program)


def _head(program: str, options: list[str]) -> Opening:
    count = _lines_option(options)
    return _span(program, 1, int(count)) if count.isdecimal() else Opening(program=program)


def _tail(program: str, options: list[str]) -> Opening:
    count = _lines_option(options)
    if count[:1] == "+" and count[1:].isdecimal():
        first = max(1, int(count[1:]))
        return Opening(program=program, part=f"from line {first:,} on", lines=range(first, first + 1))
    return _last(program, int(count)) if count.isdecimal() else Opening(program=program)


def _sed(program: str, options: list[str]) -> Opening:
    """`-n` with one span of lines to print; what else a script does is not read."""
    scripts = [found for word in options if (found := _LINE_SPAN.fullmatch(word.strip()))]
    if "-n" not in options or len(scripts) != 1:
        return Opening(program=program)
    first, last = int(scripts[0][1]), scripts[0][2]
    if last == "$":
        return Opening(program=program, part=f"from line {first:,} on", lines=range(first, first + 1))
    return _span(program, first, int(last or first))


def _grep(program: str, options: list[str]) -> Opening:
    words = [word for word in options if not word.startswith("-")]
    return Opening(program=program, part=_search_said(words[0]) if len(words) == 1 else "")


def _lines_option(options: list[str]) -> str:
    """Of `-n 5`, `-n5`, `-5`, `--lines=5`; ten without any, nothing where bytes or something else is asked for."""
    said = " ".join(options)
    found = re.fullmatch(r"(?:-n ?|--lines[= ]|-)(\+?\d{1,12})|(\+\d{1,12})", said)
    return (found[1] or found[2]) if found else "" if said else "10"


def _span(program: str, first: int, last: int) -> Opening:
    said = f"lines {first:,}–{last:,}" if last > first else f"line {first:,}"
    return Opening(program=program, part=said, lines=range(first, max(first, last) + 1))


def _last(program: str, count: int) -> Opening:
    return Opening(program=program, part=f"the last {count:,} lines" if count != 1 else "the last line", is_tail=True)


def _search_said(pattern: str) -> str:
    return f"searched for “{pattern if len(pattern) <= SHORT else f'{pattern[:SHORT]}…'}”"


PROGRAMS: dict[str, Callable[[str, list[str]], Opening]] = {
    **dict.fromkeys(("cat", "bat", "less", "more", "nl", "tac"), _whole),
    "head": _head,
    "tail": _tail,
    "sed": _sed,
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "ag", "zgrep"), _grep),
    **dict.fromkeys(("awk", "jq", "yq", "cut", "sort", "uniq", "wc", "strings", "tr", "column"), _plain),
    **dict.fromkeys(("xxd", "hexdump", "od", "diff", "cmp", "zcat", "gunzip"), _plain),
}
