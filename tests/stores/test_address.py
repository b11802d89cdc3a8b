import pytest

from relatent.stores import Address, StoreError, is_store

URLS = [
    "postgresql://ann@db:5432/shop/items?vector=embedding",
    "postgresql://db/shop/x%22%3B%20DROP%20TABLE%20y%3B%20--",
    "qdrant://localhost:6333/items",
    "lance:///srv/db/items.lance",
    "faiss:///srv/index%20one.faiss",
]


@pytest.mark.parametrize("url", URLS)
def test_an_address_is_written_as_it_was_read(url):
    assert str(Address.parse(url)) == url
    assert Address.parse(str(Address.parse(url))) == Address.parse(url)


def test_the_password_is_read_and_never_shown():
    address = Address.parse("postgresql://ann:s%40cret@db/shop/items")
    assert address.password == "s@cret"
    assert "cret" not in str(address) + repr(address)


def test_a_path_is_a_store_by_its_suffix(tmp_path):
    address = Address.parse(tmp_path / "new?.faiss")
    assert (address.scheme, address.file) == ("faiss", tmp_path / "new?.faiss")
    assert Address.parse(str(address)).file == address.file


@pytest.mark.parametrize("url", ["mongo://db/x", "postgresql://ann:secret@db", "qdrant://ann:secret@db/"])
def test_what_names_no_store_is_refused_without_the_password(url):
    with pytest.raises(StoreError) as refused:
        Address.parse(url)
    assert "secret" not in str(refused.value)


def test_files_are_not_stores():
    assert not any(is_store(path) for path in ("old.parquet", "s3://bucket/old.parquet", "folder"))
