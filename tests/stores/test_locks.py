"""Every store: one migration at a time, and errors that name the store."""

from __future__ import annotations

import subprocess
import sys

import pytest

from relatent.stores import StoreError, open_store


def test_a_lock_keeps_a_second_migration_out_and_ends_with_its_block(url, store):
    with store.lock(), pytest.raises(StoreError, match="nother"), open_store(url) as second, second.lock():
        pass
    with store.lock():
        pass


def test_a_lock_dies_with_its_process(url, store):
    store.close()
    died = "import os, sys; from relatent.stores import open_store; s = open_store(sys.argv[1]); s.lock().__enter__(); "
    killed = subprocess.run([sys.executable, "-c", died + "os.kill(os.getpid(), 9)", url], check=False)
    assert killed.returncode == -9
    with open_store(url) as store, store.lock():
        pass


def test_what_is_not_there_is_named(case, tmp_path):
    with pytest.raises(StoreError, match="not") as refused:
        open_store(case.missing(tmp_path))
    assert "secret" not in str(refused.value)


def test_closing_twice_is_no_error(store):
    store.close()
    store.close()
