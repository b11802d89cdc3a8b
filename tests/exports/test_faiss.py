import json

import faiss
import numpy as np
import pytest
from tests.exports.translators import AFFINE, fitted, near, nonlinear, spaces
from typer.testing import CliRunner

from relatent._linalg import unit_norm
from relatent.cli import app
from relatent.exports import export
from relatent.exports.faiss import transforms, wrap


@pytest.mark.parametrize(("setting", "space"), AFFINE)
def test_the_chain_is_the_map(setting, space):
    x, _ = spaces(space)
    t = fitted(setting, space)
    rows = x[500:]
    for transform in transforms(t):
        rows = transform.apply_py(rows)
    near(rows, t.transform(x[500:]))


def test_a_wrapped_index_answers_for_translated_queries():
    x, y = spaces("digits")
    t = fitted("frozen", "digits")
    index = faiss.IndexFlatIP(y.shape[1])
    index.add(unit_norm(y))
    wrapped = wrap(t, index)
    _, found = wrapped.search(x[500:600], 5)
    expected = np.argsort(-(t.transform(x[500:600]) @ unit_norm(y).T), axis=1, kind="stable")[:, :5]
    assert np.mean(found == expected) > 0.999  # ties and roundings
    del index
    np.testing.assert_array_equal(wrapped.search(x[500:600], 5)[1], found)


def test_an_index_file_is_copied_behind_the_map(tmp_path):
    x, y = spaces("digits")
    t = fitted("retrieval", "digits")
    index = faiss.IndexFlatIP(t.map_.width)
    index.add(t.transform_target(y))
    faiss.write_index(index, str(tmp_path / "old.faiss"))
    before = (tmp_path / "old.faiss").read_bytes()
    export(t, tmp_path / "new.faiss", "faiss", index=tmp_path / "old.faiss")
    read = faiss.read_index(str(tmp_path / "new.faiss"))
    assert read.d == x.shape[1]
    np.testing.assert_array_equal(read.search(x[:50], 3)[1], index.search(t.transform(x[:50]), 3)[1])
    assert (tmp_path / "old.faiss").read_bytes() == before


def test_without_an_index_it_takes_vectors_to_translate(tmp_path):
    x, _ = spaces("digits")
    t = fitted("orthogonal", "digits")
    export(t, tmp_path / "t.faiss", "faiss", normalize=True)
    read = faiss.read_index(str(tmp_path / "t.faiss"))
    read.add(x[:20])
    held = faiss.downcast_index(read.index).reconstruct_n(0, 20)
    near(held, unit_norm(t.transform(x[:20])))


def test_what_faiss_cannot_do_is_refused(tmp_path):
    t = nonlinear("digits")
    with pytest.raises(ValueError, match="no transform for the gaussian part"):
        transforms(t)
    with pytest.raises(ValueError, match=r"no transform for the (squares|hubness) part"):
        transforms(fitted("retrieval", "digits"), side="target")
    with pytest.raises(ValueError, match="holds 7 coordinates and the translator gives 32"):
        wrap(fitted("orthogonal", "digits"), faiss.IndexFlatIP(7))
    (tmp_path / "no.faiss").write_bytes(b"no index")
    with pytest.raises(ValueError, match="cannot be read as a FAISS index"):
        export(fitted("orthogonal", "digits"), tmp_path / "t.faiss", "faiss", index=tmp_path / "no.faiss")
    assert not (tmp_path / "t.faiss").exists()


def test_the_command_writes_beside_an_index_and_never_over_it(tmp_path, monkeypatch):
    """A path that ends in .faiss is a store to other commands, which must not write there."""
    monkeypatch.chdir(tmp_path)
    t = fitted("frozen", "digits")
    t.save("t.safetensors")
    faiss.write_index(faiss.IndexFlatIP(t.map_.width), "old.faiss")
    words = ["export", "t.safetensors", "--to", "faiss", "--index", "old.faiss", "--json", "-o"]
    done = CliRunner().invoke(app, [*words, "new.faiss"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["dims"] == [48, 32]
    assert faiss.read_index("new.faiss").d == 48
    refused = CliRunner().invoke(app, [*words, "old.faiss", "--overwrite"])
    assert (refused.exit_code, faiss.read_index("old.faiss").d) == (1, 32)
    assert "is what is read" in refused.output
