"""The envelope as Holon writes it: artifacts inside the result, no nulls (E-4, E-24).

`encode` puts the artifacts beside the members that refer to them: into the first object, from the result
downwards, that has a member `…_artifact`, else into the result. Where there is an error, or a result that is not an
object, they stay at the top.

`decode` moves artifacts to the top from any number of objects, and adjusts the indexes beside them. It adds the
fields that Holon omits, and reads an unknown `deferred` as a success (E-25).

Only the envelope's own nulls are omitted. Those inside `result` and `details` are the tool's.
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
    holder = _holder_path(canonical.result)
    if _has_artifacts(canonical.result):  # the tool has a member of that name, which decode must not move
        document["artifacts"] = artifacts
    elif artifacts and holder is not None:
        document["result"] = _with_artifacts(canonical.result, artifacts, holder)
    elif artifacts:
        document["artifacts"] = artifacts
    return document


def decode(document: JsonValue) -> CanonicalResult:
    """Reads an envelope. Raises Untrusted with a path for anything else."""
    if not isinstance(document, dict):
        raise Untrusted("an envelope is an object")
    envelope = _complete(document)
    if document.get("artifacts") is None:
        artifacts: list[JsonValue] = []
        envelope["result"] = _without_artifacts(envelope.get("result"), artifacts)
        envelope["artifacts"] = artifacts
    try:
        return CanonicalResult.from_json(envelope)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `")
        raise Untrusted(reason, path.rstrip("`") or "$") from None
    except InvalidOutput as error:
        raise Untrusted(str(error)) from None


def _without_nulls(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in document.items() if value is not None}


def _holder_path(result: JsonValue) -> tuple[str, ...] | None:
    """The keys that lead to the object that gets the artifacts; None where they stay at the top."""
    if not isinstance(result, dict):
        return None
    path = _index_path(result) or ()
    holder = result
    for key in path:
        holder = holder[key]
    return None if "artifacts" in holder else path


def _index_path(value: dict[str, JsonValue]) -> tuple[str, ...] | None:
    """The keys that lead to the first object with an index of an artifact."""
    if any(_is_index(key, index) for key, index in value.items()):
        return ()
    for key, member in value.items():
        if isinstance(member, dict) and (path := _index_path(member)) is not None:
            return (key, *path)
    return None


def _with_artifacts(value: Any, artifacts: JsonValue, path: tuple[str, ...]) -> JsonValue:
    if not path:
        return {**value, "artifacts": artifacts}
    return {**value, path[0]: _with_artifacts(value[path[0]], artifacts, path[1:])}


def _complete(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Adds the fields that Holon omits, and replaces the status `deferred`."""
    envelope = dict(document)
    error = envelope.get("error")
    if isinstance(error, dict):
        envelope["error"] = {"retryable": False} | _without_nulls(error)
    if envelope.get("status") == "deferred":
        result = envelope.get("result")
        members = result if isinstance(result, dict) else {} if result is None else {"value": result}
        envelope |= {"status": "success", "result": members | {"disposition": "deferred"}}
    if not envelope.get("summary_text"):
        message = error.get("message") if isinstance(error, dict) else None
        summary = summarize(message) if isinstance(message, str) else ""
        envelope["summary_text"] = summary or f"{document.get('tool_name')} gave no summary"
    return envelope


def _has_artifacts(value: JsonValue) -> bool:
    artifacts: list[JsonValue] = []
    _without_artifacts(value, artifacts)
    return bool(artifacts)


def _without_artifacts(value: JsonValue, artifacts: list[JsonValue]) -> JsonValue:
    """Moves the artifacts inside `value` to `artifacts`. An index grows by the number that came before."""
    match value:
        case list():
            return [_without_artifacts(item, artifacts) for item in value]
        case dict():
            before = len(artifacts)
            own = _references(value.get("artifacts"))
            artifacts += own
            return {
                key: member + before if own and _is_index(key, member) else _without_artifacts(member, artifacts)
                for key, member in value.items()
                if not own or key != "artifacts"
            }
    return value


def _is_index(key: str, member: Any) -> bool:
    return key.endswith("_artifact") and isinstance(member, int) and not isinstance(member, bool)


def _references(value: JsonValue) -> list[JsonValue]:
    """The artifacts of a list `[{"path": …}]` without other members (RFC-086); empty for any other value."""
    items = value if isinstance(value, list) else []
    are_references = all(
        isinstance(item, dict) and item.keys() == {"path"} and isinstance(item["path"], str) for item in items
    )
    return items if are_references else []
