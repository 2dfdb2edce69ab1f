"""Settings: everything comes from the environment through ``env``; the README lists every knob."""

from __future__ import annotations

from pathlib import Path

from guardops import env, logs
from guardops.local import state

BASE_DIR = Path(__file__).resolve().parent.parent

PROFILE = env.choice("GUARDOPS_PROFILE", ["local", "test", "production"], "local")
PROCESS = env.choice("GUARDOPS_PROCESS", ["command", "web", "gate", "fold", "worker", "beat"], "command")
PRODUCTION = PROFILE == "production"

DEBUG = False
SECRET_KEY = env.text("GUARDOPS_SECRET_KEY") if PRODUCTION else state.secret_key()
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]", "testserver")
ALLOWED_HOSTS = env.words("GUARDOPS_HOSTS", () if PRODUCTION else _LOCAL_HOSTS)
CSRF_TRUSTED_ORIGINS = env.words("GUARDOPS_ORIGINS")
GATE_URL = env.text("GUARDOPS_GATE_URL", "" if PRODUCTION else state.gate_url())

# Where links in messages lead. Whatever is told in a message, an answer to it needs a session.
WEB_URL = env.web_address(
    "GUARDOPS_WEB_URL",
    next((f"https://{host}" for host in ALLOWED_HOSTS if host[0] not in ".*"), "")
    if PRODUCTION
    else state.web_url(),
)
WEBHOOK_ALLOW = env.networks("GUARDOPS_WEBHOOK_ALLOW")
# A watchdog elsewhere, called every minute; and who may read /metrics from another machine.
HEARTBEAT_URL = env.full_address("GUARDOPS_HEARTBEAT_URL")
METRICS_TOKEN = env.secret("GUARDOPS_METRICS_TOKEN", shortest=16)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django_htmx",
    "django_tables2",
    "django_filters",
    "csp",
    "pgtrigger",
    "pghistory",
    "guardops",
    "guardops.tenants",
    "policies",
    "runs",
]

MIDDLEWARE = [
    "guardops.tenants.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "guardops.viewer.ViewerZoneMiddleware",
]

ROOT_URLCONF = "guardops.urls"
WSGI_APPLICATION = "guardops.wsgi.application"

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
                "guardops.viewer.viewer",
            ],
        },
    },
]

WEB_THREADS = env.integer("GUARDOPS_WEB_THREADS", 8, low=1, high=64)
GATE_THREADS = env.integer("GUARDOPS_GATE_THREADS", 8, low=1, high=64)
GATE_WAITS = env.integer("GUARDOPS_GATE_WAITS", 10_000, low=0, high=1_000_000)
GATE_EVENTS_PER_SECOND = env.integer("GUARDOPS_KEY_EVENTS_PER_SECOND", 100_000, low=1, high=10_000_000)
DATABASE_FOLDER = env.text("GUARDOPS_DATABASE_FOLDER", "")
RETENTION_DAYS = env.integer("GUARDOPS_RETENTION_DAYS", 35, low=1, high=400)
# Only the doors keep connections: one for each thread, a few for the gate's small executor. A Celery worker
# would close the pool after each task. A database that is gone costs a request two seconds, no restart.
_POOL = {
    "min_size": 1,
    "max_size": (WEB_THREADS if PROCESS == "web" else GATE_THREADS) + 8,
    "timeout": 2,
    "max_waiting": 200,
    "reconnect_timeout": 3,
}
# A page that takes longer is of no use, and a guard sends again what a table's lock kept from an answer.
_LONGEST_STATEMENT = {"web": "5s", "gate": "15s"}
DATABASES = {
    "default": env.database(
        env.text("DATABASE_URL") if PRODUCTION else env.text("DATABASE_URL", state.database_url()),
        # An open writing transaction anywhere holds back what fold may count, so none may idle.
        settings={"idle_in_transaction_session_timeout": "30s", "TimeZone": "UTC"}
        | ({"statement_timeout": _LONGEST_STATEMENT[PROCESS]} if PROCESS in _LONGEST_STATEMENT else {}),
        pool=_POOL if PROCESS in {"web", "gate"} else None,
    )
}
BROKER_URL = env.text("BROKER_URL") if PRODUCTION else env.text("BROKER_URL", state.broker_url())

AUTH_USER_MODEL = "tenants.User"
LOGIN_URL = "tenants:login"
LOGIN_REDIRECT_URL = "runs:overview"
LOGOUT_REDIRECT_URL = "tenants:login"
PASSWORD_HASHERS = (
    ["django.contrib.auth.hashers.MD5PasswordHasher"]
    if PROFILE == "test"
    else [f"django.contrib.auth.hashers.{name}PasswordHasher" for name in ("PBKDF2", "Scrypt")]
)
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

PASSWORD_RESET_TIMEOUT = 3600  # seconds

_MAIL = env.mail_server("GUARDOPS_EMAIL_URL")
EMAIL_HOST, EMAIL_PORT = _MAIL.host, _MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _MAIL.user, _MAIL.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _MAIL.starttls, _MAIL.implicit_tls
EMAIL_TIMEOUT = 5  # seconds for each word of the server: a page may be waiting
DEFAULT_FROM_EMAIL = env.mail_address("GUARDOPS_EMAIL_FROM", "GuardOps <guardops@localhost>")

# A policy's form has 22 fields for each of its tools, 150 at most.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 4_000

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# In production `manage.py collectstatic` makes the files; elsewhere they are served from where they are.
STATIC_ROOT = BASE_DIR / "staticfiles" if PRODUCTION else None
WHITENOISE_USE_FINDERS = not PRODUCTION
_static_storage = (
    "whitenoise.storage.CompressedManifestStaticFilesStorage"
    if PRODUCTION
    else "django.contrib.staticfiles.storage.StaticFilesStorage"
)
STORAGES = {"staticfiles": {"BACKEND": _static_storage}}

LOGGING = logs.configuration(
    env.choice("GUARDOPS_LOG", ["json", "text"], "json"),
    env.choice("GUARDOPS_LOG_LEVEL", ["DEBUG", "INFO", "WARNING", "ERROR"], "INFO"),
)

# TLS ends at a proxy; its X-Forwarded-Proto counts only where GUARDOPS_BEHIND_PROXY says that there is one.
BEHIND_PROXY = env.boolean("GUARDOPS_BEHIND_PROXY", False)
if BEHIND_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = env.boolean("GUARDOPS_SSL_REDIRECT", PRODUCTION)
SECURE_REDIRECT_EXEMPT = [r"^(healthz|livez|readyz|metrics)$"]  # probes come from inside, without TLS
SECURE_HSTS_SECONDS = env.integer(
    "GUARDOPS_HSTS_SECONDS", 31_536_000 if PRODUCTION else 0, low=0, high=63_072_000
)
# Subdomains and the browsers' preload list are for the owner of the domain to decide, not for an application.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SESSION_ENGINE = "guardops.tenants.sessions"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SESSION_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"
DJANGO_TABLES2_TEMPLATE = "tables/_table.html"
# Scripts and styles come from our own files alone; nothing is written inline, so no nonce is needed.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "base-uri": ["'none'"],
        "connect-src": ["'self'"],
        "font-src": ["'self'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
        "img-src": ["'self'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
    }
}
