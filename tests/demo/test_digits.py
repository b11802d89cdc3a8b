"""The demo's two networks: what they share, what they do not, and what a translation gives."""

import sys

import numpy as np
import pytest
from matplotlib.image import imread

from relatent.demo import PER_DIGIT, digits_upgrade, draw
from relatent.translate import Translator


@pytest.fixture(scope="module")
def upgrade():
    return digits_upgrade()


def test_anchors_are_no_test_images(upgrade):
    seen = {image.tobytes() for image in upgrade.anchors}
    assert seen.isdisjoint(image.tobytes() for image in upgrade.images)


def test_every_query_has_exactly_the_others_of_its_digit(upgrade):
    assert np.bincount(upgrade.labels[upgrade.searched]).tolist() == [PER_DIGIT] * 10
    pairs = upgrade.relevant()
    assert len(set(pairs)) == len(pairs) == 10 * PER_DIGIT * (PER_DIGIT - 1)
    label = {f"image {i}": upgrade.labels[i] for i in upgrade.searched}
    assert all(a != b and label[a] == label[b] for a, b in pairs)
    assert set(label) <= set(upgrade.space(upgrade.old, "old").keys.tolist())


def test_the_files_have_columns_to_color_by(upgrade):
    for network, name in ((upgrade.old, "old"), (upgrade.new, "new")):
        columns = upgrade.space(network, name).others
        digit, read, part = (np.asarray(columns.column(c).to_pylist()) for c in ("digit", "read_as", "part"))
        searched = part == "searched"
        assert digit[searched].tolist() == upgrade.labels[upgrade.searched].tolist()
        found = network.accuracy(network.encode(upgrade.images[upgrade.searched]), upgrade.labels[upgrade.searched])
        assert np.mean(read[searched] == digit[searched]) == pytest.approx(found)
        images = network.encode(upgrade.anchors[:20])
        assert read[:20].tolist() == network.read(images).tolist()


def test_translation_is_a_gain_and_no_translation_is_chance(upgrade):
    old, new = upgrade.old.encode(upgrade.images), upgrade.new.encode(upgrade.images)
    translator = Translator().fit(upgrade.old.encode(upgrade.anchors), upgrade.new.encode(upgrade.anchors))
    translated = upgrade.new.accuracy(translator.transform(old), upgrade.labels)
    assert upgrade.new.accuracy(old, upgrade.labels) < 0.3
    assert translated > upgrade.old.accuracy(old, upgrade.labels) + 0.1
    assert translated > upgrade.new.accuracy(new, upgrade.labels) - 0.03


def test_the_head_reads_its_own_vectors_as_the_network_does(upgrade):
    predicted = upgrade.new.classifier.predict(upgrade.images)
    own = upgrade.new.accuracy(upgrade.new.encode(upgrade.images), upgrade.labels)
    assert own == np.mean(predicted == upgrade.labels)


def test_the_picture_is_drawn_where_matplotlib_is(upgrade, tmp_path, monkeypatch):
    assert draw(tmp_path / "demo.png", upgrade)
    assert imread(tmp_path / "demo.png").std() > 0.05  # not an empty page
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert not draw(tmp_path / "none.png", upgrade)
    assert not (tmp_path / "none.png").exists()
