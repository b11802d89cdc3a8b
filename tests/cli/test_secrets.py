"""What is secret in a URL, its password and its signature, is in nothing that a command says or writes."""

import functools
import json
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from tests.cli.steps import N
from tests.servers import running
from typer.testing import CliRunner

import relatent as rl
from relatent._schemes import without_secrets
from relatent.cli import ERROR, OK, USAGE, app
from relatent.serve import Settings

PASSWORD, SIGNATURE = "pass-5ecret", "5igned"


def url(name):
    """The URL of a remote file, with a user, a password and a signature."""
    return f"{output(name)}?X-Amz-Credential=ann&X-Amz-Signature={SIGNATURE}"


def output(name):
    """The URL of a remote file to write: what takes a signature takes no files from fsspec."""
    return f"memory://ann:{PASSWORD}@bucket/{name}"


def put(name, content):
    fs, inside = fsspec.core.url_to_fs(url(name))
    fs.pipe_file(inside, content)


@pytest.fixture
def remote(here):
    """The two spaces at remote URLs."""
    rl.write_space(rl.read_space("old.parquet"), "old.npy")
    for name in ("old.parquet", "new.parquet", "old.npy"):
        put(name, Path(name).read_bytes())
    put("bad.parquet", b"PAR1 and then nothing")
    yield here
    fsspec.filesystem("memory").rm("/", recursive=True)


def assert_hidden(*texts):
    for text in texts:
        assert PASSWORD not in text
        assert SIGNATURE not in text


def told(monkeypatch, *words, code=OK):
    """Run a command, and return all that it said; none of it is secret."""
    words = [str(word) for word in words]
    monkeypatch.setattr(sys, "argv", ["relatent", *words])
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, done.output
    assert_hidden(done.stdout, done.stderr)
    return done.stdout + done.stderr


def everything(folder):
    return "\n".join(file.read_bytes().decode("latin1") for file in folder.rglob("*") if file.is_file())


def test_no_step_shows_a_secret(remote, monkeypatch):
    old, new = url("old.parquet"), url("new.parquet")
    tell = functools.partial(told, monkeypatch)
    assert "old (20-d) → new (24-d)" in tell("fit", old, new, "-o", "t.safetensors")
    assert json.loads(tell("info", old, "--json"))["rows"] == N
    assert "memory://bucket/out.parquet" in tell("translate", "t.safetensors", old, "-o", output("out.parquet"))
    assert json.loads(tell("translate", "t.safetensors", old, "-o", output("out.npy"), "--json"))
    for report in ("r.html", "r.md", "r.json"):
        tell("report", old, new, "-o", report, "--max-rows", 50)
        assert "memory://bucket/old.parquet" in Path(report).read_text()
    tell("compare", old, new, "--max-rows", 50, "--permutations", 2, "--report", "c.json")
    tell("monitor", "make-canary", old, "-n", 20, "-o", "canary.parquet")
    assert_hidden(everything(remote))
    assert len(rl.read_space(output("out.parquet"))) == N


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("none.parquet", ()),
        ("none.npy", ()),
        ("bad.parquet", ()),
        ("bad.thing", ()),
        ("old.parquet", ("--vector", "no such column")),
        ("old.npy", ("--max-memory", "1")),
    ],
)
def test_no_error_shows_a_secret(remote, monkeypatch, name, options):
    for verbose in ((), ("--verbose",)):
        assert name in told(monkeypatch, "info", url(name), *options, *verbose, code=ERROR)
    with pytest.raises((ValueError, OSError)) as raised:
        rl.read_space(url(name), max_memory=1, vector="no such column" if options else None)
    assert_hidden(str(raised.value), repr(raised.value))


def test_outputs_and_translators_at_a_url_are_refused_without_its_secrets(remote, monkeypatch):
    tell = functools.partial(told, monkeypatch)
    tell("fit", "old.parquet", "new.parquet", "-o", "t.safetensors")
    assert "bucket/old.parquet exists" in tell(
        "translate", "t.safetensors", "old.parquet", "-o", url("old.parquet"), code=ERROR
    )
    secret = f"https://ann:{PASSWORD}@host/t.safetensors?sig={SIGNATURE}"
    assert "host/t.safetensors" in tell("translate", secret, "old.parquet", "-o", "out.parquet", code=USAGE)
    with pytest.raises(FileNotFoundError) as raised:
        rl.load(secret)
    assert_hidden(str(raised.value))


def test_spaces_and_settings_do_not_show_a_secret(remote):
    space = rl.read_space(url("old.parquet"))
    assert_hidden(repr(space), space.path, space.name, repr(Settings(upstream=f"http://ann:{PASSWORD}@host/v1")))
    with pytest.raises(ValueError, match="expected an address") as raised:
        Settings(upstream=f"htp://ann:{PASSWORD}@host/v1?key={SIGNATURE}")
    assert_hidden(str(raised.value))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://host/a.npy", "https://host/a.npy"),
        ("https:/me:pw@host/a.npy is none", "https:/host/a.npy is none"),
        ("'https://token@host?sig=a/b'", "'https://host'"),
        ("https://me:p/w?x@host:80/a.npy", "https://host:80/a.npy"),
        ("az://box/a.parquet?sv=1&sig=a%2Fb", "az://box/a.parquet"),
        ("s3://bucket/year=2024/part-?.parquet", "s3://bucket/year=2024/part-?.parquet"),
        ("http://host:6333/a@b", "http://host:6333/a@b"),
        ("postgresql://ann:pw@db/shop/items?key=id", "postgresql://ann@db/shop/items?key=id"),
        ("postgresql://db/shop?API_KEY=a&key=id&sslpassword=x", "postgresql://db/shop?key=id"),
        ("12:30 a:/b C:/me@home", "12:30 a:/b C:/me@home"),
    ],
)
def test_what_is_shown_of_a_url(text, shown):
    assert without_secrets(text) == shown


def signed(folder):
    """A server of files that wants the signature and the password."""

    def answered(request):
        allowed = request.query_params.get("sig") == SIGNATURE and "Authorization" in request.headers
        file = folder / request.path_params["name"]
        return FileResponse(file) if allowed and file.exists() else Response(status_code=404 if allowed else 403)

    return Starlette(routes=[Route("/{name}", answered)])


def test_a_signed_url_is_read_and_its_refusal_shows_nothing(here, monkeypatch):
    with running(signed(here)) as address:
        address = address.replace("//", f"//ann:{PASSWORD}@")
        space = rl.read_space(f"{address}/old.parquet?sig={SIGNATURE}")
        assert np.array_equal(space.vectors, rl.read_space("old.parquet").vectors)
        assert space.name == "old"
        for wrong in (f"{address}/old.parquet?sig={SIGNATURE[::-1]}", f"{address}/none.parquet?sig={SIGNATURE}"):
            assert ".parquet" in told(monkeypatch, "info", wrong, "--verbose", code=ERROR)
