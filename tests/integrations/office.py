"""Tools with effects that are counted, and a program's tool over them."""

from typing import Any

from functool import FunctionTool, Tool
from functool.bundled.code_mode import code_mode
from tests.integrations.odd_tools import paying


class Office:
    """What was `done`, in its order, and the tool that runs programs."""

    def __init__(self, **options: Any) -> None:
        self.done: list[Any] = []

        @FunctionTool
        def note(text: str) -> str:
            """Note."""
            self.done.append(text)
            return f"noted {text}"

        self.tool: Tool = code_mode([note, paying(self.done)], **options)
