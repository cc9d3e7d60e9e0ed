"""Pages that have moved. A page at each old address leads to the new one, with the part after #."""

from __future__ import annotations

# Folder of docs/ -> the pages that were in docs/ itself until 0.2.
_FROM_DOCS = {
    "guides": (
        "boot",
        "campaigns",
        "campaigns-running",
        "datasets",
        "decisions",
        "exploring",
        "importing",
        "recipes",
        "remote",
        "roles",
        "schedules",
        "search",
        "twin",
    ),
    "operations": ("identity", "notifications", "production", "runbook", "security", "teams"),
    "reference": ("api", "cli", "formats", "glossary", "permissions", "pgbench", "settings", "tpcc", "workloads"),
    "background": ("benchmarks", "faults", "proof", "statistics"),
}
# Old path -> new path, both without a suffix.
MOVED = {f"docs/{page}": f"docs/{folder}/{page}" for folder, pages in _FROM_DOCS.items() for page in pages} | {
    "apps/campaigns/recipes/index": "apps/campaigns/recipes/built_in/index"
}
