"""The program around the commands: common options in, errors and exit codes out.

Every command takes `--lake`, `--warehouse` and `--json`, and so does the program itself, so these
may be given before or after the command's name. Every exception of a command is caught here,
printed as text or JSON, with a traceback only if `LAKEWARD_DEBUG` is set, and becomes an exit code.
"""

from __future__ import annotations

import inspect
import os
import select
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from lakeward.cli import exits
from lakeward.cli.catalogue import Commands
from lakeward.cli.context import Cli
from lakeward.cli.interrupts import forget_interrupt
from lakeward.cli.output.base import Failure
from lakeward.cli.streams import forget_output
from lakeward.errors import LakewardError, StorageError

PANEL: Final = "Every command"
LakeOption = Annotated[
    str | None,
    typer.Option(
        "--lake",
        metavar="DIR|URL",
        help="The lake: a directory, or a postgresql:// URL. LAKEWARD_LAKE, else ./lake.",
        rich_help_panel=PANEL,
    ),
]
WarehouseOption = Annotated[
    str | None,
    typer.Option(
        "--warehouse",
        metavar="DIR",
        help="Where the tables' files are, for a lake on PostgreSQL. LAKEWARD_WAREHOUSE.",
        rich_help_panel=PANEL,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Answer with one JSON object, errors too.", rich_help_panel=PANEL),
]
UtcOption = Annotated[
    bool,
    typer.Option("--utc", help="Show times in UTC, not in your zone.", rich_help_panel=PANEL),
]
_COMMON: Final = (
    inspect.Parameter("lake", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=LakeOption),
    inspect.Parameter(
        "warehouse", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=WarehouseOption
    ),
    inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption),
    inspect.Parameter("utc", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=UtcOption),
)


class Program(TyperGroup):
    """The root of the commands; each command's module is imported when it is used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands(_convert_all_plainly, self.commands)
        _convert_plainly(self)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  as typer calls it
        """Return the names of the commands."""
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; a broken pipe is reported to `_guarded`."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # typer would end the process here with a code of its own.
            raise _BrokenPipe from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command; end the process with its exit code unless `standalone_mode` is off."""
        arguments = list(sys.argv[1:] if args is None else args)
        if not arguments or {"--help", "-h"} & set(arguments):
            _colour_help()
        cli = Cli()

        def run() -> Any:
            return super(Program, self).main(
                args=arguments,
                prog_name=prog_name or "lakeward",
                complete_var=complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                obj=cli,
                **extra,
            )

        code = _guarded(run, cli, arguments)
        if standalone_mode:
            sys.exit(code)
        return code


def _convert_plainly(command: Any) -> None:
    """Keep typer from loading pydantic, 80 ms of CPU, for values that need no conversion."""
    params_of = command.get_params

    def get_params(ctx: Any) -> Any:
        found = params_of(ctx)
        for parameter in found:
            if "process_value" not in vars(parameter):
                parameter.process_value = partial(_processed, parameter, parameter.process_value)
            if getattr(parameter, "is_flag", False):
                # typer would show a flag as an option that takes a value.
                parameter.display_type_rich = _no_type
        return found

    command.get_params = get_params


def _convert_all_plainly(command: Any) -> None:
    """Apply `_convert_plainly` to a command and its subcommands."""
    _convert_plainly(command)
    for below in getattr(command, "commands", {}).values():
        _convert_all_plainly(below)


def _no_type(ctx: Any) -> None:  # noqa: ARG001  as typer calls it
    return None


def _colour_help() -> None:
    """Give the help colours that are read on light backgrounds too: typer's are yellow and cyan."""
    from typer import rich_utils

    rich_utils.STYLE_OPTION = rich_utils.STYLE_COMMANDS_TABLE_FIRST_COLUMN = "bold"
    rich_utils.STYLE_SWITCH = rich_utils.STYLE_USAGE = "bold"
    rich_utils.STYLE_TYPES = rich_utils.STYLE_OPTION_ENVVAR = "dim"


def _processed(parameter: Any, process: Callable[..., Any], ctx: Any, value: Any) -> Any:
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    is_single = not parameter.multiple and parameter.nargs == 1
    if kind is int and isinstance(value, str) and value.isascii() and value.isdecimal():
        low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
        number = int(value)
        if (low is None or number >= low) and (high is None or number <= high) and is_single:
            return number
    is_text = kind is str and isinstance(value, str) and is_single
    is_default = isinstance(value, bool | int | float) and value == parameter.default
    if is_text or is_default or (value is None and not parameter.required):
        plain = () if value is None and not is_single else value
        return plain if parameter.callback is None else parameter.callback(ctx, parameter, plain)
    return process(ctx, value)


def command(
    app: typer.Typer, name: str | None = None, **settings: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command that also takes the options of every command.

    Its first parameter is the `Cli`; the others are the options and arguments of this command.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        app.command(name, help=_reflowed(function), **settings)(_with_common(function))
        return function

    return register


def group(app: typer.Typer) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function that runs when a group is called without a command."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        run = _with_common(function)
        app.callback(invoke_without_command=True, help=_reflowed(function))(run)
        return function

    return register


def _with_common(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function as typer expects it: with the context and the options of every command."""
    signature = inspect.signature(function, eval_str=True)
    own = list(signature.parameters.values())[1:]

    @wraps(function)
    def run(ctx: typer.Context, **given: Any) -> None:
        cli: Cli = ctx.obj
        cli.take(**{name: given.pop(name) for name in ("lake", "warehouse", "json", "utc")})
        if ctx.invoked_subcommand is None:
            function(cli, **given)

    context = inspect.Parameter(
        "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    parameters = [context, *own, *_COMMON]
    # typer reads both.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _reflowed(function: Callable[..., None]) -> str:
    """Return a function's docstring with each paragraph on one line; the terminal wraps them."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(p.split()) for p in paragraphs)


class _BrokenPipe(Exception):
    """Stands for the `BrokenPipeError` that is its cause."""


def _guarded(run: Callable[[], Any], cli: Cli, arguments: Sequence[str]) -> int:
    """Run the program, and turn any exception into an exit code."""
    try:
        result = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _interrupted(cli)
    except Exception as error:  # noqa: BLE001  every exception becomes an exit code
        found = error.__cause__ if isinstance(error, _BrokenPipe) else error
        if isinstance(found, BrokenPipeError) and _is_output_closed():
            # The reader of the output has closed the pipe: that is no error.
            forget_output()
            return exits.OK
        cli.json = cli.json or _asks_json(arguments)
        return _failed(found if isinstance(found, Exception) else error, cli)
    if isinstance(result, int) and result == exits.INTERRUPTED:
        return _interrupted(cli)
    return result if isinstance(result, int) else exits.OK


def _failed(error: Exception, cli: Cli) -> int:
    if os.environ.get("LAKEWARD_DEBUG"):
        sys.stderr.write(cli.output.mask("".join(traceback.format_exception(error))))
    match error:
        case LakewardError():
            failure = Failure(type(error).__name__, error.what, error.hint, error.facts)
            code = error.exit_code
        case typer.TyperException() | typer.Abort():
            failure = _usage(error)
            code = getattr(error, "exit_code", exits.UNEXPECTED)
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            text = f"{place}{error.strerror or error}."
            hint = "Check the path, its permissions and the space on the disk."
            failure = Failure("StorageError", text, hint, {})
            code = StorageError.exit_code
        case _:
            hint = "This is a mistake in Lakeward. LAKEWARD_DEBUG=1 shows where it happened."
            text = str(error) or type(error).__name__
            failure = Failure(type(error).__name__, text, hint, {})
            code = exits.UNEXPECTED
    _report(failure, cli)
    return code


def _report(failure: Failure, cli: Cli) -> None:
    """Print an error, as text if standard output cannot be written; nothing into a closed pipe."""
    try:
        cli.output.fail(failure)
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
    except OSError:
        forget_output()
        if cli.json:
            from lakeward.cli.output.text_form import TextOutput

            output = TextOutput()
            output.mask = cli.output.mask
            with suppress(OSError):
                output.fail(failure)


def _usage(error: Exception) -> Failure:
    message = error.format_message() if isinstance(error, typer.TyperException) else "Aborted."
    context: typer.Context | None = getattr(error, "ctx", None)
    if context is None:
        return Failure("UsageError", message, None, {})
    hint = f"`{context.command_path} --help` says more."
    return Failure("UsageError", message, hint, {}, usage=context.get_usage())


def _interrupted(cli: Cli) -> int:
    forget_interrupt()
    _report(Failure("Interrupted", "Interrupted.", None, {}), cli)
    return exits.INTERRUPTED


def _asks_json(arguments: Sequence[str]) -> bool:
    """Return whether `--json` was given, for arguments that could not be parsed completely."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def _is_output_closed() -> bool:
    """Return whether the reader of standard output has closed it, if it is a pipe."""
    try:
        watched = select.poll()
        watched.register(sys.stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(0))
    except (OSError, ValueError):
        return False
