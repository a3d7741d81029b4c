"""The built site, as `make docs` leaves it in build/site: nothing leads nowhere, and no page asks another host for anything."""

import html
import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import functool

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build/site"
PAGES = sorted(SITE.glob("**/*.html"))
LINK = re.compile(r"""(?:href|src)=["']?([^"'\s>]+)""")
LOADED = re.compile(r"""<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=["']?([^"'\s>]+)""")


def targets(page, pattern):
    return [html.unescape(link) for link in pattern.findall(page.read_text(encoding="utf-8"))]


def test_there_is_a_site():
    """The site was built, with a page for each Markdown file."""
    pages = {path.relative_to(SITE).with_suffix(".md").as_posix() for path in PAGES}

    assert {
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob("**/*.md")
    } <= pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(SITE).as_posix())
def test_every_link_leads_somewhere(page):
    """Each link and picture of a page is a file of the site, and each anchor is on its page."""
    broken = []
    for target in targets(page, LINK):
        parts = urlsplit(target)
        if parts.scheme or parts.netloc or page.name == "404.html":
            continue
        file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        file = file / "index.html" if file.is_dir() else file
        anchor = unquote(parts.fragment)
        if not file.is_file() or (
            anchor and file.suffix == ".html" and f'id="{anchor}"' not in file.read_text("utf-8")
        ):
            broken.append(target)

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(SITE).as_posix())
def test_no_page_loads_from_another_host(page):
    """A page works offline: its scripts, styles, fonts and pictures are the site's own."""
    assert [link for link in targets(page, LOADED) if urlsplit(link).netloc] == []


@pytest.mark.parametrize("name", functool.__all__)
def test_the_reference_shows_the_face(name):
    """Each public name has a heading that a link can lead to, and words below it."""
    shown = [
        page
        for page in (SITE / "reference").glob("*.html")
        if f'id="functool.{name}"' in page.read_text(encoding="utf-8")
    ]

    assert len(shown) == 1


def test_search_knows_the_pages_and_the_names():
    """The search index holds pages and names of the API."""
    text = (SITE / "search.json").read_text(encoding="utf-8")

    assert json.loads(text)
    assert all(word in text for word in ("first-agent", "FunctionTool", "require_approval"))


def test_there_is_a_dark_mode():
    """A reader can choose between light and dark."""
    text = (SITE / "index.html").read_text(encoding="utf-8")

    assert all(f'data-md-color-scheme="{scheme}"' in text for scheme in ("default", "slate"))
