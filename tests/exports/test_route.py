import numpy as np
import pytest
from tests.exports.translators import fitted, near, spaces

from relatent.exports.formats import Route


def test_roles_that_are_not_translated_are_prepared_for_those_that_are():
    x, y = spaces("digits")
    two_sided = fitted("retrieval", "digits")
    route = Route(two_sided, "source", "target", ("query",))
    assert (route.embedder("query"), route.embedder("document")) == ("source", "target")
    near(route.rows(x[:30], "query"), two_sided.transform(x[:30]))
    near(route.rows(y[:30], "document"), two_sided.transform_target(y[:30]))
    frozen = Route(fitted("frozen", "digits"), "source", "target", ("query",))
    np.testing.assert_array_equal(frozen.rows(y[:3], "document"), y[:3])


@pytest.mark.parametrize(
    ("setting", "translate", "says"),
    [
        ("retrieval", ("query", "document"), "a map for queries and one for documents"),
        ("frozen", ("queries",), "expected one or both"),
        ("frozen", (), "expected one or both"),
    ],
)
def test_what_means_nothing_is_refused(setting, translate, says):
    with pytest.raises(ValueError, match=says):
        Route(fitted(setting, "digits"), "source", "target", translate)


def test_a_role_without_an_embedder_says_so_when_it_is_used():
    route = Route(fitted("frozen", "digits"), "source", translate=("query",))
    with pytest.raises(ValueError, match="embeds a document"):
        route.embedder("document")
    assert route.lists([], "query") == []
