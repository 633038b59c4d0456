"""RFC 6901 pointers into JSON values, and the texts in them."""

from __future__ import annotations

from collections.abc import Iterator

from envelopes.schema.result import JsonValue


def join(base: str, key: str | int) -> str:
    """The pointer of a member or an item below `base`."""
    if isinstance(key, str) and ("~" in key or "/" in key):
        key = key.replace("~", "~0").replace("/", "~1")
    return f"{base}/{key}"


def split(pointer: str) -> list[str]:
    if pointer == "":
        return []
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")]


def resolve(document: JsonValue, pointer: str) -> JsonValue:
    """The value at `pointer`. Raises KeyError when nothing is there."""
    value = document
    for token in split(pointer):
        try:
            value = value[int(token)] if isinstance(value, list) else value[token]  # type: ignore[index]
        except (IndexError, KeyError, TypeError, ValueError):
            raise KeyError(pointer) from None
    return value


def text_at(document: JsonValue, pointer: str) -> str | None:
    """The string at `pointer`, or None when there is none."""
    try:
        value = resolve(document, pointer)
    except KeyError:
        return None
    return value if isinstance(value, str) else None


def is_within(pointer: str, ancestor: str) -> bool:
    return pointer == ancestor or pointer.startswith(ancestor + "/")


def iterate_scalars(value: JsonValue, pointer: str = "") -> Iterator[tuple[str, JsonValue]]:
    """The pointer and the value of everything that is neither an object nor a list, in the order of the document."""
    match value:
        case dict():
            for key, child in value.items():
                yield from iterate_scalars(child, join(pointer, key))
        case list():
            for index, child in enumerate(value):
                yield from iterate_scalars(child, join(pointer, index))
        case _:
            yield pointer, value


def iterate_strings(value: JsonValue) -> Iterator[str]:
    """Every string value, in the order of the document; the names of members are not among them."""
    return (text for _, text in iterate_named_strings(value))


def iterate_named_strings(value: JsonValue, name: str = "") -> Iterator[tuple[str, str]]:
    """The same, each behind the name of the nearest member that it is in; without one, behind `name`."""
    match value:
        case str():
            yield name, value
        case dict():
            for key, child in value.items():
                yield from iterate_named_strings(child, key)
        case list():
            for child in value:
                yield from iterate_named_strings(child, name)
