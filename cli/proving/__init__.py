"""The command line of Proving Ground. It only uses the REST API of the server."""

from __future__ import annotations

from proving import bundle

bundle.enable()
