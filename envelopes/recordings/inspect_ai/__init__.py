"""Logs of Inspect AI: `.eval` archives and `.json` documents, both of version 2.

1. A document is `{version, status, eval, plan, results, stats, samples[]}`. An archive has `header.json` and one file
   `samples/<id>_epoch_<n>.json` a sample; its members are compressed with deflate, or with zstd in current releases.
2. Each sample is a run: `messages[]` are the conversation, `events[]` (before 2025 `transcript.events[]`) what
   happened.
3. A call is an entry of `tool_calls` of an assistant message. Its `ToolEvent` has the result, or an error with a type.
   Inspect records one surface: the result is the text that the model gets, after it was cut (`truncated`).
4. A message with the role `tool` has the receipt. On an error its content is empty and the provider sends the message
   of the error: that is found in a later request of a model (exact), else it stands for the receipt (reconstructed).
5. `attachment://<hash>` stands for a long text, which is in `attachments`.
"""

from __future__ import annotations

import msgspec

from envelopes.recordings.base import Format
from envelopes.recordings.inspect_ai import archive, log
from envelopes.recordings.places import name_position

DOCUMENT = Format(
    name="inspect",
    version=4,
    title="Inspect log",
    agent="inspect-ai",
    namespace="inspect-ai",
    mark="a document with version, status and eval",
    is_document=True,
    sniff=log.sniff,
    read=log.read,
    is_global_call_id=log.is_global_call_id,
    name_place=name_position,
)
FORMATS: tuple[Format, ...] = (
    DOCUMENT,
    msgspec.structs.replace(
        DOCUMENT,
        name="inspect-eval",
        title="Inspect log (.eval archive)",
        mark="an archive with a journal or a header of an evaluation",
        is_archive=True,
        sniff=archive.sniff,
        read=archive.read,
    ),
)
