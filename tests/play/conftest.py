"""A playground in a process of its own, and a real Chromium that looks at it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command_line import PROGRAM

KIT = Path(__file__).with_name("kit.py")
ASSETS = Path(__file__).parents[2] / "docs" / "assets"
CHROMIUM = shutil.which("chromium")


class Playground:
    """A running `functool play`."""

    def __init__(self, *words, cwd, env=None):
        # The tests of the page need many browsers: the operator's token may be exchanged by each.
        self.process = subprocess.Popen(
            [*PROGRAM, "play", *words],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://"), self.process.stderr.read()
        self.origin, _, self.token = self.url.partition("/?token=")

    def stop(self):
        self.process.terminate()
        rest = self.process.communicate(timeout=30)
        return self.process.returncode, rest[1]


@pytest.fixture
def playground(tmp_path):
    """A function that starts a playground."""
    started = []

    def start(*words, **options):
        started.append(Playground(*words, **{"cwd": tmp_path, **options}))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.stop()


TOKEN = "a-token-that-tests-know"


@pytest.fixture(scope="session")
def kit(tmp_path_factory):
    """The playground of the kit, shared by tests that change nothing of it."""
    folder = tmp_path_factory.mktemp("kit")
    running = Playground(
        str(KIT), "--context", f"{KIT}:ada", cwd=folder, env={"FUNCTOOL_PLAY_TOKEN": TOKEN}
    )
    yield running
    running.stop()


@pytest.fixture(scope="session")
def browser():
    """A real Chromium."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """A function that opens a page of a playground; no page may log an error or leave its host."""
    contexts, troubles = [], []

    def opened(running, path=None, **options):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on(
            "console",
            # What the page asks for and is refused, it shows.
            lambda message: (
                message.type == "error"
                and "status of 40" not in message.text
                and troubles.append(f"console: {message.text}")
            ),
        )
        page.on(
            "request",
            lambda request: (
                request.url.startswith((running.origin, "data:", "blob:"))
                or troubles.append(f"left: {request.url}")
            ),
        )
        page.goto(running.url if path is None else running.origin + path)
        page.locator("button.tool").first.wait_for()  # From now on the page listens.
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def page(kit, open_page):
    """A page of the kit's playground."""
    return open_page(kit)
