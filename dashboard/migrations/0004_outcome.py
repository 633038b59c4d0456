"""The outcome of a call in one word, and how many calls of a run were refused."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.db import migrations, models

OUTCOMES = ("succeeded", "failed", "refused", "cancelled", "timed_out", "skipped", "interrupted", "unanswered")


def index_text_again(apps: Any, editor: Any) -> None:
    """SQLite has written `dashboard_run` anew, which drops the triggers of the text index."""
    if editor.connection.vendor == "sqlite":
        import_module("dashboard.migrations.0001_store").index_text(apps, editor)


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0003_problem_loss")]

    operations = [
        migrations.AddField(
            "call",
            "outcome",
            models.CharField(
                choices=[(outcome, outcome.replace("_", " ").title()) for outcome in OUTCOMES],
                default="unanswered",
                max_length=12,
            ),
        ),
        migrations.AddField("run", "refused_count", models.IntegerField(default=0)),
        migrations.RunPython(index_text_again, migrations.RunPython.noop),
    ]
