"""pytest plugin, loaded by `-p` before the settings are: the tests get a store of their own.

Nothing of the developer's own installation may leak in, so every setting that the environment can give
is taken away first. `DATABASE_URL` alone is kept: it chooses the server on which the test database is made.

To make the tables takes a worker 2.5 seconds. The controller makes them while its workers collect, and they copy them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.workermanage import WorkerController

KEPT = {"COUNTERFOIL_RECORDINGS", "COUNTERFOIL_KILLS"}
SETTINGS = {"SECRET_KEY", "ALLOWED_HOSTS"}


def _forget_the_developers_settings() -> None:
    for name in list(os.environ):
        if name in SETTINGS or (name.startswith("COUNTERFOIL_") and name not in KEPT):
            del os.environ[name]


def _make_a_store() -> None:
    folder = tempfile.mkdtemp(prefix="counterfoil-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["COUNTERFOIL_DATA"] = folder
    os.environ["SECRET_KEY"] = "only-for-tests-and-as-long-as-django-wants-a-key-to-be-9f2c7d41b8"
    # Playwright's sync API keeps an event loop on the main thread, where Django then refuses its ORM.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


def _keep_what_is_compiled() -> None:
    """A run starts some sixty Pythons; where no bytecode may be kept, each compiles the whole project again."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def _clean_up_when_terminated() -> None:
    """A run that is told to end stops its database server and its browser, as it does on Ctrl-C."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    node.workerinput["migrated"] = str(_migrated())


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart(session: pytest.Session) -> Iterator[None]:
    yield
    if getattr(session.config.option, "tx", None) and "DATABASE_URL" not in os.environ:
        _make_the_tables(session.config)


def _make_the_tables(config: pytest.Config) -> None:
    # Imported here: Django has its settings only by now.
    from django.core.management import call_command
    from django.db import connection
    from pytest_django.plugin import blocking_manager_key

    with config.stash[blocking_manager_key].unblock():
        call_command("migrate", verbosity=0)
        connection.close()
    Path(connection.settings_dict["NAME"]).rename(_migrated())


def _migrated() -> Path:
    return Path(os.environ["COUNTERFOIL_DATA"]) / "migrated.db"


_forget_the_developers_settings()
_make_a_store()
_keep_what_is_compiled()
_clean_up_when_terminated()
