"""A Sphinx extension: checks the form of links out of the site without fetching them, and forbids content from other
servers."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
HOST = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}", re.IGNORECASE)


def complaint(address: str) -> str:
    """What is wrong with a link that leaves the site; empty for nothing."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme != "https":
        return f"{parts.scheme or 'no scheme'} is not followed: https alone is"
    if not HOST.fullmatch(host) or port is not None or "@" in parts.netloc:
        return f"{parts.netloc!r} is not the name of a host"
    return "it has a blank or a quote in it" if re.search(r"[\s\"<>`]", address) else ""


def check(app: Sphinx, page: nodes.document, name: str) -> None:
    """Warns, which fails the build."""
    for link in page.findall(nodes.reference):
        address = link.get("refuri", "")
        if address and not link.get("internal") and complaint(address):
            LOGGER.warning("link to %s: %s", address, complaint(address), location=link, type="site")
    for image in page.findall(nodes.image):
        if "://" in image["uri"]:
            LOGGER.warning("image from elsewhere: %s", image["uri"], location=image, type="site")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-resolved", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
