"""The commands by name; the module of a command is imported when the command is run or shown.

Each module of `lakeward.cli.commands` has a function `register(app)`, which adds the commands that
`MODULES` lists for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, Final

import typer
from typer.main import get_group

MODULES: Final[dict[str, tuple[str, ...]]] = {
    "demo": ("demo",),
    "lakes": ("init", "tables", "publish", "outcome", "locks"),
    "transactions": ("snapshot", "violations", "transactions"),
    "tables": ("create", "adopt", "show", "read"),
    "queries": ("sql",),
    "schemas": ("alter", "schema"),
    "policies": ("policy",),
    "changes": ("delete", "drop", "rename", "audit"),
    "branches": ("clone", "branch"),
    "streams": ("ingest",),
    "histories": ("history", "versions", "diff"),
    "following": ("changes",),
    "tags": ("tag",),
    "revisions": ("restore", "undo"),
    "exports": ("export", "retention"),
    "pipelines": ("run", "runs"),
    "health": ("doctor",),
    "maintenance": ("vacuum", "expire", "checkpoint", "undrop", "jobs"),
    "optimizing": ("health", "optimize", "maintain"),
    "migrating": ("migrate",),
    "keeping": ("backup", "rebuild", "relocate", "store"),
    "observing": ("lineage", "metrics"),
    "judging": ("quality", "statistics", "sla"),
    "service": ("serve", "token"),
}
"""The commands of each module, in the order in which the help lists them."""


class Commands(MutableMapping[str, Any]):
    """All commands by name: looking one up imports its module, listing the names imports none.

    Args:
        prepare: Called once with each command after it was created.
        made: Commands that exist already.
    """

    def __init__(self, prepare: Callable[[Any], None], made: Mapping[str, Any]) -> None:
        self._prepare = prepare
        self._modules = {name: module for module, names in MODULES.items() for name in names}
        self._loaded: dict[str, Any] = dict(made)
        for command in self._loaded.values():
            prepare(command)

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded.update(self._commands_of(self._modules[name]))
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        self._modules.pop(name, None)
        del self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules or name in self._loaded

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._modules, *self._loaded)))

    def __len__(self) -> int:
        return len(self._modules.keys() | self._loaded.keys())

    def _commands_of(self, module: str) -> dict[str, Any]:
        app = typer.Typer(rich_markup_mode="rich")
        import_module(f"lakeward.cli.commands.{module}").register(app)
        made: dict[str, Any] = dict(get_group(app).commands)
        for command in made.values():
            self._prepare(command)
        return made
