"""Django settings, from environment variables only. docs/operations/production.md describes each variable."""

import os
import sys
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF, UNSAFE_INLINE
from django.core.exceptions import ImproperlyConfigured

from apps import process
from apps.accounts.identity import mapping
from apps.configuration import otlp, stores
from apps.configuration.environment import Environment
from apps.configuration.version import read_commit, read_version
from apps.infrastructure import references
from apps.middleware.proxies import networks

# NumPy's linear algebra otherwise starts a thread for each CPU, and each waits for work in a busy loop. The matrices
# here are small, and PostgreSQL needs the CPUs. NumPy reads the variable when it loads, which is after the settings.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

BASE_DIR = Path(__file__).resolve().parent.parent
env = Environment()

VERSION: str = read_version(BASE_DIR)
COMMIT: str = read_commit(BASE_DIR, env.str("PROVING_COMMIT", default=""))
DEBUG: bool = env.bool("PROVING_DEBUG", default=False)
SECRET_KEY: str = env.secret("PROVING_SECRET_KEY")
if len(SECRET_KEY) < 50 or len(set(SECRET_KEY)) < 10:
    raise ImproperlyConfigured(
        "PROVING_SECRET_KEY is too weak: use at least 50 random characters, for example from: python3 -c 'import "
        "secrets; print(secrets.token_urlsafe(50))'"
    )
ALLOWED_HOSTS: list[str] = env.list("PROVING_ALLOWED_HOSTS", default=["localhost", "127.0.0.1"])
BASE_URL: str = env.str("PROVING_BASE_URL", default="http://127.0.0.1:8000").rstrip("/")
STATE_DIR = Path(env.str("PROVING_STATE_DIR", default=str(BASE_DIR / "var")))

# Fernet keys for SSH private keys at rest: the first encrypts, all decrypt.
SSH_KEYS: list[str] = env.keys("PROVING_SSH_KEYS")
# Files and variables that SSH keys, and secrets of remote servers, may be read from. See docs/operations/security.md.
SECRET_SOURCES = references.sources(
    "PROVING_SECRET_SOURCES", env.list("PROVING_SECRET_SOURCES", default=[]), os.environ
)
# Directory of pg_dump, pg_restore and psql of the server's version, for backup and restore; "" uses PATH.
PG_BIN_DIR: str = env.str("PROVING_PG_BIN_DIR", default="")
# Networks of hosts and jump hosts. Link-local and metadata addresses are always refused.
ADDRESS_ALLOW: list[str] = env.list("PROVING_ADDRESS_ALLOW", default=["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"])

# An idle host is checked after this time without contact. If a check fails, its queue stops.
HEALTH_EVERY_MIN: float = env.float("PROVING_HEALTH_EVERY_MIN", default=5.0)
HEALTH_FREE_MIB: int = env.int("PROVING_HEALTH_FREE_MIB", default=1024)
HEALTH_CLOCK_S: float = env.float("PROVING_HEALTH_CLOCK_S", default=2.0)
HEALTH_CELSIUS: float = env.float("PROVING_HEALTH_CELSIUS", default=95.0)

# RETAIN_DAYS after its end, a run keeps one sample per RETAIN_STEP_S of each series; 0 days keeps all samples.
RETAIN_DAYS: int = env.int("PROVING_RETAIN_DAYS", default=0)
RETAIN_STEP_S: float = env.float("PROVING_RETAIN_STEP_S", default=10.0)
if RETAIN_DAYS < 0 or RETAIN_STEP_S <= 0:
    raise ImproperlyConfigured("PROVING_RETAIN_DAYS is at least 0, and PROVING_RETAIN_STEP_S above 0")
# Months whose last day is RETAIN_DETAILS_DAYS ago lose the event logs and the series of their runs; 0 days keeps all.
RETAIN_DETAILS_DAYS: int = env.int("PROVING_RETAIN_DETAILS_DAYS", default=0)
if RETAIN_DETAILS_DAYS < 0:
    raise ImproperlyConfigured("PROVING_RETAIN_DETAILS_DAYS is at least 0")
# Networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted.
TRUSTED_PROXIES = networks("PROVING_TRUSTED_PROXIES", env.list("PROVING_TRUSTED_PROXIES", default=[]))
# Prometheus sends this as a bearer token. Without it, /metrics answers only this machine.
METRICS_TOKEN: str = env.secret("PROVING_METRICS_TOKEN", default="")

# Collector of traces (OTLP over HTTP); without one, nothing is traced. TRACED_SHARE of web requests, and all runs.
OTLP_ENDPOINT: str = otlp.traces_url("PROVING_OTLP_ENDPOINT", env.str("PROVING_OTLP_ENDPOINT", default=""))
OTLP_HEADERS = otlp.headers("PROVING_OTLP_HEADERS", env.secret("PROVING_OTLP_HEADERS", default=""))
TRACED_SHARE: float = otlp.share("PROVING_TRACED_SHARE", env.float("PROVING_TRACED_SHARE", default=1.0))
# Seconds between two batches of metrics, which beat sends to the same collector; 0 sends none.
OTLP_METRICS_EVERY_S: int = otlp.interval(
    "PROVING_OTLP_METRICS_EVERY_S", env.int("PROVING_OTLP_METRICS_EVERY_S", default=0), OTLP_ENDPOINT
)
OTLP_METRICS_URL: str = otlp.metrics_url("PROVING_OTLP_ENDPOINT", OTLP_ENDPOINT) if OTLP_METRICS_EVERY_S else ""

# Sign-in with an OpenID Connect provider, enabled by an issuer. See docs/operations/identity.md.
OIDC_ISSUER: str = env.str("PROVING_OIDC_ISSUER", default="").removesuffix("/.well-known/openid-configuration")
OIDC_NAME: str = env.str("PROVING_OIDC_NAME", default="single sign-on")
OIDC_CLIENT_ID: str = env.str("PROVING_OIDC_CLIENT_ID", default="")
OIDC_CLIENT_SECRET: str = env.secret("PROVING_OIDC_CLIENT_SECRET", default="")
OIDC_SCOPES: str = env.str("PROVING_OIDC_SCOPES", default="openid profile email")
OIDC_USERNAME_CLAIM: str = env.str("PROVING_OIDC_USERNAME_CLAIM", default="preferred_username")
OIDC_GROUPS_CLAIM: str = env.str("PROVING_OIDC_GROUPS_CLAIM", default="groups")
OIDC_ROLES = mapping.instance_roles("PROVING_OIDC_ROLES", env.str("PROVING_OIDC_ROLES", default=""))
OIDC_TEAMS = mapping.team_roles("PROVING_OIDC_TEAMS", env.str("PROVING_OIDC_TEAMS", default=""))
OIDC_LINK_BY_EMAIL: bool = env.bool("PROVING_OIDC_LINK_BY_EMAIL", default=False)
# How long access lasts after the provider has revoked it: sessions with a refresh token, without one, API tokens.
OIDC_RECHECK_MIN: int = env.int("PROVING_OIDC_RECHECK_MIN", default=15)
OIDC_SESSION_MIN: int = env.int("PROVING_OIDC_SESSION_MIN", default=480)
OIDC_TOKEN_DAYS: int = env.int("PROVING_OIDC_TOKEN_DAYS", default=7)
OIDC_CA_BUNDLE: str = stores.ca_bundle(env.str("PROVING_OIDC_CA_BUNDLE", default=""), "PROVING_OIDC_CA_BUNDLE")
# The only user who may still sign in with a password; "" allows all users without an account at the provider.
BREAK_GLASS_ADMIN: str = env.str("PROVING_BREAK_GLASS_ADMIN", default="")
mapping.check_provider(
    OIDC_ISSUER,
    OIDC_CLIENT_ID,
    OIDC_SCOPES,
    BREAK_GLASS_ADMIN,
    {
        "PROVING_OIDC_RECHECK_MIN": OIDC_RECHECK_MIN,
        "PROVING_OIDC_SESSION_MIN": OIDC_SESSION_MIN,
        "PROVING_OIDC_TOKEN_DAYS": OIDC_TOKEN_DAYS,
    },
)

# CI platforms whose jobs may exchange their ID tokens for API tokens. See docs/operations/identity.md.
CI_ISSUERS = mapping.issuers("PROVING_CI_ISSUERS", env.list("PROVING_CI_ISSUERS", default=[]))

# Roles, in the instance or in a team, that require a second factor. See docs/operations/identity.md.
SECOND_FACTOR_ROLES = mapping.roles("PROVING_SECOND_FACTOR_ROLES", env.list("PROVING_SECOND_FACTOR_ROLES", default=[]))

# Authors may not accept their own decisions.
DECISIONS_BY_TWO: bool = env.bool("PROVING_DECISIONS_BY_TWO", default=False)

# API requests per minute; 0 is no limit.
API_PER_TOKEN_MIN: int = env.int("PROVING_API_PER_TOKEN_MIN", default=1200)
API_PER_USER_MIN: int = env.int("PROVING_API_PER_USER_MIN", default=2400)

INSTALLED_APPS = [
    "apps.accounts",
    "apps.hosts",
    "apps.tuning",
    "apps.campaigns",
    "apps.results",
    "apps.searches",
    "apps.decisions",
    "apps.operation",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "axes",
    "csp",
]

LATENCIES = "apps.monitoring.latencies.LatencyMiddleware"
MIDDLEWARE = [
    "apps.middleware.proxies.ClientAddress",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    LATENCIES,
    "apps.middleware.admission.Admission",
    "apps.middleware.turns.Turns",
    "apps.middleware.detached_bodies.DetachedBody",
    "apps.middleware.limits.RequestSize",
    "apps.middleware.limits.NoNul",
    "apps.middleware.limits.NoStore",
    "apps.middleware.limits.Overloaded",
    "apps.middleware.clients.ClientVersion",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "apps.web.walled.WalledMiddleware",
    "apps.accounts.identity.recheck.Recheck",
    "apps.accounts.second_factor.policy.Enforcement",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "apps.web.rates.RatesMiddleware",
    "apps.web.etags.ETagMiddleware",
    "apps.web.idempotency.IdempotencyMiddleware",
]

if OTLP_ENDPOINT:
    INSTALLED_APPS.append("apps.tracing")
    MIDDLEWARE.insert(MIDDLEWARE.index(LATENCIES), "apps.monitoring.request_spans.RequestSpan")

ROOT_URLCONF = "apps.urls"
WSGI_APPLICATION = "apps.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "apps.page_context.version",
                "apps.page_context.navigation",
            ],
            "libraries": {"states": "apps.state_signs"},
        },
    }
]

# Fields and their options are most of the templates of a form. Jinja renders them in half the time.
FORM_RENDERER = "django.forms.renderers.Jinja2"

# CAs for the certificates of PostgreSQL, Redis and the OTLP collector; "" uses those of the system.
CA_BUNDLE: str = stores.ca_bundle(env.str("PROVING_CA_BUNDLE", default=""))
OTLP_CA_BUNDLE: str = CA_BUNDLE or stores.system_cas()
DATABASES: dict[str, dict[str, Any]] = {
    "default": stores.database(
        env.secret_url("PROVING_DATABASE_URL"),
        env.secret("PROVING_DATABASE_PASSWORD", default=""),
        CA_BUNDLE,
        process.application_name(SSH_KEYS[0]),
    )
}
# The role of web, worker, dispatcher and beat, whose rights `migrate` grants; "" if they use the owner's, or if
# `manage.py runtime_role` is used instead.
RUNTIME_ROLE: str = env.str("PROVING_RUNTIME_ROLE", default="")
RUNTIME_PASSWORD_FILE: str = env.str("PROVING_RUNTIME_PASSWORD_FILE", default="")
DATABASES["default"]["CONN_MAX_AGE"] = 60
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
# Pages do not wait indefinitely for a lock; see apps/middleware/limits.py.
if process.kind(sys.argv) == "web":
    DATABASES["default"]["OPTIONS"].setdefault("options", "-c lock_timeout=10s")
# Size of a connection pool for threads that mostly wait for hosts; 0 gives each thread its own connection.
DATABASE_POOL: int = env.int("PROVING_DATABASE_POOL", default=0)
if DATABASE_POOL:
    DATABASES["default"]["CONN_MAX_AGE"] = 0
    pool = {"min_size": 1, "max_size": DATABASE_POOL, "timeout": 10}
    DATABASES["default"].setdefault("OPTIONS", {})["pool"] = pool
# Number of live pages that a process streams to, each from a thread without a database connection. Others poll.
LIVE_STREAMS: int = env.int("PROVING_LIVE_STREAMS", default=200)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_PASSWORD: str = env.secret("PROVING_REDIS_PASSWORD", default="")
CACHES = {
    "default": {
        "BACKEND": "apps.web.json_cache.JsonCache",
        "LOCATION": stores.redis_url(
            "PROVING_CACHE_URL", env.secret_url("PROVING_CACHE_URL"), REDIS_PASSWORD, CA_BUNDLE
        ),
        # Version 1 had pickled values.
        "VERSION": 2,
    }
}

# Syslog receiver of the audit log.
AUDIT_SYSLOG: str = stores.syslog_receiver("PROVING_AUDIT_SYSLOG", env.str("PROVING_AUDIT_SYSLOG", default=""))

# Mail server; without one, notifications go to webhooks only.
EMAIL_HOST: str = ""
if mail_url := env.secret_url("PROVING_EMAIL_URL", default=""):
    vars().update(env.email_url_config(mail_url))
EMAIL_TIMEOUT = 10
EMAIL_SUBJECT_PREFIX = "[Proving Ground] "
DEFAULT_FROM_EMAIL = env.str("PROVING_EMAIL_FROM", default="proving-ground@localhost")

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
SESSION_ENGINE = "apps.accounts.sessions"
PASSWORD_RESET_TIMEOUT = 3 * 86400
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_CALLABLE = "apps.accounts.views.locked"
AXES_CLIENT_IP_CALLABLE = "apps.accounts.attempts.counted_address"

SECURE_COOKIES: bool = BASE_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_COOKIES
CSRF_TRUSTED_ORIGINS = [BASE_URL]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE_COOKIES else None
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        # Plotly adds style elements.
        "style-src": [SELF, UNSAFE_INLINE],
        "img-src": [SELF, "data:", "blob:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "form-action": [SELF],
    }
}

# Size limit of a request without files.
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024**2
# For imports of folders; Django's own limit is 100 files.
DATA_UPLOAD_MAX_NUMBER_FILES = 1000

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = env.str("PROVING_STATIC_ROOT", default=str(STATE_DIR / "staticfiles"))
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "apps.results.pages.assets.PlotlyFinder",
]
# collectstatic compresses files and adds hashes to their names. Without it, files are served from the finders.
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "apps.configuration.static_storage.StaticStorage"},
}
WHITENOISE_USE_FINDERS = not (Path(STATIC_ROOT) / "staticfiles.json").exists()
WHITENOISE_KEEP_ONLY_HASHED_FILES = True

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.web.rest.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["apps.web.rest.RolePermission"],
    "DEFAULT_THROTTLE_CLASSES": ["apps.web.rates.RequestRates"],
    "DEFAULT_PAGINATION_CLASS": "apps.web.rest.Pages",
    "DEFAULT_FILTER_BACKENDS": [
        "django_filters.rest_framework.DjangoFilterBackend",
        "rest_framework.filters.OrderingFilter",
    ],
    # JSON only: the browsable API needs inline scripts, which the policy above refuses.
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["apps.web.rest.KeptJSONParser"],
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "apps.web.problems.ProblemSchema",
    "EXCEPTION_HANDLER": "apps.web.problems.problem",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Proving Ground",
    "DESCRIPTION": "PostgreSQL benchmark campaigns on your own hosts.",
    "VERSION": VERSION,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "ENUM_NAME_OVERRIDES": {
        "StepRole": "agents.wire.protocol.ROLES",
        "UserRole": "apps.accounts.models.Role",
        "HostState": "apps.hosts.models.Host.State",
        "HostKeyState": "apps.hosts.models.HostKey.State",
        "OutcomeEnum": "apps.campaigns.models.Run.Outcome",
        "SlotOutcome": "apps.campaigns.models.Slot.Outcome",
        "ScheduleState": "apps.campaigns.models.Schedule.State",
        "CampaignState": "apps.campaigns.models.Campaign.State",
        "CampaignKind": "apps.campaigns.models.Campaign.Kind",
        "DataCopyState": "apps.campaigns.models.DataCopy.State",
        "DataSetReset": "agents.datasets.RESETS",
        "ChannelKind": "apps.accounts.models.channels.channel_kinds",
        "DeliveryState": "apps.accounts.models.Delivery.State",
        "CampaignOrder": "apps.campaigns.models.Campaign.Order",
        "RunState": "apps.campaigns.models.Run.State",
        "RunPartRole": "apps.campaigns.models.RunPart.Role",
        "SearchState": "apps.searches.models.Search.State",
        "SearchRoundState": "apps.searches.models.Round.State",
        "TrialState": "apps.searches.models.Trial.State",
    },
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

# Celery only wakes workers; PostgreSQL decides what is due. Tasks are short, and have no results.
CELERY_BROKER_URL = stores.redis_url(
    "PROVING_BROKER_URL", env.secret_url("PROVING_BROKER_URL"), REDIS_PASSWORD, CA_BUNDLE
)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_ROUTES = {"campaigns.tick": {"queue": "runs"}}
CELERY_WORKER_CONCURRENCY = env.int("PROVING_RUNS_AT_ONCE", default=256)
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_SOFT_TIME_LIMIT = 50
CELERY_TASK_TIME_LIMIT = 60
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 120,
    "unacked_restore_interval": 2,
    "unacked_restore_throttle": 1,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# All periodic work. `manage.py tick` does the same once, in this order.
CELERY_BEAT_SCHEDULE = {
    "what to forget": {"task": "accounts.forget", "schedule": 3600.0, "options": {"expires": 3600}},
    "series to thin": {"task": "results.thin_due", "schedule": 3600.0, "options": {"expires": 3600}},
    "months to add": {"task": "campaigns.add_months", "schedule": 3600.0, "options": {"expires": 3600}},
    "details to drop": {"task": "decisions.drop_details_due", "schedule": 3600.0, "options": {"expires": 3600}},
    "checks of hosts": {"task": "hosts.enqueue_checks", "schedule": 10.0, "options": {"expires": 10}},
    "schedules to fire": {"task": "campaigns.fire_due", "schedule": 10.0, "options": {"expires": 10}},
    "due runs": {"task": "campaigns.enqueue_due", "schedule": 2.0, "options": {"expires": 2}},
    "samples to fold": {"task": "results.fold_due", "schedule": 30.0, "options": {"expires": 30}},
    "results to read": {"task": "results.ingest_due", "schedule": 5.0, "options": {"expires": 5}},
    "searches to advance": {"task": "searches.advance_due", "schedule": 5.0, "options": {"expires": 5}},
    "schedules to compare": {"task": "results.compare_scheduled", "schedule": 30.0, "options": {"expires": 30}},
    "decisions to review": {"task": "decisions.review_due", "schedule": 30.0, "options": {"expires": 30}},
    "audit log to seal and send": {"task": "accounts.secure_audit_log", "schedule": 30.0, "options": {"expires": 30}},
    "notifications to send": {"task": "accounts.deliver_due", "schedule": 10.0, "options": {"expires": 10}},
}

LOG_FORMAT: str = env.str("PROVING_LOG_FORMAT", default="line")
if LOG_FORMAT not in ("line", "json"):
    raise ImproperlyConfigured(f"PROVING_LOG_FORMAT is {LOG_FORMAT!r}: use line or json")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name} {message}", "style": "{"},
        "json": {"()": "apps.logs.JsonFormatter"},
    },
    "filters": {"secrets": {"()": "apps.logs.WithoutSecrets"}, "names": {"()": "apps.logs.UnknownName"}},
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT, "filters": ["secrets", "names"]},
    },
    "loggers": {"asyncssh": {"level": "WARNING"}, "axes": {"level": "WARNING"}},
    "root": {"handlers": ["console"], "level": env.str("PROVING_LOG_LEVEL", default="INFO")},
}
