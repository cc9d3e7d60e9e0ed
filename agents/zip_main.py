"""The __main__.py of the zipapp: starts the agent, whose modules are compiled once each."""

from __future__ import annotations

import sys
from zipimport import zipimporter


class Importer(zipimporter):
    """Names the file of a module without compiling it, which zipimporter does for the name and again for the code."""

    def get_filename(self, fullname: str) -> str:
        name = fullname.rpartition(".")[2]
        file = f"{name}/__init__.py" if self.is_package(fullname) else f"{name}.py"
        return f"{self.archive}/{self.prefix}{file}"


def start() -> None:
    sys.path_hooks.insert(0, Importer)
    sys.path_importer_cache.pop(sys.path[0], None)
    from agents.__main__ import main

    main()


if __name__ == "__main__":
    start()
