"""Messages of LangChain."""

from __future__ import annotations

from envelopes.recordings.document_fields import failed_member, list_member, object_member, text_member
from envelopes.recordings.documents import DocumentValue
from envelopes.recordings.message_dumps.bodies import FAILED, Dump, read_usage


def read_langchain(dump: Dump, messages: list[DocumentValue]) -> None:
    for node in messages:
        dump.number += 1
        members = node.members()
        data = next((object_member(members, name) for name in ("data", "kwargs") if name in members), members)
        kind = text_member(data, "type") or text_member(members, "type")
        if kind is None:
            dump.problem(node, "no message: it has no type")
            continue
        if kind != "tool":
            step = dump.message(data, {"ai": "assistant", "human": "user"}.get(kind, kind), data.get("content"))
            for entry in list_member(data, "tool_calls"):
                call = entry.members()
                name, tool = text_member(call, "id"), text_member(call, "name")
                if name and tool:
                    dump.add_call(name, entry, tool, call["args"].raw if "args" in call else b"null", step=step)
                else:
                    dump.problem(entry, "a call without an id or a name")
            facts = object_member(data, "response_metadata")
            dump.model(text_member(facts, "model_name", "model"), node.line)
            if object_member(data, "usage_metadata"):
                dump.records.append(read_usage(dump, data["usage_metadata"], step))
            continue
        call_id = text_member(data, "tool_call_id")
        if not call_id:
            dump.problem(node, "an answer without the id of its call")
            continue
        artifact, failed = data.get("artifact"), failed_member(data, "status", FAILED)
        if artifact or failed is not None:
            dump.add_result(call_id, artifact, is_error=failed, line=node.line)
        if "content" in data:
            dump.add_receipt(call_id, data["content"])
