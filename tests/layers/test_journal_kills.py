"""Processes that are killed at any point lose no call and repeat none; see `journal_kills.py`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("FUNCTOOL_JOURNAL_KILLS", "10_000"))
PROMISES = (
    "duplicates",
    "successes_without_effect",
    "effects_without_record",
    "begun_and_neither_done_nor_unknown",
    "unknown_and_not_told",
)


def killed(kills, directory, *options):
    command = [sys.executable, "-m", "tests.layers.journal_kills", "--kills", str(kills)]
    command += ["--directory", str(directory), *options]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    print(shown)
    return json.loads(shown)


def check(found, kills):
    assert found["kills"] >= kills
    assert {promise: found[promise] for promise in PROMISES} == dict.fromkeys(PROMISES, 0)
    assert found["other_answers"] == []


def test_killed_processes_lose_and_repeat_nothing(tmp_path):
    """After kills at random points no effect is doubled, no call is lost, and the unknown is told."""
    check(killed(40, tmp_path), 40)


def test_without_a_journal_the_same_kills_repeat_effects(tmp_path):
    """The harness sees what a journal prevents."""
    assert killed(20, tmp_path, "--bare")["duplicates"] > 0


@pytest.mark.slow
def test_ten_thousand_kills_lose_and_repeat_nothing(tmp_path):
    """So it is after 10,000 kills, or as many as FUNCTOOL_JOURNAL_KILLS says."""
    found = killed(KILLS, tmp_path, "--seed", "7")

    check(found, KILLS)
    # Both kinds of interrupted calls were met: no answer can tell them apart.
    assert 0 < found["unknown_that_took_effect"] < found["unknown"]
