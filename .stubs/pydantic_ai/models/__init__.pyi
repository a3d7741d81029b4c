# Where pydantic-ai is not installed, pyright would take functool/integrations/pydantic_ai.py for
# it.
from typing import Any

def __getattr__(name: str) -> Any: ...
