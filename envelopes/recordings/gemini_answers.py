"""The answer of a tool as the Gemini CLI records it, and Qwen Code, which came from it.

`functionResponse.response` is `{output}` or `{error}`, which went to the model. `resultDisplay` is what a person saw:
an object is the runtime's own record, and a text is the output where the receipt has it too, or its beginning and its
end. Another text, or the lines of a terminal, is a view for a person. Of a failure without a record of its own, Qwen
Code's `errorType` is the record: `{errorType}`, whose message is the receipt.
"""

from __future__ import annotations

import msgspec

from envelopes.alignment.failure_sentences import ERROR_TYPE
from envelopes.alignment.gemini_receipts import match_output
from envelopes.recordings.base import ResultRecord
from envelopes.recordings.document_fields import object_member
from envelopes.recordings.documents import DocumentValue
from envelopes.text.untrusted_json import join_object

_FAILED = {"success": False, "error": True, "cancelled": True}  # by the status; others are shown as recorded


def find_response_text(response: dict[str, DocumentValue]) -> DocumentValue | None:
    """The text of a `functionResponse` that has nothing else."""
    answer = object_member(response, "response")
    texts = [answer[name] for name in ("output", "error") if name in answer and answer[name].is_text]
    return texts[0] if len(texts) == len(answer) == 1 and "parts" not in response else None


def is_error_response(response: dict[str, DocumentValue]) -> bool:
    """True for a `functionResponse` that has an error and nothing else."""
    return object_member(response, "response").keys() == {"error"}


def read_answer(
    display: DocumentValue | None,
    status: str | None,
    receipt: str,
    tool: str,
    record: ResultRecord,
    error_type: DocumentValue | None = None,
) -> ResultRecord:
    """The record of an answer with the fields that follow from its display, its status and the type of its error."""
    text = display.text() if display else None
    is_output = bool(status == "success" and text and match_output(receipt, text, tool))
    is_record = display is not None and (display.is_object or is_output)
    is_typed = error_type is not None and error_type.is_text and not is_record
    others = {"resultDisplay": None if is_record else display, ERROR_TYPE: None if is_typed else error_type}
    extra = {name: value.raw for name, value in others.items() if value}
    typed = join_object({ERROR_TYPE: error_type.raw}) if error_type and is_typed else None
    return msgspec.structs.replace(
        record,
        result=display.raw if display and is_record else typed,
        fidelity="stringified" if is_output else "structured",
        is_error=_FAILED.get(status or "", record.is_error),
        status=None if status in ("success", "error") else status,
        extra=join_object(extra) if extra else None,
    )
