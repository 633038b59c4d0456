"""The production server: gunicorn with threads, and its whole configuration."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import connection
from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger

from dashboard.middleware import OneLineFormatter

THREADS = 16  # more than pages take (settings.ANSWERS_AT_ONCE and ANSWERS_WAITING): the others are for all else
LOCK_SECONDS = 5.0  # that a page waits while another process writes to the embedded database


class ServerLog(Logger):  # type: ignore[misc]
    """Gunicorn's log in the form of the dashboard's: what it reports of a request may contain a secret too."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(OneLineFormatter(self.error_fmt, self.datefmt))


class Server(BaseApplication):  # type: ignore[misc]
    """`addrport` is host:port. Workers are processes; each serves THREADS requests at once."""

    def __init__(self, addrport: str, workers: int) -> None:
        self._settings = {
            "bind": addrport,
            "workers": workers,
            "worker_class": "gthread",
            "threads": THREADS,
            "timeout": 60,
            "graceful_timeout": 10,
            "limit_request_line": 8190,
            "accesslog": None,
            "errorlog": "-",
            "loglevel": "warning",
            "logger_class": ServerLog,
            "forwarded_allow_ips": ",".join(map(str, settings.TRUSTED_PROXIES)),
        }
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        if connection.vendor == "sqlite":
            options = connection.settings_dict["OPTIONS"]
            options["timeout"] = min(options["timeout"], LOCK_SECONDS)
        from dashboard.wsgi import application  # imported in each worker, after the fork

        return application
