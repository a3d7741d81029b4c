"""What an integration says where its package is missing."""

import importlib
import re
import sys

import pytest


def check_missing_extra(
    module: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Import an integration as if its package were not installed: the error is the command that installs it."""
    monkeypatch.delitem(sys.modules, f"functool.integrations.{module}", raising=False)
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=re.escape(f"pip install 'functool[{extra}]'")):
        importlib.import_module(f"functool.integrations.{module}")
