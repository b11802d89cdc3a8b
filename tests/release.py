"""What a release has to pass: builds, installs into clean environments, known vulnerabilities, a bill of materials.

python -m tests.release --python python3.11 --python python3.12

It writes into dist/. The exit code is 1 if a check failed; what could not be run is named, and is no failure.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
MAX_BYTES = 10 * 2**20
# What the demo writes; the picture needs matplotlib, which is an extra.
DEMO = {"anchors.parquet", "new.parquet", "old.parquet", "relevant.tsv", "t.safetensors", "translated.parquet"}
Outcome = tuple[str, str, str]


class FailedError(Exception):
    """A check that did not pass."""


class NotRunError(Exception):
    """A check that cannot be run here."""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise FailedError(f"{' '.join(str(word) for word in command[:4])} …: {(done.stdout + done.stderr)[-800:]}")
    return done.stdout


def build() -> str:
    """Build the source archive, and the wheel from it, as an index would."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    run(sys.executable, "-m", "twine", "check", "--strict", *packages())
    large = [path.name for path in packages() if path.stat().st_size > MAX_BYTES]
    if large:
        raise FailedError(f"{large} are larger than {MAX_BYTES:,} bytes.")
    return ", ".join(f"{path.name} ({path.stat().st_size:,} bytes)" for path in packages())


def contents() -> str:
    """Check that both packages have what an install needs, and the wheel nothing else."""
    archive, wheel = packages()
    with tarfile.open(archive) as opened:
        inside = {name.split("/", 1)[1] for name in opened.getnames() if "/" in name}
    with zipfile.ZipFile(wheel) as opened:
        installed = opened.namelist()
    needed = {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "hatch_build.py", "src/relatent/__init__.py"}
    page = "relatent/explore/static/explorer.html"
    missing = sorted(needed - inside) + [name for name in (page, "relatent/py.typed") if name not in installed]
    more = [name for name in installed if not name.startswith(("relatent/", "relatent-"))]
    if missing or more or f"src/{page}" not in inside:
        raise FailedError(f"missing: {missing}, not expected: {more}")
    return f"{len(inside)} and {len(installed)} files, with the page of the explorer"


def packages() -> list[Path]:
    """Return the source archive and the wheel."""
    return [*DIST.glob("*.tar.gz"), *DIST.glob("*.whl")]


def installed(python: str, package: Path, folder: Path) -> str:
    """Install a package into a clean environment, and use it outside of the clone."""
    environment = folder / "environment"
    run(python, "-m", "venv", environment)
    run(environment / "bin" / "python", "-m", "pip", "install", "--quiet", package)
    version = run(environment / "bin" / "relatent", "--version", cwd=folder).strip()
    run(environment / "bin" / "relatent", "demo", "--quiet", "--out", "out", cwd=folder)
    missing = DEMO - {path.name for path in (folder / "out").iterdir()}
    if missing:
        raise FailedError(f"the demo did not write {sorted(missing)}")
    found = json.loads(run(environment / "bin" / "relatent", "info", "out/t.safetensors", "--json", cwd=folder))
    return f"{version}: demo, {found['kind']}"


def audited(folder: Path) -> str:
    """Look for known vulnerabilities in what a wheel brings with it. It asks a database on the internet."""
    tool = Path(sys.executable).with_name("pip-audit")
    site = next((folder / "environment" / "lib").glob("python3.*/site-packages"))
    words = [tool, "--path", site, "--progress-spinner", "off", "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise NotRunError(f"its database cannot be reached: {done.stderr.strip()[-200:]}")
    found = json.loads(done.stdout)["dependencies"]
    unknown = [one["name"] for one in found if "skip_reason" in one and one["name"] != "relatent"]
    wrong = [f"{one['name']} {one['version']}: {v['id']}" for one in found for v in one.get("vulns", ())]
    if wrong:
        raise FailedError("; ".join(wrong))
    if unknown:
        raise NotRunError(f"its database does not know {len(unknown)} of {len(found)} packages, such as {unknown[0]}")
    return f"no known vulnerabilities in {len(found)} packages"


def bill_of_materials(folder: Path) -> str:
    """Write the packages that a wheel brings with it, with versions and licenses, as CycloneDX."""
    tool, out = Path(sys.executable).with_name("cyclonedx-py"), DIST / "relatent.cdx.json"
    words = ["--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "--output-file", out]
    run(tool, "environment", *words, folder / "environment")
    bill = json.loads(out.read_text("utf8"))
    bill["metadata"]["component"]["version"] = packages()[-1].name.split("-")[1]
    out.write_text(json.dumps(bill, indent=2) + "\n", "utf8")
    return f"{len(bill['components'])} components in {out.relative_to(ROOT)}"


def checks(pythons: list[str]) -> Iterator[Outcome]:
    """Run all checks, in order."""
    yield attempt("build, twine check", build)
    yield attempt("contents", contents)
    environment = None
    with tempfile.TemporaryDirectory() as parent:
        for python in pythons:
            if shutil.which(python) is None:
                yield "not run", f"install on {Path(python).name}", "there is no such interpreter here"
                continue
            for package in packages():
                folder = Path(tempfile.mkdtemp(dir=parent))
                what = f"install {package.name} on {python}"
                outcome = attempt(what, lambda p=python, a=package, f=folder: installed(p, a, f))
                environment = folder if outcome[0] == "passed" else environment
                yield outcome
        if environment is not None:
            yield attempt("pip-audit", lambda: audited(environment))
            yield attempt("bill of materials", lambda: bill_of_materials(environment))


def attempt(what: str, check) -> Outcome:
    try:
        return "passed", what, check()
    except FailedError as error:
        return "FAILED", what, str(error)
    except NotRunError as error:
        return "not run", what, str(error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], help="an interpreter to install on; may be repeated")
    failed = False
    for outcome, what, said in checks(parser.parse_args().python or [sys.executable]):
        print(f"{outcome:8} {what}: {said}", flush=True)  # noqa: T201
        failed |= outcome == "FAILED"
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
