"""Passwords: in the environment or the URL, and in nothing that a migration writes, says or shows."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from tests.migrate.conftest import make_task
from tests.migrate.steps import Task, assert_translated
from tests.stores.postgres import server
from typer.testing import CliRunner

from relatent.cli import app
from relatent.migrate import apply_migration
from relatent.stores import Address, StoreError

pytestmark = pytest.mark.stores

SECRET = "pä55 w@rd/:%"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Task]:
    """A table of a user who is asked for a password."""
    task = make_task("pgvector", tmp_path)
    with psycopg.connect(server().conninfo, autocommit=True) as connection:
        connection.execute("DROP OWNED BY guarded CASCADE" if _exists(connection) else "CREATE ROLE guarded LOGIN")
        connection.execute(f"ALTER ROLE guarded SUPERUSER PASSWORD '{SECRET}'")
    with server().passwords_for("guarded"):
        task.url = task.url.replace("postgres@", "guarded@")
        yield task


def _exists(connection: psycopg.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'guarded'").fetchall())


def with_password(url: str, password: str) -> str:
    return url.replace("guarded@", f"guarded:{quote(password, safe='')}@")


def forms(secret: str) -> list[bytes]:
    """Return what a password may look like in a file or a message."""
    return [secret.encode(), quote(secret, safe="").encode(), repr(secret)[1:-1].encode(), quote(secret).encode()]


def everything(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def assert_hidden(*texts: bytes | str) -> None:
    for text in texts:
        raw = text if isinstance(text, bytes) else text.encode()
        assert not [form for form in forms(SECRET) if form in raw]


@pytest.mark.parametrize("where", ["environment", "url"])
def test_no_step_tells_the_password(guarded, where, tmp_path, monkeypatch):
    if where == "environment":
        monkeypatch.setenv("PGPASSWORD", SECRET)
    else:
        guarded.url = with_password(guarded.url, SECRET)
    steps = {"apply": 0, "status": 0, "verify": 0, "cutover": 0, "apply again": 1, "rollback": 0, "rollback again": 1}
    for step, code in steps.items():
        words = guarded.command(step.split()[0], "--json" if step == "status" else "--verbose")[3:]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == code, (step, done.output)
        assert_hidden(done.stdout, done.stderr)
    assert_hidden(everything(tmp_path))
    assert_translated(guarded.url, guarded.items)


def test_the_password_is_not_kept_in_the_store(guarded):
    guarded.url = with_password(guarded.url, SECRET)
    guarded.apply()
    with psycopg.connect(server().conninfo) as connection:
        comments = connection.execute("SELECT string_agg(description, ' ') FROM pg_description").fetchone()
    assert "old-model@1" in comments[0]
    assert_hidden(comments[0])


@pytest.mark.parametrize("given", ["", "wrong: " + SECRET[::-1]])
def test_a_wrong_password_is_reported_and_not_shown(guarded, given):
    guarded.url = with_password(guarded.url, given) if given else guarded.url
    done = guarded.run("apply", "--verbose", env={k: v for k, v in os.environ.items() if k != "PGPASSWORD"})
    assert done.returncode == 1
    assert "password" in done.stderr
    assert not given or given not in done.stderr + done.stdout
    assert not given or quote(given, safe="") not in done.stderr + done.stdout
    assert not guarded.work.exists()


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="titles of processes are read from /proc")
def test_titles_of_worker_processes_do_not_show_the_password(guarded):
    """The URL goes to workers through a pipe, not in their command line."""
    watch = (
        "import sys, pathlib, threading, time\n"
        "from relatent.cli import app\n"
        "seen, done = set(), threading.Event()\n"
        "def watch():\n"
        "    while not done.is_set():\n"
        "        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):\n"
        "            try: seen.add(path.read_bytes())\n"
        "            except OSError: pass\n"
        "        time.sleep(0.02)\n"
        "thread = threading.Thread(target=watch); thread.start()\n"
        "try: app(sys.stdin.read().splitlines(), standalone_mode=False)\n"
        "finally: done.set(); thread.join()\n"
        "sys.stdout.buffer.write(b'\\n'.join(seen))\n"
    )
    words = guarded.command("apply", "--workers", 2)[3:]
    words[words.index(guarded.url)] = with_password(guarded.url, SECRET)
    done = subprocess.run(
        [sys.executable, "-c", watch], input="\n".join(words).encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"multiprocessing" in done.stdout
    assert_hidden(done.stdout, done.stderr)


def test_errors_in_python_name_the_store_without_the_password(guarded, tmp_path):
    url = with_password(guarded.url, SECRET)
    name = Address.parse(url).name
    with pytest.raises(StoreError) as caught:
        apply_migration(guarded.translator, url.replace(quote(name, safe=""), "nothing"), work=tmp_path / "w")
    assert_hidden(str(caught.value), repr(caught.value))
