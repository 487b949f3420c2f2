"""Settings of the Superset that start.py runs: one user's, on this machine, without a word to anybody else."""

import os
import pathlib

from superset.utils.log import AbstractEventLogger

HOME = pathlib.Path(os.environ["STRIDE_SUPERSET_HOME"])

SECRET_KEY = (HOME / "secret").read_text()
SQLALCHEMY_DATABASE_URI = f"sqlite:///{HOME}/superset.db?check_same_thread=false"

# Results change with every run, and DuckDB answers in milliseconds: nothing is cached.
NO_CACHE = {"CACHE_TYPE": "NullCache"}
CACHE_CONFIG = DATA_CACHE_CONFIG = NO_CACHE
FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = {
    "CACHE_TYPE": "SupersetMetastoreCache",
    "CACHE_DEFAULT_TIMEOUT": 90 * 24 * 3600,
}
RATELIMIT_ENABLED = False


class NoEvents(AbstractEventLogger):
    """A log of who looked at what is half of the time that a dashboard takes, and nobody reads it here."""

    def log(self, *arguments, **details):
        pass


EVENT_LOGGER = NoEvents()
# Compressing what goes no further than this machine takes longer than sending it.
COMPRESS_REGISTER = False

# A browser fetches from this server and from nowhere else: no telemetry, no fonts, no maps.
TALISMAN_CONFIG = {
    "content_security_policy": {
        "base-uri": ["'self'"],
        "default-src": ["'self'"],
        "img-src": ["'self'", "blob:", "data:"],
        "worker-src": ["'self'", "blob:"],
        "connect-src": ["'self'"],
        "object-src": "'none'",
        "style-src": ["'self'", "'unsafe-inline'"],
        "font-src": ["'self'", "data:"],
        "script-src": ["'self'", "'strict-dynamic'"],
    },
    "content_security_policy_nonce_in": ["script-src"],
    "force_https": False,
    "session_cookie_secure": False,
}
CONTENT_SECURITY_POLICY_WARNING = False
THEME_FONT_URL_ALLOWED_DOMAINS = []

APP_NAME = "stride-pipe"
LOGO_TARGET_PATH = "/superset/dashboard/stride-pipe/"
FAB_ADD_SECURITY_API = False
ROW_LIMIT = 10000
LOG_LEVEL = "WARNING"
