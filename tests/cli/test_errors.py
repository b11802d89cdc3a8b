"""What goes wrong is reported in one line, and nothing half-written is left."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.steps import OLD_DIM, left, process, refused, run
from typer.testing import CliRunner

import relatent as rl
from relatent.cli import ERROR, USAGE, app


def test_missing_files(here, translator):
    refused("info", "none.parquet", says="There is no file none.parquet")
    refused("fit", "none.parquet", "new.parquet", "-o", "x.safetensors", says="There is no file none.parquet")
    refused("translate", "none.safetensors", "old.parquet", "-o", "x.parquet", says="There is no file none.safetensors")
    refused("evaluate", translator, "old.parquet", "none.parquet", says="There is no file none.parquet")


def test_another_space_is_refused_until_accepted(here, translator):
    rl.write_space(rl.Space(np.ones((9, OLD_DIM)), fingerprint=rl.Fingerprint(OLD_DIM, "third")), "third.parquet")
    says = ("'third' is not the source 'old'", "the model is 'old-model' in one and 'third' in the other", "--accept")
    refused("translate", translator, "third.parquet", "-o", "x.parquet", says=says)
    refused("translate", translator, "new.parquet", "-o", "x.parquet", says="the dim is 20 in one and 24")
    refused("evaluate", translator, "new.parquet", "old.parquet", says="is not the source")
    run("translate", translator, "third.parquet", "-o", "x.parquet", "--accept")


def test_nulls_ragged_rows_and_nan(here, translator):
    good = [1.0] * OLD_DIM
    for name, rows, says in (
        ("null", [good, None], "1 null vectors, first in row 1"),
        ("ragged", [good, good[:-1]], "in row 1"),
        ("nan", [good, [np.nan] * OLD_DIM], "Row 1 (key 'b') of nan.parquet holds NaN or infinity"),
    ):
        pq.write_table(pa.table({"id": ["a", "b"], "v": pa.array(rows, pa.list_(pa.float32()))}), f"{name}.parquet")
        refused("translate", translator, f"{name}.parquet", "-o", "x.parquet", "--accept", says=says)


def test_a_file_cut_in_half(here, translator):
    Path("half.parquet").write_bytes(Path("old.parquet").read_bytes()[:5000])
    refused("info", "half.parquet", says=("half.parquet", "new copy"))
    Path("half.safetensors").write_bytes(translator.read_bytes()[:500])
    refused("evaluate", "half.safetensors", "old.parquet", "new.parquet", says="half.safetensors")


def test_a_folder_with_a_foreign_file(here, translator):
    Path("mixed").mkdir()
    rl.write_space(rl.read_space("old.parquet"), "mixed/a.parquet")
    Path("mixed/notes.md").write_text("hello")
    refused("translate", translator, "mixed", "-o", "x.parquet", says=("notes.md", "files of one format"))


def test_nothing_is_replaced_unless_asked_and_never_in_place(here, translator):
    run("translate", translator, "old.parquet", "-o", "x.parquet")
    before = Path("x.parquet").read_bytes()
    refused("translate", translator, "old.parquet", "-o", "x.parquet", says=("x.parquet exists", "--overwrite"))
    refused("fit", "old.parquet", "new.parquet", "-o", "t.safetensors", says="t.safetensors exists")
    run("translate", translator, "old.parquet", "-o", "x.parquet", "--overwrite")
    assert Path("x.parquet").read_bytes() == before
    refused(
        "translate", translator, "old.parquet", "-o", "old.parquet", "--overwrite", says="nothing is written in place"
    )
    Path("folder").mkdir()
    rl.write_space(rl.read_space("old.parquet"), "folder/a.parquet")
    for source, out in (("folder", "folder/b.parquet"), ("folder/*.parquet", "folder/c.parquet"), ("folder", "folder")):
        refused("translate", translator, source, "-o", out, "--overwrite", says="nothing is written in place")
    for words in (
        ("translate", translator, "old.parquet", "-o", translator),
        ("project", "old.parquet", "--anchors", "x.parquet", "-o", "x.parquet"),
    ):
        kept = Path(words[-1]).read_bytes()
        refused(*words, "--overwrite", says="nothing is written in place")
        assert Path(words[-1]).read_bytes() == kept
    result = run("fit", "old.parquet", "new.parquet", "-o", "e.txt", code=USAGE)
    assert "e.txt does not end in .safetensors" in result.stderr


def test_damaged_vectors_are_refused_unless_asked_for(here, translator):
    rl.write_space(rl.read_space("old.parquet"), "old.npy")
    raw = bytearray(Path("old.npy").read_bytes())
    raw[1000] ^= 1
    Path("old.npy").write_bytes(raw)
    refused("translate", translator, "old.npy", "-o", "x.npy", says=("old.npy is damaged", "--no-verify"))
    run("translate", translator, "old.npy", "-o", "x.npy", "--no-verify")
    refused("info", "x.npy", "--max-memory", "10", says=("x.npy states", "--max-memory"))


def test_no_folder(here, translator):
    refused("translate", translator, "old.parquet", "-o", "nowhere/x.parquet", says="there is no folder nowhere")
    refused("fit", "old.parquet", "new.parquet", "-o", "nowhere/t.safetensors", says="there is no folder nowhere")


# The command, which says so when it writes its first vectors, and then has much to do.
BUSY = """
import sys, time
from relatent.cli import app
from relatent.spaces.io import files
def write(self, chunk, wrapped=files.SpaceWriter.write):
    wrapped(self, chunk)
    print("writing", flush=True)
    time.sleep(60)
files.SpaceWriter.write = write
app(sys.argv[1:], prog_name="relatent")
"""


def test_a_command_that_is_terminated_leaves_no_file(here, translator):
    Path("out.parquet").write_text("old")
    before = left()
    words = ["translate", translator, "old.parquet", "-o", "out.parquet", "--overwrite"]
    with subprocess.Popen([sys.executable, "-c", BUSY, *map(str, words)], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout.readline() == "writing\n"
        assert left() != before
        command.terminate()
        assert command.wait(20) == 128 + signal.SIGTERM
    assert left() == before
    assert Path("out.parquet").read_text() == "old"


def test_no_permission(here, translator):
    Path("shut").mkdir(mode=0o500)
    run("translate", translator, "old.parquet", "-o", "open.parquet")  # imports what it needs while this user may
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        for words in (
            ("translate", translator, "old.parquet", "-o", "shut/x.parquet"),
            ("fit", "old.parquet", "new.parquet", "-o", "shut/t.safetensors"),
        ):
            result = CliRunner().invoke(app, [str(word) for word in words])
            assert result.exit_code == ERROR
            assert "no permission" in result.stderr.lower() or "Permission denied" in result.stderr
    finally:
        os.seteuid(user)
    assert list(Path("shut").iterdir()) == []


def test_a_full_disk(here, translator):
    """No file may grow beyond 4 KiB here, which fails as a full disk does: in the middle of a write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**12, hard))
    try:
        for out in ("x.parquet", "x.npy", "folder"):
            refused("translate", translator, "old.parquet", "-o", out, says=("The disk was full", "nothing was left"))
        refused(
            "fit", "old.parquet", "new.parquet", "-o", "x.safetensors", says=("The disk was full", "nothing was left")
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_commands_run_on_an_engine(here, translator):
    engine = ("--engine", "processes", "--workers", "2")
    run("fit", "old.parquet", "new.parquet", "-o", "again.safetensors", *engine)
    one, other = (rl.load(path).matrix_ for path in (translator, "again.safetensors"))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)  # saved in float32
    run("translate", translator, "old.parquet", "-o", "serial")
    run("translate", translator, "old.parquet", "-o", "parallel", *engine)
    names = sorted(file.name for file in Path("serial").iterdir())
    assert names == sorted(file.name for file in Path("parallel").iterdir())
    assert all((Path("serial") / name).read_bytes() == (Path("parallel") / name).read_bytes() for name in names)
    refused(
        "translate", translator, "old.parquet", "-o", "x.npy", *engine, says=("x.npy is one file", "without a suffix")
    )
    refused("translate", translator, "old.parquet", "-o", "x", "--engine", "daks", says="Did you mean 'dask'")
    refused("fit", "old.parquet", "new.parquet", "-o", "x.safetensors", "--workers", "0", says="expected at least 1")


def test_wrong_options(here):
    assert "Missing option" in process("fit", "old.parquet", "new.parquet").stderr
    run("fit", "old.parquet", code=USAGE)
    run("nonsense", code=USAGE)
    refused("fit", "old.parquet", "new.parquet", "-o", "x.safetensors", "--map", "orthogonl", says="'orthogonal'")
    refused("fit", "old.parquet", "new.parquet", "-o", "x.safetensors", "--held-out", "1.5", says="share to hold out")
    refused("fit", "old.parquet", "new.parquet", "-o", "x.safetensors", "--key", "labl", says="no column 'labl'")


def test_a_translator_is_saved_as_safetensors(here):
    said = run("fit", "old.parquet", "new.parquet", "-o", "e.txt", code=USAGE).stderr
    assert "e.txt does not end in .safetensors" in said
    assert not Path("e.txt").exists()


def test_a_remedy_is_an_option_and_no_argument_of_python(here, tmp_path):
    pytest.importorskip("onnxruntime")
    wrong = ("encode", "docs.txt", "--kind", "onnx", "--model", onnx_without_tokenizer(tmp_path), "-o", "x.npy")
    Path("docs.txt").write_text("a text")
    refused(*wrong, says="Put it beside the model.")
    with pytest.raises(FileNotFoundError, match="tokenizer="):
        rl.encode.onnx_text(tmp_path / "model.onnx")


def onnx_without_tokenizer(folder):
    """Write the smallest model that loads: its input, given back."""
    from onnx import TensorProto, helper, save

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    save(model, folder / "model.onnx")
    return folder / "model.onnx"
