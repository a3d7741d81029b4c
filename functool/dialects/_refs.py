"""The names that `mcp.py` still imports from here; they live in `functool.schema.json_schema`."""

from functool.schema.json_schema import MANY as MANY
from functool.schema.json_schema import children as children
