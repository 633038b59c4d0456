"""The envelope as Holon writes it: artifacts inside the result, no nulls (spec/model.md E-4, E-24).

`encode` puts the artifacts beside the members that point at them: into the first object, from the result
downwards, that has a member `…_artifact`, else into the result. An error, and a result that is no object,
have no place for them: there they stay at the top.

`decode` lifts artifacts from wherever they stand, in any number of objects, and moves the indexes that
stand beside them. It fills in what Holon leaves out, and reads an unknown `deferred` as a success (E-25).

Only the envelope's own nulls are left out. Those inside `result` and `details` are the tool's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from envelopes.schema.result import CanonicalResult, InvalidOutput, JsonValue, summarize
from envelopes.text.untrusted_json import Untrusted


def encode(canonical: CanonicalResult) -> dict[str, JsonValue]:
    document = _without_nulls(canonical.to_json())
    if isinstance(error := document.get("error"), dict):
        document["error"] = _without_nulls(error)
    artifacts = document.pop("artifacts", [])
    place = _place(canonical.result)
    if _has_artifacts(canonical.result):  # the tool's own member of that name: decode must not lift it
        document["artifacts"] = artifacts
    elif artifacts and place is not None:
        document["result"] = _nested(canonical.result, artifacts, place)
    elif artifacts:
        document["artifacts"] = artifacts
    return document


def decode(document: JsonValue) -> CanonicalResult:
    """Raises Untrusted for what is no envelope, with a path."""
    if not isinstance(document, dict):
        raise Untrusted("an envelope is an object")
    whole = _filled(document)
    if document.get("artifacts") is None:
        lifted: list[JsonValue] = []
        whole["result"] = _lifted(whole.get("result"), lifted)
        whole["artifacts"] = lifted
    try:
        return CanonicalResult.from_json(whole)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `")
        raise Untrusted(reason, path.rstrip("`") or "$") from None
    except InvalidOutput as error:
        raise Untrusted(str(error)) from None


def _without_nulls(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in document.items() if value is not None}


def _place(result: JsonValue) -> tuple[str, ...] | None:
    """The keys that lead to the object that gets the artifacts; None where they stay at the top."""
    if not isinstance(result, dict):
        return None
    path = _pointing(result) or ()
    holder = result
    for key in path:
        holder = holder[key]
    return None if "artifacts" in holder else path


def _pointing(value: dict[str, JsonValue]) -> tuple[str, ...] | None:
    if any(_is_index(key, index) for key, index in value.items()):
        return ()
    for key, member in value.items():
        if isinstance(member, dict) and (found := _pointing(member)) is not None:
            return (key, *found)
    return None


def _nested(value: Any, artifacts: JsonValue, path: tuple[str, ...]) -> JsonValue:
    if not path:
        return {**value, "artifacts": artifacts}
    return {**value, path[0]: _nested(value[path[0]], artifacts, path[1:])}


def _filled(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    whole = dict(document)
    if isinstance(error := whole.get("error"), dict):
        whole["error"] = {"retryable": False} | _without_nulls(error)
    if whole.get("status") == "deferred":
        result = whole.get("result")
        said = result if isinstance(result, dict) else {} if result is None else {"value": result}
        whole |= {"status": "success", "result": said | {"disposition": "deferred"}}
    if not whole.get("summary_text"):
        whole["summary_text"] = _summary(whole)
    return whole


def _summary(document: dict[str, JsonValue]) -> str:
    error = document.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    said = summarize(message) if isinstance(message, str) else ""
    return said or f"{document.get('tool_name')} gave no summary"


def _has_artifacts(value: JsonValue) -> bool:
    found: list[JsonValue] = []
    _lifted(value, found)
    return bool(found)


def _lifted(value: JsonValue, artifacts: list[JsonValue]) -> JsonValue:
    """`value` without its artifacts, which are appended; an index moves by as many as there were before."""
    match value:
        case list():
            return [_lifted(item, artifacts) for item in value]
        case dict():
            before = len(artifacts)
            own = _references(value.get("artifacts"))
            artifacts += own
            return {
                key: member + before if own and _is_index(key, member) else _lifted(member, artifacts)
                for key, member in value.items()
                if not own or key != "artifacts"
            }
    return value


def _is_index(key: str, member: Any) -> bool:
    return key.endswith("_artifact") and isinstance(member, int) and not isinstance(member, bool)


def _references(value: JsonValue) -> list[JsonValue]:
    """`[{"path": …}]` and nothing more (RFC-086), else nothing."""
    found = value if isinstance(value, list) else []
    return found if all(map(_is_reference, found)) else []


def _is_reference(item: JsonValue) -> bool:
    return isinstance(item, dict) and item.keys() == {"path"} and isinstance(item["path"], str)
