"""A project in which every address of the dashboard has a page, with content that is slow where it can be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.urls import get_resolver

from dashboard.models import AccessToken, FollowedPath, Note, Project, SavedView
from dashboard.tokens import create_token
from dashboard.variants.variant_list import save_version
from envelopes.families.registry import family
from tests.dashboard.factories import create_problem, create_user
from tests.dashboard.measured_comparisons import compared, import_commands, recalled
from tests.dashboard.stored_artifacts import stored

SLOW = "{% for i in (1..150000) %}{% endfor %}{{ summary_text }}"
LINES = 400


@dataclass(frozen=True)
class BudgetStore:
    """`arguments` are the values of the parts of an address, by the name of the address and of the part."""

    arguments: dict[str, dict[str, Any]]
    artifacts: dict[str, str]  # ids by what is in them
    token: str  # for what programs read

    def address(self, name: str) -> str:
        return address_of(name, self.arguments.get(name.partition("-")[0], {}) | self.arguments.get(name, {}))


def url_names() -> list[str]:
    return sorted(pattern.name for pattern in get_resolver().url_patterns)


def address_of(name: str, arguments: dict[str, Any]) -> str:
    from django.urls import reverse

    pattern = next(pattern for pattern in get_resolver().url_patterns if pattern.name == name)
    return reverse(name, kwargs={part: arguments[part] for part in pattern.pattern.converters})


def build_store(project: Project, folder: Path) -> BudgetStore:
    texts = ["short\n", "a" * 60_000 + "b\n", "word " * 12_000, *(f"line {n}\n" * 50 for n in range(17))]
    calls = import_commands(project, folder, texts)
    user = create_user("olga", project=project)
    command = family("command")
    for name in ("slow", "slower"):
        save_version(project, command, user, name=name, title="", source=SLOW, characters="4000")
    comparison, _ = compared(project, ["recorded", "receipt", "markdown"])
    contents = {
        "lines": ("a" * 150 + "\n").encode() * LINES,
        "line": b"aB" * 500_000,
        "words": "\n".join(" ".join("ab"[(n * k) % 2] for k in range(700)) for n in range(700)).encode(),
        "other words": "\n".join(" ".join("ba"[(n + k) % 2] for k in range(700)) for n in range(700)).encode(),
        "json": json.dumps({"a": ["[" * 10, {"b": 1}] * 60_000, "c": "x" * 100_000}).encode(),
        "nested": b'{"a":' * 90_000 + b"1" + b"}" * 90_000,
        "bytes": bytes(range(256)) * 2_000,
        "table": b'a,"b",c\n' * 60_000,
        "accents": ("é" * 400_000 + "\n").encode(),
        "stamps": b"".join(b"2026-01-01 00:%02d:%02d started\n" % (n // 60 % 60, n % 60) for n in range(30_000)),
    }
    artifacts = {name: str(stored(calls[0], content).pk) for name, content in contents.items()}
    arguments = {
        "run": {"pk": calls[0].run_id, "other": calls[0].run_id},
        "old": {"rest": "command/"},
        "run-step": {"position": 2, "tab": "halves"},
        "step-reveal": {"pk": calls[0].run_id, "position": 2, "tab": "halves"},
        "view": {
            "pk": SavedView.objects.create(project=project, created_by=user, name="mine", query="status:failed").pk
        },
        "call": {"pk": calls[1].pk, "half": "receipt", "surface": "receipt"},
        "note": {"pk": Note.objects.create(project=project, call=calls[1], created_by=user, text="x").pk},
        "artifact": {"pk": artifacts["lines"]},
        "renderer": {"name": "command"},
        "template": {"name": "command", "template": "slow"},
        "comparison": {"pk": comparison.pk, "call": calls[1].pk, "ordinal": 1, "what": "numbers"},
        "recall": {"pk": recalled(project, calls[1]).pk, "call": calls[1].pk},
        "tool": {"name": "WebFetch"},
        "problem": {"pk": create_problem(project).pk},
        "docs": {"name": "renderers"},
        "sign": {"token": "x"},
        "audit": {"form": "csv"},
        "api": {"sha256": "0" * 64, "pk": calls[1].pk, "name": "receipt", "position": 2},
        "api-run": {"pk": calls[1].run_id},
        "api-context": {"pk": calls[1].run_id, "position": 2},
        "api-artifact-text": {"pk": artifacts["lines"]},
        "mask": {"name": "password"},
        "token": {"pk": AccessToken.objects.create(project=project, name="mine", scope="read", key="k").pk},
    }
    arguments["followed"] = {"pk": FollowedPath.objects.create(project=project, path="/nowhere/sessions").pk}
    arguments["review"] = arguments["view"]
    return BudgetStore(arguments, artifacts, create_token(project, "reader", "read", by="olga"))
