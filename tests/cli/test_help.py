"""How the command line speaks: help, names, notes and the reference."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.steps import COMMANDS, process, run

import relatent as rl
from relatent.cli import ERROR, NO_VERDICT, OK


def test_quiet_and_verbose(here, translator):
    result = process("translate", translator, "old.parquet", "-o", "x.parquet", "--quiet")
    assert (result.returncode, result.stdout, result.stderr) == (OK, "", "")
    words = ["translate", translator, "old.parquet", "-o", "x.parquet"]
    assert "Traceback" in run(*words, "--verbose", code=ERROR).stderr
    assert "Traceback" not in run(*words, code=ERROR).stderr


def test_progress_shows_on_a_terminal_only(here, translator):
    import pty

    words = ["translate", str(translator), "old.parquet", "--overwrite", "-o", "x.parquet"]
    main, terminal = pty.openpty()
    command = [sys.executable, "-c", "from relatent.cli import app; app()", *words]
    result = subprocess.run(command, stderr=terminal, stdout=subprocess.PIPE, check=True)
    os.close(terminal)
    assert b"x.parquet" in os.read(main, 10_000)
    os.close(main)
    assert b"Wrote" in result.stdout
    assert run(*words).stderr == ""


def test_notes_go_to_the_error_stream(here):
    run("fit", "new.parquet", "old.parquet", "--goal", "retrieval", "-o", "both.safetensors")
    result = run("evaluate", "both.safetensors", "new.parquet", "old.parquet", "--json", code=NO_VERDICT)
    assert "note: This translator maps queries and documents" in result.stderr
    assert json.loads(result.stdout)["verdict"] == "no verdict"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_in_its_help(name):
    said = run(*name.split(), "--help").stdout
    assert f"Examples:\n    relatent {name} " in said or f"    relatent {name} " in said.split("Examples:")[1]


def test_commands():
    assert set(COMMANDS) == {
        *("demo", "fit", "evaluate", "translate", "info", "compare", "report", "explore", "thresholds"),
        *("encode", "anchors", "project", "backfill", "export", "serve", "stitch"),
        *(f"monitor {step}" for step in ("make-canary", "check-canary", "drift", "origin")),
        *(
            f"migrate {step}"
            for step in ("plan", "rehearse", "apply", "status", "verify", "cutover", "rollback", "finish")
        ),
    }


def test_an_option_means_the_same_in_every_command():
    meanings = {}
    for name, command in COMMANDS.items():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                for spelling in (*parameter.opts, *parameter.secondary_opts):
                    meanings.setdefault(spelling, {}).setdefault(parameter.help, []).append(name)
    assert {spelling: texts for spelling, texts in meanings.items() if len(texts) != 1} == {}


def test_a_meaning_has_one_spelling():
    """No two options of different names have the same help."""
    spellings = {}
    for command in COMMANDS.values():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                spellings.setdefault(parameter.help, set()).add(tuple(parameter.opts))
    assert {text: names for text, names in spellings.items() if len(names) != 1} == {}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_translator_is_the_first_argument_and_the_source_comes_before_the_target(name):
    arguments = [p.metavar.strip("[]") for p in COMMANDS[name].params if p.param_type_name == "argument"]
    assert "TRANSLATOR" not in arguments[1:]
    places = [arguments.index(side) for side in ("SOURCE", "TARGET") if side in arguments]
    assert places == sorted(places)


def test_help_loads_nothing_heavy():
    code = "import sys\nfrom relatent.cli import app\ntry: app(['--help'])\nexcept SystemExit: print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = {"numpy", "scipy", "sklearn", "torch", "pyarrow", "safetensors", "pandas", "matplotlib", "transformers"}
    assert heavy.isdisjoint(word.split(".")[0] for word in loaded.split())


def test_version_and_completion():
    assert run("--version").stdout.startswith(f"relatent {rl.__version__}")
    result = process(
        env={**os.environ, "_RELATENT_COMPLETE": "complete_bash", "COMP_WORDS": "relatent tra", "COMP_CWORD": "1"}
    )
    assert "translate" in result.stdout


def test_the_reference_is_made_from_the_commands():
    """A command or option that is missing from docs/cli.md fails here: run python docs/make_cli.py."""
    root = Path(__file__).parents[2]
    script = root / "docs" / "make_cli.py"
    code = f"import runpy; print(runpy.run_path({str(script)!r}, run_name='page')['page'](), end='')"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert made == (root / "docs" / "cli.md").read_text(encoding="utf8")
    for name, command in COMMANDS.items():
        assert f"## `relatent {name}" in made
        for parameter in command.params:
            assert parameter.param_type_name == "argument" or all(f"`{flag}`" in made for flag in parameter.opts)


PEAK = """
from pathlib import Path
from relatent.cli import app
app(standalone_mode=False)
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_translate_holds_a_few_chunks_however_long_the_file(tmp_path, suffix):
    """900 MB of vectors: half of it beyond what a few rows take."""
    dim, rng = 384, np.random.default_rng(0)
    x = rng.standard_normal((2000, dim), dtype=np.float32)
    rl.Translator(map="orthogonal").fit(x, x[:, ::-1]).save(tmp_path / "t.safetensors")

    def peak(rows):
        old = np.lib.format.open_memmap(tmp_path / "old.npy", mode="w+", dtype=np.float32, shape=(rows, dim))
        for start in range(0, rows, 50_000):
            old[start : start + 50_000] = rng.standard_normal((min(rows, 50_000), dim), dtype=np.float32)
        old.flush()
        if suffix == ".parquet":
            rl.write_space(rl.read_space(tmp_path / "old.npy"), tmp_path / "old.parquet")
        words = ("translate", "t.safetensors", f"old{suffix}", "-o", f"new{rows}{suffix}")
        command = [sys.executable, "-c", PEAK, *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
        return int(done.stdout.splitlines()[-1])

    assert peak(600_000) - peak(10) < 450


ROOT = Path(__file__).parents[2]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
# Of `embedding-atlas`, which an export is made for.
FOREIGN = {"--x", "--y", "--neighbors"}


def test_options_that_the_library_names_exist():
    """A message may name an option on the command line: under the name that it has."""
    known = {name for command in COMMANDS.values() for p in command.params for name in p.opts} | FOREIGN
    files = [file for file in (ROOT / "src").rglob("*.py") if "cli" not in file.parts]
    named = {(file.name, name) for file in files for name in OPTION.findall(file.read_text("utf8"))}
    assert {(file, name) for file, name in named if name not in known} == set()


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.stem)
def test_commands_that_a_page_shows_exist(page):
    """Every `relatent …` in code names a command or a group, and options that the command has."""
    for line in re.findall(r"(?:`|^\$ )relatent ([a-z][^`\n]*)", page.read_text("utf8"), re.MULTILINE):
        words = line.split()
        name = next((n for n in (words[0], " ".join(words[:2])) if n in COMMANDS), None)
        assert name or words[0] in ("monitor", "migrate"), line
        known = {spelling for p in COMMANDS[name].params for spelling in p.opts} if name else set()
        assert set(OPTION.findall(line)) <= known, line
