"""Ask at the terminal whether a call may run, and let the person edit it first."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from functool import ApprovalRequest, Decision, GuardrailError
from functool.integrations._signals import handled
from functool.integrations.values import check_readable, json_value
from functool.integrations.visible import arguments_text, sources_text, visible

NO_TERMINAL = "There is no terminal to ask at: --yes approves."
MAX_QUESTION = 10_000
"""The most characters of arguments that a person is shown."""
HELP = "y runs it, N refuses it, e opens the arguments in $EDITOR"

Answer = TypeVar("Answer")


def approve(request: ApprovalRequest) -> Decision:
    """Ask at the terminal whether a call may run. This is an approver for a Context.

    A person who is asked sees all of the arguments.

    Raises:
        GuardrailError: Nobody can be asked: the arguments are too long to show, or there is no
            terminal. So the call is refused.
    """
    shown = arguments_text(request.arguments, MAX_QUESTION) + sources_text(request.sources)
    check_readable(shown, MAX_QUESTION)
    question = f"Allow {request_text(request)} to run?"
    if not sys.stdin.isatty():
        click.echo(f"{question}\n{NO_TERMINAL}", err=True)
        raise GuardrailError("The call was refused. Nobody was asked: there is no terminal.")
    refused = Decision(approved=False, reason="The person at the terminal did not approve.")
    while True:
        words = f"{question} [y/N/e]"
        given = answered(click.prompt, words, "n", show_default=False, err=True)
        answer = "n" if given is None else str(given).strip().lower()
        if answer in ("y", "yes"):
            return Decision(approved=True)
        if answer in ("n", "no"):
            return refused
        if answer in ("e", "edit") and (arguments := edited(request)) is not None:
            return Decision(approved=True, arguments=arguments)
        question = HELP


def answered(ask: Callable[..., Answer], *words: Any, **options: Any) -> Answer | None:
    """Return a person's answer at the terminal, or None at the end of the input (Ctrl-D).

    Raises:
        KeyboardInterrupt: The person pressed Ctrl-C. The handler of an event loop would only cancel
            the task, which waits for the answer and would not see that.
    """
    try:
        with handled(signal.SIGINT, signal.default_int_handler):
            return ask(*words, **options)
    except click.Abort as error:
        click.echo(err=True)
        # click raises an Abort for Ctrl-C and for Ctrl-D alike. Its context tells which it was.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        return None


def request_text(request: ApprovalRequest) -> str:
    """Return the text of a request: the tool, all its arguments, and their sources."""
    text = f"{request.tool} {arguments_text(request.arguments, MAX_QUESTION)}"
    return visible(text) + sources_text(request.sources)


def edited(
    request: ApprovalRequest, edit: Callable[..., str | None] | None = None
) -> dict[str, Any] | None:
    """Return the arguments after a person edited them in $EDITOR.

    None if nothing was saved, or if no editor starts: its error is printed.
    """
    text: str | None = arguments_text(request.arguments)
    while True:
        try:
            text = (edit or click.edit)(text, extension=".json", require_save=True)
        except click.ClickException as error:
            click.echo(visible(error.format_message()), err=True)
            return None
        if text is None:
            return None
        try:
            return read_arguments(text)
        except ValueError as error:
            if not answered(click.confirm, f"{error}. Edit again?", default=True, err=True):
                return None


def read_arguments(text: str) -> dict[str, Any]:
    """Return the JSON object in a text.

    Raises:
        ValueError: It is not a JSON object.
    """
    try:
        found = json_value(text)
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from None
    if not isinstance(found, dict):
        raise ValueError("the arguments are one JSON object")
    return found
