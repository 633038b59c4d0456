"""All settings. Every value has a safe default, which an environment variable overrides.

COUNTERFOIL_DATA       folder of the embedded store (database, artifacts, secret key)
DATABASE_URL           another database, e.g. postgres://…
COUNTERFOIL_ARTIFACTS  the artifact store: a folder, or s3://BUCKET/PREFIX (extra s3)
COUNTERFOIL_ARTIFACT_CACHE  folder of this machine for local copies of a bucket's content
COUNTERFOIL_ARTIFACT_LIMIT  largest file that an import stores, in bytes; default: 16 GB
COUNTERFOIL_ARTIFACT_QUOTA  bytes of files that a project may store, each content counted once; default: no limit
COUNTERFOIL_ARTIFACT_QUOTAS  the same for single projects: SLUG=BYTES,SLUG=BYTES; 0 for no limit
COUNTERFOIL_RETAIN_DAYS  the background work removes stored files that only older runs refer to; default: never
COUNTERFOIL_RETAIN_BYTES  and the oldest ones until the rest fits these bytes; default: no limit
SECRET_KEY             generated on first start and stored in the data folder, mode 0600
ALLOWED_HOSTS          comma-separated; default: this machine only
COUNTERFOIL_SEARCH_CHARACTERS  characters of each half of a call that a search looks at; default: 65536
COUNTERFOIL_UPLOAD_LIMIT  largest upload on the import page, in bytes; default: 256 MB
COUNTERFOIL_UPLOAD_QUOTA  bytes that the uploads of all people may take at once; default: four times the limit
COUNTERFOIL_LOCK_SECONDS  that a command waits for a lock that another process has in the database; default: 20
COUNTERFOIL_MASK       "off" shows secrets on pages, in downloads and logs, for those who run it alone; default: on
COUNTERFOIL_PRICES     a TOML or JSON file with prices of models, for the costs on Insights; default: none, no costs
COUNTERFOIL_INTAKE_LIMIT  largest batch of records or traces that a program sends, in bytes; default: 16 MB
COUNTERFOIL_TOKEN_RATE requests a minute that a token may send to each web process; default: 12000
COUNTERFOIL_DASK       a Dask cluster that computes the background work, tls://HOST:PORT (extra cluster); default: none
COUNTERFOIL_DEBUG      for developers only
COUNTERFOIL_TRUSTED_PROXIES  addresses or networks whose X-Forwarded-For and X-Forwarded-Proto are believed;
                       default: this machine
COUNTERFOIL_HTTPS      the dashboard is served over https: secure cookies, HSTS, redirect
COUNTERFOIL_BASE_URL   address that commands print in links; default: the newest `serve` that listens
"""

from __future__ import annotations

import ipaddress
import os
import secrets
from pathlib import Path
from typing import Any

import environ

env = environ.Env()

PACKAGE = Path(__file__).resolve().parent
# In a checkout templates/ and static/ are beside the package, in a wheel inside it.
ASSETS = PACKAGE if (PACKAGE / "templates").is_dir() else PACKAGE.parent


def _data_folder() -> Path:
    default = PACKAGE.parent / "data" if (PACKAGE.parent / "manage.py").exists() else Path.home() / ".counterfoil"
    folder = Path(env.str("COUNTERFOIL_DATA", default=str(default))).expanduser().resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _secret_key(folder: Path) -> str:
    """Two processes may start at once: the exclusive create decides whose key is used."""
    path = folder / "secret_key"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text("ascii")
    with os.fdopen(descriptor, "w") as file:
        key = secrets.token_urlsafe(64)
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return key


DATA = _data_folder()
ARTIFACTS = env.str("COUNTERFOIL_ARTIFACTS", default=str(DATA / "artifacts"))
ARTIFACT_CACHE = Path(env.str("COUNTERFOIL_ARTIFACT_CACHE", default=str(DATA / "artifact-cache")))
ARTIFACT_LIMIT_BYTES = env.int("COUNTERFOIL_ARTIFACT_LIMIT", default=16_000_000_000)
ARTIFACT_QUOTA_BYTES = env.int("COUNTERFOIL_ARTIFACT_QUOTA", default=0)
RETAIN_DAYS: int | None = env.int("COUNTERFOIL_RETAIN_DAYS", default=None)
RETAIN_BYTES: int | None = env.int("COUNTERFOIL_RETAIN_BYTES", default=None)
ARTIFACT_HASHED_BYTES = 64 * 1024 * 1024  # up to this size a page compares content with its hash: 0.1 s
MAX_LINE_BYTES = 64 * 1024 * 1024  # of a recording: of a longer line, or document, only the beginning is stored
ANSWER_SECONDS = 1.0  # that the searches, highlights, templates and replays of one answer may take together
MASK_SECONDS = 0.5  # of processor time, in which an answer is searched for secrets; what is not reached is hidden
# Pages that a process works on at a time, that wait for their turn, and how long: fewer than its threads (server.py).
ANSWERS_AT_ONCE, ANSWERS_WAITING, ANSWER_WAIT_SECONDS = 4, 8, 10.0
ARTIFACT_QUOTAS_BYTES = env.dict("COUNTERFOIL_ARTIFACT_QUOTAS", cast={"value": int}, default={})
# Characters of each half of a call that a search looks at. More than this and PostgreSQL refuses the words of one call.
SEARCH_CHARACTERS = min(env.int("COUNTERFOIL_SEARCH_CHARACTERS", default=65_536), 250_000)
PRICES = env.str("COUNTERFOIL_PRICES", default="")
DASK = env.str("COUNTERFOIL_DASK", default="")
DEBUG = env.bool("COUNTERFOIL_DEBUG", default=False)
MASK = env.bool("COUNTERFOIL_MASK", default=True)
SECRET_KEY = env.str("SECRET_KEY", default="") or _secret_key(DATA)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "csp",
    "django_htmx",
    "template_partials",
    "dashboard",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "dashboard.middleware.CompressionMiddleware",
    "csp.middleware.CSPMiddleware",
    "dashboard.middleware.HeadersMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "dashboard.middleware.BodyLimitMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "dashboard.middleware.TurnsMiddleware",
    "dashboard.middleware.StoredSessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "dashboard.accounts.ProjectMiddleware",
    "dashboard.project_rules.MaskingMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "dashboard.middleware.TimeBudgetMiddleware",
]

ROOT_URLCONF = "dashboard.urls"
WSGI_APPLICATION = "dashboard.wsgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ASSETS / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
            ],
            "loaders": [
                (
                    "template_partials.loader.Loader",
                    [("django.template.loaders.cached.Loader", ["django.template.loaders.filesystem.Loader"])],
                )
            ],
            "builtins": [
                "template_partials.templatetags.partials",
                "dashboard.templatetags.markup",
            ],
        },
    }
]

DATABASES: dict[str, dict[str, Any]] = {
    "default": env.db_url("DATABASE_URL", default=f"sqlite:///{DATA}/counterfoil.db")
}
LOCK_SECONDS = env.float("COUNTERFOIL_LOCK_SECONDS", default=20.0)  # that a statement waits for another's lock
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["ENGINE"] = "dashboard.store_sqlite3"
    # FULL, not the usual NORMAL: with NORMAL a power cut loses acknowledged rows (D-5).
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": LOCK_SECONDS,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;"
        " PRAGMA cache_size=-32000; PRAGMA mmap_size=268435456; PRAGMA temp_store=MEMORY;"
        # 16 MB: ids are spread over each index, and a page that several commits change is written to the file once.
        " PRAGMA wal_autocheckpoint=4000;",
    }
else:
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    options = DATABASES["default"].setdefault("OPTIONS", {})
    # The index of words is worth more than the planner thinks: to test a word, a row's lexemes are unpacked.
    planner = "-c random_page_cost=1.1 -c cpu_operator_cost=0.02"
    locks = f"-c lock_timeout={int(LOCK_SECONDS * 1000)}"
    options["options"] = f"{locks} {planner} {options.get('options', '')}".strip()
DATABASES["default"]["CONN_MAX_AGE"] = 600

SESSION_ENGINE = "django.contrib.sessions.backends.db"
AUTH_PASSWORD_VALIDATORS = [{"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"}]
CSRF_FAILURE_VIEW = "dashboard.views.site.csrf_failure"
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/runs/"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "/static/"
STATICFILES_DIRS = [ASSETS / "static"]
# Finders serve the files from the package, so a wheel needs no collectstatic step.
WHITENOISE_USE_FINDERS = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "dashboard.apps.VersionedFiles"},
}
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_MAX_AGE = 3600  # a file of another version has another address

TRUSTED_PROXIES = [
    ipaddress.ip_network(proxy) for proxy in env.list("COUNTERFOIL_TRUSTED_PROXIES", default=["127.0.0.1", "::1"])
]
HTTPS = env.bool("COUNTERFOIL_HTTPS", default=False)
BASE_URL = env.str("COUNTERFOIL_BASE_URL", default="").rstrip("/")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = ["^healthz$"]
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 2_621_440
# A folder of recordings is many files, each with a field for its path.
DATA_UPLOAD_MAX_NUMBER_FILES = 1_000
DATA_UPLOAD_MAX_NUMBER_FIELDS = 1_100
ROWS_PER_PAGE = 50  # of the list of runs and of the calls of a run
HITS_PER_PAGE = 20  # calls of a search in payloads, each of which takes two lines and is looked for in its texts
# Limits of what is counted, listed and read at once. They are here so that tests can make them small.
COUNTED_CALLS = 1_000  # of a filter; the number of more is not told
COUNTED_RUNS = 500  # of a filter, whose facets are counted
CHOSEN_CALLS = 1_000  # that are tagged at once
FEW_RUNS = 400  # that a term can meet: up to this many are looked up first
CANDIDATE_MESSAGES = 1_000  # with the words of a search, the last that were indexed
PAIRS_PER_PAGE, COMPARED_CALLS = 100, 5_000  # of two runs side by side
LISTED_ITEMS = 200  # quoted lines of one output
SHARED_CALLS, SHARED_CHARACTERS = 500, 20_000  # of a shared run, and of each of its texts
EXPORTED_AT_ONCE, ROW_GROUP_CALLS, ROW_GROUP_CHARACTERS = 500, 1_000, 8_000_000
INDEXED_AT_ONCE = 256  # calls
NEWEST_CALLS = 100_000  # of a larger project, whose last days its numbers begin with
FEW_CALLS = 3_000  # that contain a word: up to this many are looked up one by one
LISTED_ENTRIES = 50_000  # of the index with a word, on PostgreSQL: up to this many are read at once
TOKEN_REQUESTS_A_MINUTE = env.int("COUNTERFOIL_TOKEN_RATE", default=12_000)
# A request writes the receipts of a replay for so long, and looks at the clock after so many calls.
REPLAY_BATCH = 200
UPLOAD_LIMIT_BYTES = env.int("COUNTERFOIL_UPLOAD_LIMIT", default=256_000_000)
UPLOAD_QUOTA_BYTES = env.int("COUNTERFOIL_UPLOAD_QUOTA", default=4 * UPLOAD_LIMIT_BYTES)
# Larger bodies are refused unread. A view may name another of these limits, see `middleware.accepts_body`.
BODY_LIMIT_BYTES = 65_536
INTAKE_BODY_LIMIT_BYTES = env.int("COUNTERFOIL_INTAKE_LIMIT", default=16_000_000)  # of a batch that a program sends
INTAKE_UNPACKED_BYTES = 4 * INTAKE_BODY_LIMIT_BYTES  # of the same without its compression
TEXT_BODY_LIMIT_BYTES = 1_048_576  # forms with a whole template or envelope, of which a byte becomes three characters
FILE_UPLOAD_MAX_MEMORY_SIZE = TEXT_BODY_LIMIT_BYTES  # no form but that of uploads writes to the disk

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "dashboard.middleware.OneLineFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s %(message)s",
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
}
