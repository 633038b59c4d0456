"""The answers to calls: results, and the texts that the SDK computes from them for each request."""

from __future__ import annotations

from collections.abc import Iterator

from envelopes.alignment.openhands_receipts import CLIPPED, FAILED, TERMINAL_LIMIT, TEXT_LIMIT, name_result, shorten
from envelopes.recordings.base import ArtifactRecord, LineProblem, ReceiptRecord, Record, ResultRecord
from envelopes.recordings.document_fields import flag_member, list_member, object_member, text_member
from envelopes.recordings.documents import DocumentValue
from envelopes.recordings.openhands.event import REPEATED, ConversationEvent
from envelopes.text.untrusted_json import Untrusted, dump_json, join_array, join_object, parse_json

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
TERMINAL = ("TerminalObservation", "ExecuteBashObservation")
UNKNOWN = ("ConsultTomObservation", "SleeptimeComputeObservation")  # they send words of their own


def read_answer(event: ConversationEvent) -> Records:
    members = event.members
    own, tool = text_member(members, "tool_call_id"), text_member(members, "tool_name") or ""
    is_native = own is None or not REPEATED.fullmatch(own)
    call = own if is_native else text_member(members, "action_id", "parent_id") or event.place.before()
    if not call:
        raise Untrusted("an answer without the id of its call")
    observation = object_member(members, "observation")
    is_error = flag_member(observation, "is_error") if observation else True
    is_blocked = text_member(members, "rejection_source") == "hook"
    names: tuple[str, ...] = ("classification", "rejection_source")
    stated = {name: members[name].raw for name in names if name in members}
    yield ResultRecord(
        line=event.root.line,
        run=event.place.run,
        call=call,
        result=members["observation"].raw if observation else None,
        fidelity="structured" if observation else "absent",
        is_error=is_error,
        stated_kind="denied_by_hook" if is_blocked else None,
        at=event.at,
        extra=join_object(stated) if stated else None,
    )
    texts = _sent_texts(event, observation)
    if texts and not is_native:
        texts[0] = name_result(tool) + texts[0]
    if texts is not None:
        content = join_array(join_object({"type": b'"text"', "text": dump_json(text)}) for text in texts)
        yield ReceiptRecord(
            line=event.root.line,
            run=event.place.run,
            call=call,
            content=content,
            fidelity="reconstructed",
            at=event.at,
        )
    yield from _attachments(event, observation, call, texts or [])


def _sent_texts(event: ConversationEvent, observation: Members) -> list[str] | None:
    """The texts of an answer, one for each part; None where a tool's own code decides them."""
    if (error := event.members.get("error")) and error.is_text:
        return [shorten(_text_of(error), TEXT_LIMIT)]
    if not observation:
        reason = event.members.get("rejection_reason")
        return [shorten(f"Action rejected: {_text_of(reason) if reason else ''}", TEXT_LIMIT)]
    kind = text_member(observation, "kind") or ""
    blocks = [block.members() for block in list_member(observation, "content")]
    texts = [_text_of(block["text"]) for block in blocks if "text" in block and block["text"].is_text]
    header = [FAILED] if flag_member(observation, "is_error") else []
    if kind in UNKNOWN or not (blocks or header):
        return None
    if kind in TERMINAL:
        texts = [_terminal_text(observation, "".join(texts))]
    elif kind == "TaskObservation":
        names = {"Task ID": "task_id", "Subagent": "subagent", "Status": "status"}
        lines = [f"{title}: {text_member(observation, name) or ''}" for title, name in names.items()]
        header = ["\n".join(lines), *header]
    elif kind == "BrowserObservation":
        folder = text_member(observation, "full_output_save_dir")
        joined = "".join(texts)
        texts = [shorten(joined, TEXT_LIMIT, folder, "browser")] if joined else []
    extended = [_text_of(text) for block in list_member(event.members, "extended_content") if (text := _inner(block))]
    return [shorten(text, TEXT_LIMIT) for text in (*header, *texts, *extended)]


def _inner(block: DocumentValue) -> DocumentValue | None:
    text = block.members().get("text")
    return text if text is not None and text.is_text else None


def _text_of(value: DocumentValue) -> str:
    """The string as it is, also with what no text column stores."""
    return str(parse_json(value.raw))


def _terminal_text(observation: Members, output: str) -> str:
    metadata = object_member(observation, "metadata")
    text = "".join((text_member(metadata, "prefix") or "", output, text_member(metadata, "suffix") or ""))
    if folder := text_member(metadata, "working_dir"):
        text += f"\n[Current working directory: {folder}]"
    if interpreter := text_member(metadata, "py_interpreter_path"):
        text += f"\n[Python interpreter: {interpreter}]"
    code = metadata["exit_code"].value() if "exit_code" in metadata else -1
    if code != -1:
        text += f"\n[Command finished with exit code {code}]"
    return shorten(text, TERMINAL_LIMIT, text_member(observation, "full_output_save_dir"), "terminal")


def _attachments(event: ConversationEvent, observation: Members, call: str, texts: list[str]) -> Records:
    """The file in which a long output was saved, and images, of which it is not recorded whether they were sent."""
    for block in list_member(observation, "content"):
        for _ in list_member(block.members(), "image_urls"):
            text = "an image was read for the model, which gets it if it takes images"
            yield event.record("attachment", text, call=call, payload=block.raw)
    if screenshot := observation.get("screenshot_data"):
        text = "a screenshot was taken for the model, which gets it if it takes images"
        yield event.record("attachment", text, call=call, payload=screenshot.raw)
    for text in texts:
        if (notice := CLIPPED.search(text)) and (path := notice["path"]):
            yield ArtifactRecord(line=event.root.line, run=event.place.run, call=call, role="output", path=path)
