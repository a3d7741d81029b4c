# Where agent-framework is not installed, pyright would take
# functool/integrations/agent_framework.py for it.
from typing import Any

def __getattr__(name: str) -> Any: ...
