"""The site, built once with warnings as errors: every link resolves, and nothing is loaded from other hosts."""

import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).parents[2]
MAKE = runpy.run_path(str(ROOT / "docs" / "make_api.py"))
PUBLIC = {path: value for package in MAKE["PACKAGES"] for path, value in MAKE["public_names"](package)}
MEGABYTE = 2**20

pytestmark = pytest.mark.docs


class Page(HTMLParser):
    """The links of a page, the files it loads, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.places = [], [], set()
        self.feed(path.read_text(encoding="utf8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.places |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        loaded = {"link": "href", "script": "src", "img": "src", "source": "src", "iframe": "src"}.get(tag)
        if loaded and attrs.get(loaded):
            self.loads.append(attrs[loaded])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx_gallery", reason="pip install 'relatent[docs]'")
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "sphinx", "-W", "-q", str(ROOT / "docs"), str(folder)], check=True)
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in site.rglob("*.html")}


def test_nothing_is_loaded_from_other_hosts(site, pages):
    assert not [url for page in pages.values() for url in page.loads if re.match(r"(https?:)?//", url)]
    styles = "".join(path.read_text(encoding="utf8") for path in site.rglob("*.css"))
    assert not re.findall(r"url\(['\"]?https?:|@import ['\"]?https?:", styles)
    assert (site / "_static" / "mathjax" / "tex-chtml.js").exists()


def test_every_link_within_the_site_resolves(pages):
    broken = []
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            target, place = urldefrag(link)
            if re.match(r"[a-z]+:", link) or not (target or place):
                continue
            file = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            if not file.exists() or (place and file in pages and unquote(place) not in pages[file].places):
                broken.append((path.name, link))
    assert broken == []


def test_every_script_of_the_gallery_has_a_picture(site):
    scripts = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))
    assert len(scripts) >= 10
    for script in scripts:
        pictures = list((site / "_images").glob(f"sphx_glr_{script.stem}_0*.png"))
        assert pictures, script.name
        assert all(picture.stat().st_size < MEGABYTE for picture in pictures)


def test_links_for_language_models_are_at_the_root(site):
    text = (site / "llms.txt").read_text(encoding="utf8")
    named = re.findall(r"\]\(([\w/.]+)\)", text)
    assert named
    assert [link for link in named if not (site / link).exists()] == []


def test_the_reference_holds_public_names_only(site):
    text = "".join(path.read_text(encoding="utf8") for path in (site / "api").glob("*.html"))
    entries = re.findall(r'<dt class="sig[^>]*id="(relatent\.[^"]*)"', text)
    assert set(entries) >= set(PUBLIC)
    for entry in entries:
        owner = entry if entry in PUBLIC else entry.rpartition(".")[0]
        member = entry.removeprefix(owner).removeprefix(".")
        known = {*dir(PUBLIC[owner]), *getattr(PUBLIC[owner], "__annotations__", {})}
        # Names learned in fit end in an underscore and are not attributes of the class.
        assert not member or member in known or re.fullmatch(r"[a-z]\w*_", member), entry
