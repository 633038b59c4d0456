"""pytest plugin: each worker begins to collect at another place of the folders.

pytest writes the assertions of 49,000 lines of tests anew and keeps what it made beside them. In a fresh clone that
takes 8 seconds of a processor, and workers that begin at the same file make the same files at the same time. Workers
that begin apart find most of them made by the others. The items are then sorted as one process lists them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

Node = pytest.Item | pytest.Collector


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[pytest.CollectReport]:
    report: pytest.CollectReport = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and isinstance(collector, pytest.Directory) and report.passed:
        number = int(worker["workerid"].removeprefix("gw"))
        report.result = rotated(report.result, number, worker["workercount"])
    return report


def rotated(nodes: list[Node], worker: int, workers: int) -> list[Node]:
    """The nodes from the worker's place on, then those before it."""
    start = len(nodes) * worker // workers
    return nodes[start:] + nodes[:start]


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path.parts)
    return (yield)
