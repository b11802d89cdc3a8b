"""What the rooms announce: modules are modules, and every public name is theirs."""

import importlib
import inspect
import pkgutil

import pytest

import relatent as rl

ROOMS = (rl.evaluate, rl.decide, rl.monitor, rl.translate, rl.migrate, rl.report)
MODULES = [f"{room.__name__}.{found.name}" for room in ROOMS for found in pkgutil.iter_modules(room.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_no_function_takes_the_name_of_a_module(name):
    module = importlib.import_module(name)
    room, short = name.rsplit(".", 1)
    assert inspect.ismodule(module)
    assert getattr(importlib.import_module(room), short) is module


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_every_public_name_is_announced(room):
    assert all(hasattr(room, name) for name in room.__all__)  # some are imported when they are first used
    here = {n for n, value in vars(room).items() if not n.startswith("_") and not inspect.ismodule(value)}
    assert here - {"attach"} == set(room.__all__)


def test_completion_shows_what_is_announced_and_nothing_else():
    assert sorted(rl.evaluate.__all__) == dir(rl.evaluate)
