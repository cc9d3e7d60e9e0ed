"""Static files under names with their hash, compressed: a browser keeps them for a year."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """As `collectstatic` left them; files have plain names where it never ran, as in development and in tests."""

    def stored_name(self, name: str) -> str:
        return str(super().stored_name(name)) if self.hashed_files else name
