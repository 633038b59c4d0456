"""Reads a family's `examples.json`: complete outputs for galleries, previews and contract tests.

    {"parts":   {name: any JSON},            what several examples share
     "samples": [example, …],                outputs as foreign agents record them
     "gallery": {"<tool>/<sort>": example}}  outputs of the built-in tools: success, error, large, empty, odd

An example has `summary_text` and `result`, under the name of its struct, or `error`, whose message is the summary
unless there is another; a sample also has `tool_name`:

    {"summary_text": "command exited with status 0", "result": {"CommandResult": {"exit_status": 0}}}

Three objects stand for other JSON, so that long or similar outputs stay short:

    {"$use": "item", "state": "open"}           the part `item`; the other members replace members of it
    {"$join": ["head\\n", …]}                    texts, lists or objects, one after the other
    {"$repeat": "line {n:04}\\n", "n": [1, 40]}  the same of one that is repeated for each number from 1 to 40

`{n}` becomes the number; `{n:04}` pads it with zeros, `{n:4}` with blanks, and `{n%3}` is the remainder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from envelopes.schema.result import CompleteOutput, ToolError, summarize

_NUMBER = re.compile(r"\{(?P<name>[a-z]+)(?:%(?P<divisor>\d+))?(?::(?P<format>\d+))?\}")


class Examples(msgspec.Struct, frozen=True):
    samples: tuple[CompleteOutput, ...] = ()
    gallery: dict[str, CompleteOutput] = {}


def load_examples(path: Path, results: Iterable[type[msgspec.Struct]]) -> Examples:
    """The examples of one family; `results` are its result structs.

    Raises msgspec.ValidationError for an example that does not fit its struct, KeyError for an unknown struct or part.
    """
    document = json.loads(path.read_text("utf-8"))
    expander = _Expander(document.get("parts", {}))
    structs = {struct.__name__: struct for struct in results}
    return Examples(
        samples=tuple(_decode(expander.expand(example), structs) for example in document.get("samples", ())),
        gallery={
            name: _decode({"tool_name": name.partition("/")[0], **expander.expand(example)}, structs)
            for name, example in document.get("gallery", {}).items()
        },
    )


def _decode(example: dict[str, Any], structs: Mapping[str, type[msgspec.Struct]]) -> CompleteOutput:
    tool_name = example["tool_name"]
    if "error" in example:
        error = msgspec.convert(example["error"], ToolError)
        text = example.get("summary_text") or summarize(error.message)
        return CompleteOutput(tool_name=tool_name, status="error", summary_text=text, error=error)
    ((struct, members),) = example["result"].items()
    result = msgspec.convert(members, structs[struct])
    return CompleteOutput(tool_name=tool_name, status="success", summary_text=example["summary_text"], result=result)


class _Expander:
    def __init__(self, parts: dict[str, Any]) -> None:
        self._parts = parts
        self._expanded: dict[str, Any] = {}

    def expand(self, value: Any, numbers: Mapping[str, int] | None = None) -> Any:
        """`value` without the three notations; `numbers` are those of the repetitions around it."""
        match value:
            case str():
                return _NUMBER.sub(lambda match: _format(match, numbers), value) if numbers else value
            case list():
                return [self.expand(item, numbers) for item in value]
            case {"$use": name, **members}:
                return self._part(name) | self.expand(members, numbers) if members else self._part(name)
            case {"$join": values}:
                return _joined([self.expand(item, numbers) for item in values])
            case {"$repeat": item, **ranges}:
                return _joined([self.expand(item, {**(numbers or {}), **own}) for own in _counts(ranges)])
            case dict():
                return {self.expand(name, numbers): self.expand(member, numbers) for name, member in value.items()}
        return value

    def _part(self, name: str) -> Any:
        """Expanded once: a list of a hundred large items shares them until they are decoded."""
        if name not in self._expanded:
            self._expanded[name] = self.expand(self._parts[name])
        return self._expanded[name]


def _counts(ranges: Mapping[Any, Any]) -> Iterator[dict[str, int]]:
    ((name, (first, last)),) = ranges.items()
    for number in range(first, last + 1):
        yield {name: number}


def _format(match: re.Match[str], numbers: Mapping[str, int]) -> str:
    if match["name"] not in numbers:
        return match[0]
    number = numbers[match["name"]]
    return format(number % int(match["divisor"]) if match["divisor"] else number, match["format"] or "")


def _joined(values: Sequence[Any]) -> Any:
    match values[0]:
        case str():
            return "".join(values)
        case list():
            return list(chain.from_iterable(values))
    return dict(chain.from_iterable(value.items() for value in values))
