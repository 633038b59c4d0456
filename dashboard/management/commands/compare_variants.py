"""`compare_variants`: prints the numbers of a comparison, as its page shows them."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django_rich.management import RichCommand
from rich.table import Table

from dashboard.accounts import DEFAULT_PROJECT
from dashboard.experiments.export import export_json, export_summary
from dashboard.experiments.measure_calls import MEASURES
from dashboard.experiments.stored_comparison import CannotCompare, Selection, start_comparison
from dashboard.experiments.tables import FEW_CALLS
from dashboard.management.console import find_project, terminal_text
from dashboard.models import Comparison
from dashboard.variants.variant_list import UnusableColumns
from dashboard.worker import work_until_idle


class Command(RichCommand):
    help = (
        "Renders recorded calls with several variants and compares the results; the first variant is the baseline. "
        "The comparison stays on the Experiments page unless --forget is given."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--family", default="", help="one family's calls; all families unless given")
        parser.add_argument(
            "--variants", required=True, metavar="A,B", help="variants; `recorded` is the recorded receipt"
        )
        parser.add_argument("--query", default="", help="a filter over calls, as in the lists")
        parser.add_argument("--sample", type=int, help="use only this number of calls, chosen at random")
        parser.add_argument("--seed", type=int, default=0, help="random seed of the sample and the intervals")
        parser.add_argument("--budget", type=int, help="tokens of a rendered receipt, of four characters each")
        parser.add_argument("--project", default=DEFAULT_PROJECT, metavar="SLUG", help="%(default)s unless given")
        parser.add_argument("--name", default="", help="its title on the Experiments page")
        parser.add_argument("--forget", action="store_true", help="delete the comparison afterwards")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *_args: Any, **options: Any) -> None:
        comparison = _start(options)
        work_until_idle(comparison)
        comparison.refresh_from_db()
        try:
            if not comparison.is_finished:
                raise CommandError(terminal_text(comparison.problem or f"The comparison was {comparison.state}."))
            if options["as_json"]:
                self._print_json(comparison)
            else:
                self._print_table(comparison)
        finally:
            if options["forget"]:
                comparison.delete()

    def _print_json(self, comparison: Comparison) -> None:
        for piece in export_json(comparison):
            self.stdout.write(piece, ending="")
        self.stdout.write()

    def _print_table(self, comparison: Comparison) -> None:
        facts = export_summary(comparison)
        table = Table(
            title=terminal_text(f"{comparison.name}: {facts['call_count']:,} call{'s' * (facts['call_count'] != 1)}"),
            title_justify="left",
        )
        table.add_column("")
        for name in facts["totals"]:
            table.add_column(name, justify="right")
        for measure in ("calls", *MEASURES):
            table.add_row(measure, *(f"{total[measure]:,}" for total in facts["totals"].values()))
        for measure in MEASURES:
            table.add_row(f"Δ {measure}", *(_delta(total["deltas"].get(measure)) for total in facts["totals"].values()))
        self.console.print(table)
        reasons = (
            (facts["unanswered_calls"], "without an answer"),
            (facts["unread_calls"], "of a family that is not installed"),
            (facts["deleted_calls"], "deleted meanwhile"),
        )
        if left_out := ", ".join(f"{count:,} {reason}" for count, reason in reasons if count):
            self.console.print(f"Left out: {left_out}.")
        if facts["call_count"] < FEW_CALLS:
            self.console.print(
                f"Fewer than {FEW_CALLS} calls are too few to show a difference, whatever the interval is."
            )


def _start(options: dict[str, Any]) -> Comparison:
    selection = Selection(
        query=options["query"], family=options["family"], sample=options["sample"], seed=options["seed"]
    )
    names = [name.strip() for name in options["variants"].split(",") if name.strip()]
    project = find_project(options["project"])
    try:
        return start_comparison(project, selection, names, name=options["name"], budget=options["budget"])
    except (CannotCompare, UnusableColumns) as error:
        raise CommandError(terminal_text(f"Project {project.slug}: {error}")) from None


def _delta(delta: dict[str, Any] | None) -> str:
    if delta is None:
        return ""
    interval = delta["interval"]
    return f"{delta['delta']:+,}" + (f" ({interval[0]:+,.0f} to {interval[1]:+,.0f})" if interval else "")
