import base64
import json
import re
import signal
import subprocess
import sys

import httpx
import numpy as np
import pytest
from tests.servers import running
from typer.testing import CliRunner

import relatent as rl
from relatent.cli import app
from relatent.explore import Exploration, make_app, write_page
from relatent.explore import app as page

TOKEN = "s3cret"
BUILT = "<!doctype html><title>explorer</title>" + page.MARK


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A page, whether or not Node.js was there to build it."""
    bundle = tmp_path / "explorer.html"
    bundle.write_text(BUILT)
    monkeypatch.setattr(page, "BUNDLE", bundle)
    return bundle


@pytest.fixture(scope="module")
def address(two):
    with running(make_app(Exploration.of(two), TOKEN)) as address:
        yield address


@pytest.mark.parametrize("path", ["/", "/about", "/view", "/neighbors", "/export"])
@pytest.mark.parametrize("token", [None, "", "s3cre", "s3crett", "ſ3cret"])
def test_a_request_without_the_token_is_refused(address, path, token):
    answer = httpx.get(address + path, params={} if token is None else {"token": token})
    assert answer.status_code == 401
    assert "with its token" in answer.json()["error"]


def test_the_token_is_taken_from_the_address_or_a_header(address, built):
    assert httpx.get(address, params={"token": TOKEN}).text == BUILT
    asked = httpx.get(f"{address}/about", headers={"Authorization": f"Bearer {TOKEN}"})
    assert asked.json()["anchors"] == {"min": 5, "max": 60}
    assert asked.headers["cache-control"] == "no-store"
    assert asked.headers["referrer-policy"] == "no-referrer"


def test_every_answer_has_a_policy(address, built):
    policy = "default-src 'none'; script-src 'sha256-x=' 'unsafe-eval'; connect-src 'self'"
    built.write_text(f'<!doctype html><meta http-equiv="Content-Security-Policy" content="{policy}">{page.MARK}')
    expected = {"/": policy, "/export?k=20": policy, "/about": "default-src 'none'", "/view?k=x": "default-src 'none'"}
    for path, own in expected.items():
        answer = httpx.get(f"{address}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.headers["content-security-policy"] == f"{own}; frame-ancestors 'none'"


@pytest.mark.parametrize(
    ("path", "query", "says"),
    [
        ("view", {"layout": "own", "k": "many"}, "k is 'many'"),
        ("view", {"layout": "own", "k": "²"}, "expected an integer"),
        ("view", {"layout": "nowhere", "k": "20"}, "no layout 'nowhere'"),
        ("view", {"layout": "own", "k": "1000"}, "expected 2 to 60"),
        ("neighbors", {"row": "120", "k": "20"}, "no row 120"),
    ],
)
def test_wrong_requests_are_explained(address, path, query, says):
    answer = httpx.get(f"{address}/{path}", params={"token": TOKEN, **query})
    assert answer.status_code == 422
    assert says in answer.json()["error"]


def test_views_and_neighbors_are_answered(address):
    ask = {"token": TOKEN, "k": 20}
    view = httpx.get(f"{address}/view", params={**ask, "layout": "own"}).json()
    assert len(view["panels"]) == 2
    assert len(view["anchors"]) == 20
    found = httpx.get(f"{address}/neighbors", params={**ask, "row": 3}).json()
    assert {name: len(rows) for name, rows in found.items()} == {"before 0": 10, "after 0": 10, "target": 10}


def test_an_exported_page_holds_its_data_and_nothing_that_ends_it_early(two, built, tmp_path):
    evil = rl.Space(two[0].vectors, [f"</script><script>alert({i})" for i in range(120)], "old")
    exploration = Exploration.of([evil, evil])
    write_page(exploration, tmp_path / "out.html", k=20)
    text = (tmp_path / "out.html").read_text()
    inside = re.search(r'id="data">(.*)</script>$', text).group(1)
    assert "<" not in inside
    data = json.loads(inside)
    assert data["about"]["keys"] == exploration.scene.keys
    assert set(data["views"]) == {"own", "shared", "relative"}
    rows = np.frombuffer(base64.b64decode(data["neighbors"]["target"]), "<u4").reshape(120, 10)
    assert rows[3].tolist() == exploration.neighbors(3, 20)["target"]


def test_a_page_that_was_not_built_says_what_to_run(built):
    built.unlink()
    with pytest.raises(ValueError, match=r"run `make explore` in the repository, which needs Node.js"):
        page.page()


def test_the_command_writes_a_page_and_nothing_over_another(two, built, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for space in two:
        rl.write_space(space, f"{space.name}.parquet")
    command = ["explore", "old.parquet", "new.parquet", "--out", "out.html"]
    assert CliRunner().invoke(app, command).output == "Wrote out.html: open it in a browser.\n"
    again = CliRunner().invoke(app, command)
    assert (again.exit_code, "out.html exists" in again.output) == (1, True)
    built.unlink()
    missing = CliRunner().invoke(app, [*command, "--overwrite"])
    assert (missing.exit_code, "run `make explore`" in missing.output) == (1, True)
    assert 'id="data">{"about"' in (tmp_path / "out.html").read_text()  # the old one is whole


@pytest.mark.slow  # it starts a process
@pytest.mark.skipif(not page.BUNDLE.exists(), reason="make explore")
def test_the_command_prints_an_address_and_stops_on_a_signal(two, tmp_path):
    for space in two:
        rl.write_space(space, tmp_path / f"{space.name}.parquet")
    started = [sys.executable, "-c", "from relatent.cli import app; app()", "explore", "old.parquet", "new.parquet"]
    with subprocess.Popen(started, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().split()[1]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", address)
        assert "<title>relatent explore</title>" in httpx.get(address).text
        assert httpx.get(address.split("?")[0]).status_code == 401
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        assert process.stdout.read().splitlines()[-1] == "Stopped."
