import numpy as np

import relatent as rl
from relatent.evaluate import compare_spaces


def test_rows_are_joined_on_keys_and_drawn_by_the_seed(spaces):
    old, new = spaces
    x, y = rl.parallel(old, new)
    whole, alone = compare_spaces(old, new, permutations=5), rl.compare(x, y, permutations=5)
    assert whole.to_dict() == alone.to_dict()
    few = compare_spaces(old, new, max_rows=100, permutations=5)
    assert (few.n, few.permutations) == (100, 5)
    assert few.to_dict() == compare_spaces(old, new, max_rows=100, permutations=5).to_dict()
    assert few["cka"].value != compare_spaces(old, new, max_rows=100, permutations=5, seed=1)["cka"].value
    assert np.isclose(few["cka"].value, 1)


def test_stages_are_shown_with_their_time_when_wanted(spaces, capsys):
    compare_spaces(*spaces, max_rows=50, permutations=2, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    for words in ("joining keys", "reading 50 rows", "linear measures of 50 rows", " s"):
        assert words in shown.err
    compare_spaces(*spaces, max_rows=50, permutations=2)
    assert capsys.readouterr().err == ""
