"""The production server: gunicorn with threads, and its whole configuration."""

from __future__ import annotations

from typing import Any

from gunicorn.app.base import BaseApplication

THREADS = 8


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
            "forwarded_allow_ips": "127.0.0.1",
        }
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        from dashboard.wsgi import application  # imported in each worker, after the fork

        return application
