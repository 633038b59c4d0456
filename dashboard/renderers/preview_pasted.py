"""Envelopes that an operator pasted, kept under their hash so that the address of a preview holds its whole state.

Small and few: each project keeps its latest ones. They are no evidence, and nothing else refers to them.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from dashboard.models import PastedEnvelope, Project
from envelopes.schema.result import SUMMARY_CHARACTERS, CanonicalResult, InvalidOutput
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

LIMIT = 256_000  # bytes
KEPT = 100  # a project


class Refused(ValueError):
    """`path` is a JSON path into the pasted text, `line` counts from 1 where the place is known."""

    def __init__(self, reason: str, path: str = "$", line: int | None = None) -> None:
        super().__init__(reason)
        self.path = path
        self.line = line


def keep(project: Project, text: str) -> str:
    """The sha256 under which the envelope is found again. Raises Refused."""
    raw = text.strip().encode("utf-8", "surrogatepass")
    if len(raw) > LIMIT:
        raise Refused(f"{len(raw):,} bytes were pasted; at most {LIMIT:,} are taken")
    data = dump_json(parsed(raw).to_json())
    sha256 = hashlib.sha256(data).hexdigest()
    PastedEnvelope.objects.get_or_create(project=project, sha256=sha256, defaults={"data": data})
    stale = PastedEnvelope.objects.filter(project=project).order_by("-id").values_list("pk", flat=True)[KEPT:]
    PastedEnvelope.objects.filter(pk__in=list(stale)).delete()
    return sha256


def kept(project: Project, sha256: str) -> bytes | None:
    found = PastedEnvelope.objects.filter(project=project, sha256=sha256).first()
    return None if found is None else bytes(found.data)


def parsed(raw: bytes) -> CanonicalResult:
    """Raises Refused with the path of what is wrong."""
    try:
        document = parse_json(raw)
        canonical = CanonicalResult.from_json(document)
    except Untrusted as error:
        raise Refused(error.reason, error.path, _line(raw, error.reason)) from None
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at ")
        raise Refused(reason, path.strip("`") or "$") from None
    except InvalidOutput as error:
        raise Refused(str(error)) from None
    for key in document if isinstance(document, dict) else ():
        if key not in CanonicalResult.__struct_fields__:
            raise Refused("an envelope has no such member (RFC-021)", f"$.{key}")
    if not canonical.summary_text:
        raise Refused("the summary is empty (RFC-027)", "$.summary_text")
    if len(canonical.summary_text) > SUMMARY_CHARACTERS:
        raise Refused(f"the summary is longer than {SUMMARY_CHARACTERS} characters (RFC-029)", "$.summary_text")
    return canonical


def _line(raw: bytes, reason: str) -> int | None:
    """Of the place that the reason names, in characters or bytes of the text."""
    found = re.search(r"at (character|byte) (\d+)", reason)
    if found is None:
        return None
    before = raw[: int(found[2])] if found[1] == "byte" else raw.decode("utf-8", "replace")[: int(found[2])].encode()
    return before.count(b"\n") + 1
