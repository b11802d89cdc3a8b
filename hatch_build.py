"""Bundle the page of `relatent explore` into wheels and source archives; hatchling runs this."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = Path("src", "relatent", "explore", "static", "explorer.html")
WITHOUT = "This build will not have the page of `relatent explore`"


class BundleHook(BuildHookInterface):
    """Run `npm` in web/, unless the page is there already, as in a source archive. Without npm, say what is missing."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page; an editable install takes the one that `make explore` builds."""
        if version == "editable" or self._up_to_date():
            return
        npm = shutil.which("npm")
        if npm is None:
            self.app.display_warning(f"{WITHOUT}: node and npm are missing. Install Node.js 18 or newer for it.")
            return
        try:
            for command in (["ci"], ["run", "build"]):
                subprocess.run([npm, *command], cwd=self._path("web"), check=True)
        except subprocess.CalledProcessError as error:
            self.app.display_warning(f"{WITHOUT}: {' '.join(map(str, error.cmd))} failed.")

    def _up_to_date(self) -> bool:
        page, sources = self._path(PAGE), self._path("web", "src").glob("*")
        return page.exists() and all(page.stat().st_mtime >= source.stat().st_mtime for source in sources)

    def _path(self, *parts: str | Path) -> Path:
        return Path(self.root, *parts)
