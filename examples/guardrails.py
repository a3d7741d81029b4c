"""Four guardrails on one tool.

They limit its calls, block what is listed, ask a person, and keep secrets out of the answer.

python -m examples.guardrails
"""

import asyncio

from functool import Context, FunctionTool, ToolCall
from functool.guardrails import block, rate_limit, redact, require_approval

ROWS = {
    "customers": "Ada Lovelace, ada@example.org, DE89 3704 0044 0532 0130 00",
    "orders": "17 orders of 3 customers, 512.40 EUR",
    "salaries": "nobody should read this",
}


def changes_data(call: ToolCall, context: Context) -> bool:
    """Whether a call needs a person: reading does not."""
    return call.arguments["action"] == "clear"


@FunctionTool(
    # In this order: a blocked call counts, and nobody is asked about one that would be refused
    # anyway.
    input_guardrails=[
        rate_limit(5, per_seconds=60),
        block([r"salar"], argument="table"),
        require_approval(changes_data),
    ],
    output_guardrails=[
        redact([r"\b[A-Z]{2}\d{2}(?: ?\w{4}){3,7}(?: ?\w{1,3})?\b", r"(?<![\w.])[\w.]+@[\w.]+\w"])
    ],
)
def table(table: str, action: str = "read") -> str:
    """Read or clear a table.

    Args:
        table: The table's name.
        action: `read`, or `clear` to empty it.
    """
    if action == "clear":
        return f"Cleared {table}: {ROWS[table]}"
    return ROWS[table]


async def main() -> None:
    context = Context()

    async def call(id: str, **arguments: str) -> None:
        result = await table.invoke(ToolCall(name="table", arguments=arguments, id=id), context)
        deeds = (
            ", ".join(
                f"{deed['name']} {deed['did']}" for deed in result.metadata.get("guardrails", [])
            )
            or "all passed"
        )
        print(f"{id}  {arguments}\n   {deeds}: {result.text}")
        if request := result.metadata.get("approval"):
            # Here a host would show `request.arguments` to a person first.
            context.approve(request)

    await call("1", table="orders")
    await call("2", table="customers")
    await call("3", table="salaries")
    await call("4", table="customers", action="clear")
    await call("4", table="customers", action="clear")
    await call("5", table="orders")


if __name__ == "__main__":
    asyncio.run(main())
