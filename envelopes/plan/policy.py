"""The policy of a run: read from the file of an operator, and which tools it allows (CALL-035, OD-20).

    read_policy   a file -> RunPolicy; what the file leaves out is as in a standard policy
    check_tool    refuses a tool by its name, plane, risk or use of the network

It is the first policy gate, before the arguments are read. The second one, over the paths, is `envelopes.plan.sandbox`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envelopes.codecs import call as codec
from envelopes.plan.checks import RISKS
from envelopes.plan.sandbox import RefusedPath, normalise_path
from envelopes.plan.schema import MOST_MS
from envelopes.plan.shape_faults import Malformed, ShapeFault, find_shape_faults, name_unknown
from envelopes.schema.call import RunPolicy, ToolRules
from envelopes.schema.result import ToolError
from envelopes.schema.tool import RiskLevel, ToolDefinition
from envelopes.text.untrusted_json import Untrusted

_RISK_WORDS: dict[RiskLevel, str] = {"read-only": "only read", "writes": "write", "commands": "run commands"}


def read_policy(document: Any, standard: RunPolicy, tools: Mapping[str, ToolDefinition]) -> RunPolicy:
    """The policy that a file has. Its members replace those of `standard`, inside its objects one by one.

    Raises Malformed with every fault. An unknown member, tool or plane is one: it could be a misspelled restriction.

    >>> from envelopes import Limits, Sandbox, tools
    >>> standard = RunPolicy(confirmations_required=True, sandbox=Sandbox(enabled=True), limits=Limits())
    >>> policy = read_policy({"sandbox": {"denyPatterns": ["keys"]}}, standard, tools())
    >>> policy.sandbox.enabled, policy.sandbox.deny_patterns
    (True, ('keys',))
    """
    if not isinstance(document, dict):
        raise Malformed(["the policy must be an object"])
    members = codec.encode_policy(standard)
    for name, value in document.items():
        known = members.get(name)
        members[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    shapes = list(find_shape_faults(members, RunPolicy, rename=_camel_case))
    try:
        faults = [_word_fault(fault) for fault in shapes or _find_faults(codec.decode_policy(members), tools)]
    except Untrusted as error:
        faults = [error.reason]
    if faults:
        raise Malformed(faults)
    return codec.decode_policy(members)


def check_tool(tool: ToolDefinition, policy: RunPolicy) -> ToolError | None:
    """The error of a tool that the policy does not allow; None for one that it allows."""
    rules, network = policy.tool_rules, policy.network_rules
    reason = "" if rules is None else _find_refusal(tool, rules)
    if not reason and network is not None and not network.enabled and tool.capability == "web":
        reason = "allows no network"
    if not reason:
        return None
    return ToolError(
        kind="policy_denied",
        message=f"the policy of this run {reason}",
        details={"tool_name": tool.name},
        recovery_hint="do without it, or ask the operator to allow it",
        retryable=False,
    )


def _find_refusal(tool: ToolDefinition, rules: ToolRules) -> str:
    if tool.name in rules.deny:
        return f"denies {tool.name}"
    if rules.allow is not None and tool.name not in rules.allow:
        return f"allows only {', '.join(rules.allow) or 'no tool'}"
    if rules.planes is not None and not set(tool.planes) & set(rules.planes):
        return f"allows only tools of the planes {', '.join(rules.planes) or '(none)'}"
    if rules.max_risk is not None and RISKS.index(tool.risk) > RISKS.index(rules.max_risk):
        return f"allows no tools that {_RISK_WORDS[tool.risk]}"
    return ""


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def _word_fault(fault: ShapeFault) -> str:
    return f"{'/'.join(map(str, fault.path)) or 'policy'}: {fault.message}"


def _find_faults(policy: RunPolicy, tools: Mapping[str, ToolDefinition]) -> Iterator[ShapeFault]:
    rules = policy.tool_rules or ToolRules()
    planes = sorted({plane for tool in tools.values() for plane in tool.planes})
    for name, values, known in (
        ("allow", rules.allow or (), tools),
        ("deny", rules.deny, tools),
        ("planes", rules.planes or (), planes),
    ):
        for index, value in enumerate(values):
            if value not in known:
                yield ShapeFault(("toolRules", name, index), f"there is no {name_unknown(value, known)}")
    for name in ("max_timeout_ms", "max_backoff_ms", "max_run_ms"):
        if (limit := getattr(policy.limits, name)) is not None and limit > MOST_MS:
            yield ShapeFault(("limits", _camel_case(name)), f"{limit} is more than a year; leave it out for no limit")
    if policy.limits.max_timeout_ms == 0:
        yield ShapeFault(("limits", "maxTimeoutMs"), "0 leaves no call any time; the least is 1")
    for index, root in enumerate(policy.sandbox.allowed_roots or ()):
        try:
            normalise_path(root.lstrip("/"))
        except RefusedPath as refusal:
            yield ShapeFault(("sandbox", "allowedRoots", index), refusal.reason)
