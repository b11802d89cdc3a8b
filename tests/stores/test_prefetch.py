"""Items that another thread makes ahead of time: in order, no more than asked for, errors in their turn."""

import threading

import pytest

from relatent.stores.base import read_ahead


def squares(made, stop=100):
    try:
        for n in range(stop):
            made.append(n)
            yield n * n
    finally:
        made.append("closed")


@pytest.mark.parametrize("ahead", [1, 2, 200])
def test_all_items_come_in_order(ahead):
    assert list(read_ahead(squares([]), ahead)) == [n * n for n in range(100)]


def test_no_more_is_made_than_asked_for_and_the_generator_is_closed_with_its_reader():
    made = []
    reading = read_ahead(squares(made), 2)
    assert next(reading) == 0
    reading.close()
    assert made[-1] == "closed"
    assert len(made) <= 1 + 2 + 1


def test_an_error_comes_in_its_turn():
    def broken():
        yield threading.current_thread()
        raise ValueError("broken")

    reading = read_ahead(broken(), 3)
    assert next(reading) is not threading.current_thread()
    with pytest.raises(ValueError, match="broken"):
        next(reading)
