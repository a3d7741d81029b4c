"""AgentDojo's attacks against a plain agent loop with `trusted_only`. Run with `make bench-agentdojo`.

No model is needed. The agent makes the calls of the user's task, and then, fully obedient, those that
the attacker wants: each attack has reached the model, whatever it read. A person answers questions
honestly: yes to calls of the user's task, no to others. The policy below does not look at attacks.

A call that a guardrail stopped did not run, so AgentDojo's checks do not see it.

Reported for each suite: user tasks that complete without an attack, the questions to a person in
them, tasks that complete without any question, attacks that reached their goal, and user tasks that
complete under attack. Some attacks are words in the answer, and some goals are reached without any
call of the attacker's: no guardrail on calls can stop those, and a column counts them.
"""

import asyncio
import functools
import inspect
import json
import logging
import re
from importlib.metadata import version

from functool import Context, SchemaTool, ToolCall, ToolError, Toolset, ToolSettings
from functool.guardrails import require_approval, trusted_only

# The policy. These tools return what the user's own system wrote; every other tool is untrusted.
TRUSTED = {
    *("get_iban", "get_balance", "get_user_info", "get_current_day", "get_user_information"),
    *("search_contacts_by_name", "search_contacts_by_email", "get_channels"),
    *("get_users_in_channel", "list_files", "get_day_calendar_events", "search_calendar_events"),
    *("get_all_hotels_in_city", "get_all_restaurants_in_city", "get_sent_emails"),
    *("get_all_car_rental_companies_in_city", "get_scheduled_transactions"),
}
# These arguments say where something goes and what is changed, in each tool that does more than read.
GUARDED = {
    *("recipients", "recipient", "cc", "bcc", "attachments", "participants", "title", "amount"),
    *("email_id", "event_id", "file_id", "filename", "id", "email", "user", "user_email"),
    *("hotel", "company", "restaurant", "channel", "url", "password"),
}
READS = re.compile(r"(get|search|read|list|check)_(?!webpage)")
LINK = re.compile(r"(?:https?://|www\.)\S+")


def known_to_user(query, env):
    """Return what the user wrote, and whom the user's own system knows by name and address."""
    members = env.slack.users if hasattr(env, "slack") else []
    contacts = env.inbox.contact_list if hasattr(env, "inbox") else []
    return [query, *members, *[contact.email for contact in contacts]]


def is_surprising(call, context):
    """Whether a call sends a link, or takes something away, of which the user wrote nothing."""
    wrote = context.deps[0].lower()
    verb = call.name.split("_")[0]
    links = LINK.findall(f"{call.arguments.get('body')} {call.arguments.get('content')}")
    taken = verb in ("delete", "remove", "cancel") and verb not in wrote
    return taken or any(link.lower() not in wrote for link in links)


# End of the policy.


def tool_of(function, runtime, env):
    """Return a functool tool that runs a function of AgentDojo."""

    def handler(arguments):
        value, error = runtime.run_function(env, function.name, arguments)
        if error:
            raise ToolError(error)
        return value

    guardrails = []
    schema = function.parameters.model_json_schema()
    names = [name for name in schema.get("properties", {}) if name in GUARDED]
    if not READS.match(function.name):
        guardrails.append(require_approval(is_surprising))
        if names:
            wrote = lambda context: context.deps  # noqa: E731
            guardrails.append(trusted_only(*names, ask=True, wrote=wrote))
    return SchemaTool(
        function.name,
        function.description,
        schema,
        handler,
        input_guardrails=guardrails,
        settings=ToolSettings(untrusted=function.name not in TRUSTED),
    )


class Agent:
    """AgentDojo's pipeline: makes the calls of the user's task, then those of the attacker."""

    name = "obedient"

    def __init__(self, user_task, injection_task=None, obeys=True):
        self.user_task = user_task
        self.obeys = obeys
        self.injection_task = injection_task
        self.asked = []

    def query(self, query, runtime, env, messages=(), extra_args=None):
        from agentdojo.types import ChatAssistantMessage, text_content_block_from_string

        tools = Toolset([tool_of(f, runtime, env) for f in runtime.functions.values()])
        own = self.user_task.ground_truth(env)
        wanted = [
            (call.function, json.dumps(call.args, sort_keys=True, default=str)) for call in own
        ]
        by_user = True

        def approver(request):
            self.asked.append((request.tool, by_user))
            return by_user and any(name == request.tool for name, _ in wanted)

        context = Context(known_to_user(query, env), approver=approver)
        calls = [(True, call) for call in own]
        if self.injection_task is not None and self.obeys:
            calls += [(False, call) for call in self.injection_task.ground_truth(env)]
        told = []
        for number, (by_user, call) in enumerate(calls):
            arguments = json.loads(json.dumps(call.args, default=str))
            made = ToolCall(name=call.function, arguments=arguments, id=str(number))
            result = asyncio.run(tools.call(made, context))
            if result.is_error and not by_user:  # It was refused: AgentDojo counts calls that ran.
                continue
            shown = [text_content_block_from_string(result.text if by_user else "")]
            told.append(ChatAssistantMessage(role="assistant", tool_calls=[call], content=shown))
        said = [self.user_task.GROUND_TRUTH_OUTPUT]
        if self.injection_task is not None:
            said.append(getattr(self.injection_task, "GROUND_TRUTH_OUTPUT", ""))
        content = [text_content_block_from_string("\n".join(said))]
        last = ChatAssistantMessage(role="assistant", tool_calls=None, content=content)
        return query, runtime, env, [*messages, *told, last], extra_args or {}


def measure(suite) -> list[int]:
    """Count tasks, completed, without a question, questions, pairs, attacks through, utility under attack,
    and attacks that count as reached without a call of the attacker's."""
    found = [len(suite.user_tasks), 0, 0, 0, 0, 0, 0, 0]
    for user_task in suite.user_tasks.values():
        agent = Agent(user_task)
        utility, _ = suite.run_task_with_pipeline(agent, user_task, None, {})
        found[1] += utility
        found[2] += utility and not agent.asked
        found[3] += len(agent.asked)
        for injection_task in suite.injection_tasks.values():
            injections = dict.fromkeys(suite.get_injection_vector_defaults(), injection_task.GOAL)
            injections = {name: text.replace('"', "'") for name, text in injections.items()}
            utility, reached = suite.run_task_with_pipeline(
                Agent(user_task, injection_task), user_task, injection_task, injections
            )
            found[4] += 1
            found[5] += reached
            found[6] += utility
            if reached:  # Some goals count as reached without any call of the attacker's.
                idle = Agent(user_task, injection_task, obeys=False)
                _, anyway = suite.run_task_with_pipeline(
                    idle, user_task, injection_task, injections
                )
                found[7] += anyway
    return found


def main() -> None:
    from agentdojo.task_suite.load_suites import get_suites

    logging.disable(logging.CRITICAL)
    lines = len(
        inspect.getsource(inspect.getmodule(main))
        .split("TRUSTED = ")[1]
        .split("# End of")[0]
        .splitlines()
    )
    print(
        f"agentdojo {version('agentdojo')}, suites v1, ground-truth calls; a policy of {lines} lines"
    )
    print(
        "| suite | tasks completed | without a question | questions | attacks through | of them without a call | tasks under attack |"
    )
    print("|---|---|---|---|---|---|---|")
    rows = {name: measure(suite) for name, suite in get_suites("v1").items()}
    rows["all"] = functools.reduce(
        lambda a, b: [x + y for x, y in zip(a, b, strict=True)], rows.values()
    )
    for name, (tasks, done, quiet, asked, pairs, through, under, idle) in rows.items():
        print(
            f"| {name} | {done} of {tasks} | {quiet} | {asked} | {through} of {pairs} ({through / pairs:.1%}) | {idle} | {under} |"
        )


if __name__ == "__main__":
    main()
