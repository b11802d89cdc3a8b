"""Encoders by the name of their kind, on files of texts and folders of images."""

import numpy as np
import pytest

from relatent import read_space
from relatent._files import FileError
from relatent.encode import encode_file, encoder_of, onnx_text, read_items


def test_a_file_of_texts_through_an_onnx_model(onnx_model, texts, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    model = onnx_model / "model.onnx"
    encode_file(tmp_path / "texts.txt", tmp_path / "x.parquet", lambda: encoder_of("onnx", str(model), pooling="cls"))
    back = read_space(tmp_path / "x.parquet")
    np.testing.assert_allclose(back.vectors, onnx_text(model, pooling="cls")(texts), rtol=1e-6)
    assert back.keys.tolist() == [0, 1, 2, 3]
    assert back.fingerprint.pooling == "cls"


def test_a_transformer_by_kind(bert, texts):
    assert encoder_of("transformer", str(bert), layer=1, device="cpu")(texts).shape == (4, 16)


def test_a_folder_of_images(vit, images, tmp_path):
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "sub").mkdir()
    for i, pixels in enumerate(images):
        image.fromarray(pixels).save(tmp_path / "sub" / f"{i}.png")
    (tmp_path / "notes.md").write_text("no image")
    found = read_items(tmp_path)
    assert found.keys == ["sub/0.png", "sub/1.png", "sub/2.png"]
    assert encoder_of("vision-transformer", str(vit))(found.items).shape == (3, 16)


def test_what_cannot_be_encoded(tmp_path, onnx_model):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="contains no images"):
        read_items(tmp_path / "empty")
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n{"text": null}\n')
    with pytest.raises(FileError, match=r"Row 1 of column 'text'.*expected a text"):
        read_items(tmp_path / "x.jsonl")
    (tmp_path / "y.jsonl").write_text('{"a": "b"}\n')
    with pytest.raises(FileError, match="name the column of the texts"):
        read_items(tmp_path / "y.jsonl")
    with pytest.raises(ValueError, match="onnx cannot take layer"):
        encoder_of("onnx", str(onnx_model / "model.onnx"), layer=3)
