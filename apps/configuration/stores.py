"""URLs of PostgreSQL, Redis and a syslog receiver from the environment, with passwords and TLS."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

# Locations of the system's CAs. libpq's own default usually does not exist on a server.
SYSTEM_CAS = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
POSTGRESQL = ("postgres", "postgresql")
REDIS = ("redis", "rediss", "unix", "redis+socket")
VERIFIED = ("verify-ca", "verify-full")
SYSLOG_PORTS = {"tls": 6514, "tcp": 601}


def syslog_receiver(name: str, url: str) -> str:
    """Return tls://HOST:PORT or tcp://HOST:PORT, with the usual port if `url` has none; "" stays ""."""
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or SYSLOG_PORTS.get(parts.scheme)
    except ValueError:
        host = port = None
    if not host or not port or url.rstrip("/") != f"{parts.scheme}://{parts.netloc}" or parts.username is not None:
        raise ImproperlyConfigured(f"{name} is {url!r}: use tls://HOST:6514 or tcp://HOST:601")
    return f"{parts.scheme}://{parts.netloc if parts.port else f'{parts.netloc}:{port}'}"


def ca_bundle(path: str, name: str = "PROVING_CA_BUNDLE") -> str:
    """Return `path` after checking that it contains certificates; "" stays "", for the system's CAs."""
    if path:
        try:
            ssl.create_default_context(cafile=path)
        except (OSError, ssl.SSLError) as error:
            raise ImproperlyConfigured(f"{name} is {path!r}, which contains no CA certificates: {error}") from error
    return path


def database(url: str, password: str, ca: str, application_name: str) -> dict[str, Any]:
    """Return an entry of Django's DATABASES. With sslmode=verify-ca or verify-full, certificates are checked against
    `ca`, or against the system's CAs."""
    _check_scheme("PROVING_DATABASE_URL", url, POSTGRESQL)
    config: dict[str, Any] = environ.Env.db_url_config(url)
    config["HOST"] = unquote(config["HOST"])  # a socket directory travels percent-encoded in a URL
    config["PASSWORD"] = _password("PROVING_DATABASE_PASSWORD", password, "PROVING_DATABASE_URL", config["PASSWORD"])
    options: dict[str, Any] = config.setdefault("OPTIONS", {})
    options.setdefault("application_name", application_name)
    if options.get("sslmode") in VERIFIED and "sslrootcert" not in options and (roots := ca or system_cas()):
        options["sslrootcert"] = roots
    return config


def system_cas() -> str:
    """Return the file with the CAs that this system trusts; "" if there is none."""
    known = (ssl.get_default_verify_paths().cafile, *SYSTEM_CAS)
    return next((path for path in known if path and Path(path).is_file()), "")


def redis_url(name: str, url: str, password: str, ca: str) -> str:
    """Return `url` with the password, and for rediss:// with the options that make kombu and redis-py check the
    certificate."""
    _check_scheme(name, url, REDIS)
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if parts.scheme == "rediss":
        query.setdefault("ssl_cert_reqs", "required")
        query.setdefault("ssl_check_hostname", "true" if query["ssl_cert_reqs"] == "required" else "false")
        if ca:
            query.setdefault("ssl_ca_certs", ca)
    netloc = parts.netloc
    if password:
        _password("PROVING_REDIS_PASSWORD", password, name, parts.password or "")
        user, _, address = netloc.rpartition("@")
        netloc = f"{user.partition(':')[0]}:{quote(password, safe='')}@{address}"
    # urlunsplit would drop the // of a URL without a host, which names a socket.
    return f"{parts.scheme}://{netloc}{parts.path}" + (f"?{urlencode(query, safe='/')}" if query else "")


def _check_scheme(name: str, url: str, known: tuple[str, ...]) -> None:
    if url.partition("://")[0] not in known:
        raise ImproperlyConfigured(f"{name} begins with none of {', '.join(f'{scheme}://' for scheme in known)}")


def _password(variable: str, password: str, url: str, inside: str) -> str:
    if password and inside:
        raise ImproperlyConfigured(f"{variable} is set and {url} contains a password: set only one of them")
    return password or inside
