"""Passwords in tracking URIs: kept in memory, of the driver and its MLflow process, in no file, message or tag.

A tracking server takes user and password from `MLFLOW_TRACKING_USERNAME` and `MLFLOW_TRACKING_PASSWORD`, which MLflow
itself reads. A database has them in its URI; a continued run, whose `run.yaml` has none, finds them in
`MLFLOW_TRACKING_URI` if that is the same database, or the database's own library does, as PostgreSQL's in `PGPASSWORD`.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from urllib.parse import SplitResult, unquote, urlsplit

_DATABASES = ("postgresql", "mysql", "mssql")
_OPTIONS = re.compile(r"[^:/?]*:\d*(/[^?]*)?\?[\w%]+=")  # a host with its port, and what may have an `@`
_VARIABLE = "MLFLOW_TRACKING_URI"
LOGIN = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")  # MLflow sends them to every server
_KEYS = ("password", "passwd", "pwd", "sslpassword", "token", "access_token")  # of a query
_uris_with_secrets: dict[str, str] = {}  # URI without secrets to the URI as it was given, of this process
_secrets: set[str] = set()  # the passwords themselves, as they may stand in a message
_logged_in: dict[str, tuple[str, str | None]] = {}  # variable to its value from here, and to that before
_logging_in = threading.Lock()


def without_secrets(uri: str) -> str:
    """Return a tracking URI without password. A server's URI loses its user, too: a user may be a token."""
    try:
        parts = _split(uri)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:  # no URI
        return uri.partition("://")[0]
    user = "" if parts.scheme in ("http", "https") else parts.netloc.rpartition("@")[0].partition(":")[0]
    netloc = f"{user}@{host}" if user else host
    query = "&".join(part for part in parts.query.split("&") if not _is_secret(part))
    if (netloc, query) == (parts.netloc, parts.query):
        return uri
    return f"{parts.scheme}://{netloc}{parts.path}" + (f"?{query}" if query else "")


def _split(uri: str) -> SplitResult:
    """Split a URI; in that of a database, all before the first `@` is user and password, as SQLAlchemy reads it."""
    scheme, _, rest = uri.partition("://")
    login, at, place = rest.partition("@")
    is_login = at and ":" in login.partition("?")[0] and not _OPTIONS.match(login)
    if not is_login or scheme.partition("+")[0] not in _DATABASES:
        return urlsplit(uri)
    parts = urlsplit(f"{scheme}://{'-' * len(login)}@{place}")  # a password may have `/`, `?`, `#` and brackets
    return parts._replace(netloc=login + parts.netloc[len(login) :])


def names_a_place(uri: str) -> bool:
    """Whether a URI can be taken apart, and that of a server names a host, perhaps a port and a path, and no more."""
    try:  # a raw `#`, `?` or `/` in a password ends the host, and what is before it would be known as no secret
        parts = _split(uri)
        host = parts.netloc.rpartition("@")[2]
        if not parts.scheme.startswith("http"):
            return True
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets of no IPv6 address, or a port that is no number
        return False
    return is_server and not re.search(r"[?#@\s]", host + uri.partition("://")[2].removeprefix(parts.netloc))


def has_at_in_password(uri: str) -> bool:
    """Whether the password of a database has an `@`, at which SQLAlchemy would end it."""
    parts = _split(uri)
    return parts.scheme.partition("+")[0] in _DATABASES and parts.netloc.partition(":")[2].count("@") > 1


def _is_secret(part: str) -> bool:
    return unquote(part.partition("=")[0]).lower() in _KEYS


def keep_secrets(uri: str) -> str:
    """Keep the secrets of a tracking URI in this process, and say so on stderr; returns the URI without them."""
    clean = without_secrets(uri)
    if clean == uri:
        return uri
    remember(uri, clean)
    source = " and ".join(LOGIN) if clean.startswith("http") else _VARIABLE
    print(
        f"tausearch: the password in --tracking-uri is not stored; resume and sync take it from {source}",
        file=sys.stderr,
    )
    return clean


def with_secrets(uri: str) -> str:
    """Return the URI that opens a tracking store, from the stored URI without secrets."""
    given = os.environ.get(_VARIABLE, "")
    if uri not in _uris_with_secrets and without_secrets(given) == uri != given:
        remember(given, uri)
    full_uri = _uris_with_secrets.get(uri, uri)
    if not uri.startswith("http"):
        return full_uri
    user, _, password = urlsplit(full_uri).netloc.rpartition("@")[0].partition(":")
    _log_in((unquote(user), unquote(password)) if full_uri != uri else ())
    return uri  # MLflow writes the URI of a request into its errors


def _log_in(login: tuple[str, ...]) -> None:
    """Set user and password of a server; before, take back those of another one, which this one must not get."""
    with _logging_in:
        if login and login == tuple(map(os.environ.get, LOGIN)):
            return
        for name, (ours, before) in _logged_in.items():
            if os.environ.get(name) == ours:
                os.environ.pop(name)
                os.environ.update({} if before is None else {name: before})
        _logged_in.clear()
        for name, value in zip(LOGIN, login, strict=False):
            _logged_in[name] = value, os.environ.get(name)
            os.environ[name] = value


def hide_secrets(text: str) -> str:
    """Return a message without the passwords that this process knows."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def remember(uri: str, clean: str) -> None:
    """Let this process know the URI that opens a tracking store, and the same without secrets."""
    if uri == clean:
        return
    _uris_with_secrets[clean] = uri
    parts = _split(uri)
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    found = [password or user, *(part.partition("=")[2] for part in parts.query.split("&") if _is_secret(part))]
    _secrets.update(form for secret in found if secret for form in (secret, unquote(secret)))
