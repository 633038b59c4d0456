"""How the commands print a one-time sign-in link."""

from __future__ import annotations

import json
from typing import Any, TextIO

from django.contrib.auth.models import User
from django.core.management.base import CommandParser, OutputWrapper

from dashboard.accounts.sign_in import new_link

BASE_URL = "http://127.0.0.1:8000"


def add_link_arguments(parser: CommandParser) -> None:
    parser.add_argument("--base-url", default=BASE_URL, help=f"where the dashboard is served, {BASE_URL} unless given")
    parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout, nothing else")


def show_link(out: OutputWrapper | TextIO, user: User, facts: dict[str, Any], *, base_url: str, as_json: bool) -> None:
    """Makes a new link and prints it; `facts` go into the JSON document beside it."""
    path, expires_at = new_link(user)
    link = base_url.rstrip("/") + path
    if as_json:
        out.write(json.dumps(facts | {"link": link, "expires_at": expires_at.isoformat()}) + "\n")
        return
    out.write(f"One-time sign-in link, until {expires_at:%Y-%m-%d %H:%M} UTC:\n{link}\n")
