"""Addresses of stores: a URL that names a store and what in it, and that is safe to print."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from relatent._array import suggest
from relatent._errors import StoreError
from relatent._schemes import known_schemes, scheme_of

# Options that must not be in a URL, which is shown, logged and saved.
SECRETS = ("api_key", "apikey", "api-key", "token", "sslpassword")


@dataclass(frozen=True, repr=False)
class Address:
    """A store's URL in parts. Its text leaves out the password, so that it can be shown, logged and saved.

    >>> address = Address.parse("postgresql://ann:secret@db:5432/shop/items?vector=embedding")
    >>> address.host, address.port, address.path, address.name, address.options
    ('db', 5432, 'shop', 'items', {'vector': 'embedding'})
    >>> address
    Address('postgresql://ann@db:5432/shop/items?vector=embedding')
    """

    scheme: str
    host: str
    port: int | None
    path: str
    """What comes before the name: a database, or an absolute folder where there is no host."""
    name: str
    """The last part: a table, a collection, a file."""
    user: str = ""
    password: str = ""
    options: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def parse(url: str | os.PathLike[str]) -> Address:
        """Take a URL apart, or a path that ends as a store does. Names may be percent-encoded in a URL."""
        url = os.fspath(url)
        if "://" not in url:
            file = Path(url).absolute()
            scheme = scheme_of(url)
            if scheme is None:
                raise StoreError(
                    f"{url} names no store: give a URL such as {known_schemes()[0]}://…, or a path to a store."
                )
            return Address(scheme, "", None, str(file.parent), file.name)
        parts = urlsplit(url)
        if parts.scheme not in known_schemes():
            raise StoreError(f"No store is known by {parts.scheme!r}.{suggest(parts.scheme, known_schemes())}")
        options = dict(parse_qsl(parts.query))
        password = options.pop("password", unquote(parts.password or ""))
        folder, _, name = parts.path.rstrip("/").rpartition("/")
        address = Address(
            parts.scheme,
            parts.hostname or "",
            parts.port,
            unquote(folder.lstrip("/") if parts.hostname else folder),
            unquote(name),
            unquote(parts.username or ""),
            password,
            options,
        )
        secret = next((option for option in options if option.lower() in SECRETS), None)
        if secret is not None:
            raise StoreError(
                f"A URL with {secret} would show a secret wherever it is shown: set it in the environment."
            )
        if not name:
            raise StoreError(f"{address} names no table, collection or file: put its name last.")
        return address

    @property
    def file(self) -> Path:
        """The path of a store without a host."""
        return Path(self.path, self.name)

    def __str__(self) -> str:
        """Write it as a URL without the password, which can be parsed again."""
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        port = "" if self.port is None else f":{self.port}"
        folder = f"/{quote(self.path.lstrip('/'))}" if self.path.strip("/") else ""
        options = f"?{urlencode(self.options)}" if self.options else ""
        return f"{self.scheme}://{user}{self.host}{port}{folder}/{quote(self.name, safe='')}{options}"

    def __repr__(self) -> str:
        """Show no password."""
        return f"Address({str(self)!r})"
