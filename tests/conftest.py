"""What every kind of test may ask for."""

from __future__ import annotations

import difflib
import gc
import os
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db.models import Model
from django.db.models.query_utils import DeferredAttribute
from django.test import Client
from django.utils.crypto import get_random_string
from hypothesis import HealthCheck
from hypothesis import settings as drawing
from pytest_django import Settings
from whitenoise.middleware import WhiteNoiseMiddleware
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from dashboard.models import Project
from tests.asked import is_marked
from tests.buckets import BUCKET, s3_service
from tests.dashboard.factories import create_project, create_user

CHECKOUT = Path(__file__).resolve().parent.parent
NUMBERS = count()
PERMANENT = re.compile("/calls/[0-9a-f-]{36}/([?#]|$)")
GOLDENS = Path(__file__).resolve().parent / "golden"
# How many examples a property test draws: `--hypothesis-profile thorough` is the long run's.
drawing.register_profile("brief", max_examples=10, deadline=None)
drawing.register_profile("thorough", max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
drawing.load_profile("brief")

# Files in which a worker is busy longest, the longest first: what is begun last decides when a run ends.
LONGEST = (
    "tests/test_postgresql.py",
    "tests/browser/test_every_page.py",
    "tests/browser/test_tasks.py",
    "tests/browser/test_journeys.py",
    "tests/browser/test_comparisons.py",
    "tests/browser/test_variant_journey.py",
    "tests/browser/test_artifact_journeys.py",
    "tests/browser/test_peek.py",
    "tests/browser/test_call_lint.py",
    "tests/browser/test_chromium.py",
    "tests/envelopes/transports/test_transports.py",
    "tests/envelopes/families/test_declared_tools.py",
    "tests/test_house.py",
    "tests/dashboard/artifacts/test_artifact_absence.py",
    "tests/test_architecture.py",
    "tests/faults/test_hostile_recordings.py",
    "tests/faults/test_odd_files.py",
    "tests/test_wheel.py",
    "tests/envelopes/families/test_tools_contract.py",
    "tests/envelopes/variants/test_shared_variants.py",
    "tests/envelopes/storage/test_time_search.py",
    "tests/faults/test_two_imports.py",
    "tests/faults/test_followed_import.py",
    "tests/dashboard/tools/test_tools_page.py",
)

# What one worker runs as if it were one file, because it costs to begin: a browser, the clients of the providers, an S3
# service, the syntax trees of all files.
TOGETHER = {
    "tests/browser/": "tests/browser",
    "tests/envelopes/transports/test_transports.py::test_nothing_but_the_transports_knows_a_provider": "source",
    "tests/envelopes/transports/": "providers",
    "tests/envelopes/families/test_declared_tools.py": "providers",
    "tests/envelopes/test_runtime_page.py": "providers",
    "tests/envelopes/recordings/test_recording_message_dumps.py": "providers",
    "tests/envelopes/recordings/test_recording_provider_tools.py": "providers",
    "tests/dashboard/api/test_mcp.py": "providers",
    "tests/test_architecture.py": "source",
    "tests/test_house_limits.py": "source",
    "tests/test_requirements.py": "source",
    "tests/dashboard/test_order.py": "source",
    "tests/dashboard/artifacts/test_artifact_absence.py": "buckets",
    "tests/dashboard/artifacts/test_artifact_backends.py": "buckets",
    "tests/dashboard/artifacts/test_artifact_quota.py": "buckets",
    "tests/dashboard/artifacts/test_artifact_retention.py": "buckets",
    "tests/dashboard/ingest/test_missing_artifacts.py": "buckets",
    "tests/faults/test_bucket_that_fails.py": "buckets",
}

# Cases of one file that each keep a worker busy for minutes.
APART = "tests/test_postgresql.py::test_the_write_path_and_the_pages_hold_on_postgresql"


class ScheduleByCost(LoadFileScheduling):
    """Gives a whole file to a worker, what stands in TOGETHER to the same one, and each case of APART to any."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(APART):
            return nodeid
        return next((group for start, group in TOGETHER.items() if nodeid.startswith(start)), nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    return ScheduleByCost(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    places = {CHECKOUT / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    if part := config.getoption("on_postgresql"):
        if part == "marked":
            _refuse_unknown_cases(items)
        runs = is_marked if part == "marked" else _asks_the_database
        config.hook.pytest_deselected(items=[item for item in items if not runs(item)])
        items[:] = [item for item in items if runs(item)]


def pytest_collection() -> None:
    """Next to nothing of what is imported and collected is garbage: a seventh of the time went to look for it."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays to the end: the collector need not walk through it even once."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)  # a page makes thousands of objects: 4 % of a run went to look for cycles


def _refuse_unknown_cases(items: list[pytest.Item]) -> None:
    named = {name for item in items for mark in item.iter_markers("postgresql") for name in mark.args}
    if unknown := named - {item.callspec.id for item in items if hasattr(item, "callspec")}:
        raise pytest.UsageError(f"No test has these cases, which a mark `postgresql` names: {sorted(unknown)}")


def _asks_the_database(item: pytest.Item) -> bool:
    asks = "db" in getattr(item, "fixturenames", ()) or item.get_closest_marker("django_db") is not None
    return asks and item.get_closest_marker("rendering") is None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens", action="store_true", help="write tests/golden anew from what the code says now"
    )
    parser.addoption("--on-postgresql", choices=["marked", "all"], help="run what another database may change")


@pytest.fixture(autouse=True)
def _nothing_is_remembered_of_another_test() -> None:
    """Each test's first project has the same key, and what a process keeps of a project is kept under it."""
    cache.clear()


@pytest.fixture(scope="session", autouse=True)
def _no_left_out_column_is_loaded_alone() -> Iterator[None]:
    """A column that `only` or `defer` left out is a query of its own for each row that reads it."""

    look = DeferredAttribute.__get__

    def look_or_refuse(attribute: DeferredAttribute, row: Model | None, model: type[Model] | None = None) -> Any:
        if row is None or row._state.adding or attribute.field.attname in row.__dict__:
            return look(attribute, row, model)
        raise AssertionError(f"{type(row).__name__}.{attribute.field.attname} was left out and is loaded alone")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeferredAttribute, "__get__", look_or_refuse)
        yield


@pytest.fixture(scope="session", autouse=True)
def _assets_are_listed_once() -> Iterator[None]:
    """Every client of a test loads the middleware anew, and that looked through all assets each time."""
    listed: dict[str, object] = {}
    look = WhiteNoiseMiddleware.add_files_from_finders

    def remember(self: WhiteNoiseMiddleware) -> None:
        if not listed:
            look(self)
            listed.update(self.files)
        self.files.update(listed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", remember)
        yield


@pytest.fixture(scope="session", autouse=True)
def _a_sign_in_writes_one_row() -> Iterator[None]:
    """`force_login` asks the database sixteen times; the tests of accounts sign in by the page, as people do."""

    def sign_in(self: Client, user: User, backend: str) -> None:
        store = SessionStore()
        said = {SESSION_KEY: str(user.pk), BACKEND_SESSION_KEY: backend, HASH_SESSION_KEY: user.get_session_auth_hash()}
        key = get_random_string(32).lower()
        Session.objects.create(session_key=key, session_data=store.encode(said), expire_date=store.get_expiry_date())
        self.cookies[settings.SESSION_COOKIE_NAME] = key

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "_login", sign_in)
        yield


@pytest.fixture(scope="session", autouse=True)
def _answers_have_time() -> Iterator[None]:
    """On a busy machine a page needs more than the second that its searches, templates and replays have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "ANSWER_SECONDS", 60.0)
        yield


@pytest.fixture
def golden(pytestconfig: pytest.Config) -> Callable[[str, str], None]:
    """`golden("CreateWorkItem/success", text)`: the whole text is that of tests/golden/CreateWorkItem/success.txt.

    The file holds the text and nothing else. `--update-goldens` writes it; the change is then read in the diff.
    """
    update = bool(pytestconfig.getoption("update_goldens"))

    def compare(name: str, text: str) -> None:
        path = GOLDENS / f"{name}.txt"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        elif not path.is_file():
            pytest.fail(f"tests/golden/{name}.txt is missing: run with --update-goldens, then read it.")
        elif (expected := path.read_bytes().decode()) != text:
            pytest.fail(f"The text is not that of tests/golden/{name}.txt:\n{_difference(expected, text)}")

    return compare


def _difference(expected: str, text: str) -> str:
    lines = difflib.unified_diff(expected.split("\n"), text.split("\n"), "golden", "now", lineterm="")
    return "\n".join(lines) if expected.split("\n") != text.split("\n") else f"{expected!r}\n{text!r}"


@pytest.fixture(scope="session")
def recordings_root() -> Path:
    """The folder of whole recordings, which the repository does not ship."""
    root = Path(os.environ.get("COUNTERFOIL_RECORDINGS") or CHECKOUT.parent / "shared" / "samples")
    if not (root / "claude-code").is_dir():
        pytest.fail(f"No recordings in {root}: set COUNTERFOIL_RECORDINGS to the folder that has claude-code/ in it.")
    return root


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """SQLite gets a file and so its write-ahead log, as in production: in memory, locks behave otherwise."""
    default = settings.DATABASES["default"]
    if default["ENGINE"].endswith("sqlite3"):
        default["TEST"]["NAME"] = str(settings.DATA / "tests.db")


@pytest.fixture(scope="session")
def django_db_keepdb(pytestconfig: pytest.Config, django_db_modify_db_settings: None) -> bool:
    """True when the tables are copied that the controller made (tests/databases.py)."""
    migrated = Path(getattr(pytestconfig, "workerinput", {}).get("migrated", ""))
    if is_copied := migrated.is_file() and settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        shutil.copyfile(migrated, settings.DATABASES["default"]["TEST"]["NAME"])
    return is_copied or bool(pytestconfig.getvalue("reuse_db"))


@pytest.fixture(scope="session")
def s3_environment() -> Iterator[dict[str, str]]:
    """An S3 service, and where it is, also in the environment of these tests."""
    with s3_service() as found, pytest.MonkeyPatch.context() as own:
        for name, value in found.items():
            own.setenv(name, value)
        yield found


@pytest.fixture
def bucket_address(s3_environment: dict[str, str]) -> str:
    """A place in the bucket where nothing is yet."""
    return f"s3://{BUCKET}/some/where-{next(NUMBERS)}"


@pytest.fixture(params=["folder", "bucket"])
def artifact_store(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> str:
    """The artifact store of the settings, of either kind and empty."""
    settings.ARTIFACT_CACHE = tmp_path / "cache"
    is_folder = request.param == "folder"
    settings.ARTIFACTS = str(tmp_path / "artifacts") if is_folder else request.getfixturevalue("bucket_address")
    return str(settings.ARTIFACTS)


class Reader(Client):
    """Follows the permanent address of a call to its step, as a browser does; nothing else is followed unasked."""

    def get(self, path: str, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        if PERMANENT.match(path):
            options.setdefault("follow", True)
        return super().get(path, *args, **options)


@pytest.fixture
def client() -> Client:
    return Reader()


@pytest.fixture
def project(db: None) -> Project:
    return create_project("ledger")


@pytest.fixture
def operator(project: Project) -> User:
    """May write in `project`, and sees no other."""
    return create_user("olga", project=project)


@pytest.fixture
def operator_client(client: Client, operator: User) -> Client:
    client.force_login(operator)
    return client
