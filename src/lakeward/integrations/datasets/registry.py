"""A registry of named datasets, from code or from a TOML or YAML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from lakeward.errors import InvalidInput, LakewardError, NotFound
from lakeward.integrations.datasets.dataset import Dataset
from lakeward.integrations.datasets.location import DatasetLocation, known
from lakeward.integrations.writing import WriteOptions
from lakeward.lake.lake import Lake
from lakeward.model import arguments
from lakeward.model.config_files import read_entries
from lakeward.model.policy.policy import Policy
from lakeward.write.plan.retry import Retry

_PARTS: Final = ("write", "retry", "lock", "policy", "constraints")


class Datasets(Mapping[str, Dataset]):
    """Datasets of a lake by their names."""

    def __init__(self, lake: Lake, datasets: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._lake = lake
        self._found: dict[str, Dataset] = {}
        for name, entry in arguments.mapping(datasets, "datasets").items():
            self.add(name, entry)

    @classmethod
    def load(cls, lake: Lake, path: str | Path) -> Datasets:
        """Load the datasets of a file, which has a table `datasets` with an entry for each.

        Args:
            lake: The lake of the tables.
            path: A file `*.toml`, `*.yaml` or `*.yml`.

        Raises:
            InvalidInput: The file cannot be read, or an entry is wrong; the error says which.
            MissingExtra: YAML needs PyYAML.
        """
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            what = f"The file of datasets cannot be read: {error}."
            raise InvalidInput(what, hint="Give the path of a TOML or YAML file.") from error
        return cls(lake, read_entries(text, file.suffix, "datasets", "orders"))

    def add(self, name: str, entry: Mapping[str, Any]) -> Dataset:
        """Add a dataset, or replace the dataset of the same name.

        Args:
            name: The name of the dataset.
            entry: Fields of a `DatasetLocation`, and `write`, `retry`, `lock`, `policy` and
                `constraints`, as a file has them.

        Raises:
            InvalidInput: A field is unknown, or its value is wrong.
        """
        try:
            found = self._found[name] = self._made(name, arguments.mapping(entry, "entry"))
        except InvalidInput as error:
            what = f"Dataset {name}: {error.what}"
            raise InvalidInput(what, hint=error.hint, **error.facts) from error
        return found

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """Return the location, options and present version of each dataset, with secrets masked.

        If the table of a dataset cannot be found, its entry has the reason in `error`.
        """
        return {name: _shown(found) for name, found in sorted(self._found.items())}

    def __getitem__(self, name: str) -> Dataset:
        if name not in self._found:
            what = f"There is no dataset {name!r}."
            hint = f"There are {', '.join(sorted(self._found)) or 'none'}."
            raise NotFound(what, hint=hint)
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"Datasets({sorted(self._found)})"

    def _made(self, name: str, entry: Mapping[str, Any]) -> Dataset:
        places = [f.name for f in fields(DatasetLocation)]
        wrong = next((k for k in entry if k not in (*places, *_PARTS)), None)
        if wrong is not None:
            hint = f"There are {', '.join((*places, *_PARTS))}."
            what = f"There is no field {wrong!r}."
            raise InvalidInput(what, hint=hint, parameter=wrong)
        write = arguments.mapping(entry.get("write"), "write")
        retry = arguments.mapping(entry.get("retry"), "retry")
        lock = entry.get("lock")
        if lock not in (None, "write"):
            what = f"`lock` can be 'write', not {lock!r}."
            raise InvalidInput(what, parameter="lock")
        policy = arguments.mapping(entry.get("policy"), "policy")
        Policy.of(policy)
        return Dataset(
            lake=self._lake,
            location=DatasetLocation(**{k: v for k, v in entry.items() if k in places}),
            write_options=WriteOptions(**known(WriteOptions, write, "write option")),
            retry=Retry(**known(Retry, retry, "retry option")) if retry else None,
            lock=lock,
            policy=policy,
            constraints=arguments.mapping(entry.get("constraints"), "constraints"),
            name=name,
        )


def _shown(found: Dataset) -> dict[str, Any]:
    default, options = WriteOptions(), found.write_options
    changed = {f.name: getattr(options, f.name) for f in fields(options)}
    out: dict[str, Any] = {
        "location": found.location.to_json(),
        "write": {k: v for k, v in changed.items() if v != getattr(default, k)},
        "retry": None
        if found.retry is None
        else {f.name: getattr(found.retry, f.name) for f in fields(found.retry)},
        "lock": found.lock,
        "policy": dict(found.policy),
        "constraints": {k: str(v) for k, v in found.constraints.items()},
    }
    out = {k: v for k, v in out.items() if v}
    if found.location.table is not None:
        try:
            out["version"] = found.snapshot().version
        except LakewardError as error:
            out["error"] = error.what
    return out
