"""`lakeward policy` and its commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.console import ask, run, tell

_TABLE = "sales.orders"


def test_policies_are_set_shown_and_removed(own_shop: Path) -> None:
    lake = ("--lake", own_shop)
    done = ask(
        "policy", "set", "sales.*", "compression=zstd", "retention=30 days", "-m", "why", *lake
    )
    assert (done["pattern"], done["message"]) == ("sales.*", "why")
    ask("policy", "set", "sales.*", "constraints.known=id IS NOT NULL", *lake)
    found = ask("policy", "show", _TABLE, *lake)
    assert found["policy"]["compression"] == "zstd"
    assert found["sources"]["retention"] == "sales.*"
    assert found["constraints"] == {"known": "sales.*"}
    assert "sales.*" in tell("policy", *lake)
    assert "from" in tell("policy", "show", _TABLE, *lake)
    assert ask("policy", "show", _TABLE, "--version", "0", *lake)["policy"] == {}
    ask("policy", "set", "sales.*", "compression=gzip", "--replace", *lake)
    assert list(ask("policy", *lake)["policies"][0]["policy"]) == ["compression"]
    ask("policy", "unset", "sales.*", *lake)
    assert run("policy", "unset", "sales.*", *lake).code == 3
    assert ask("policy", *lake)["policies"] == []
    assert len(ask("policy", "history", "sales.*", *lake)["policies"]) == 4
    assert "removed" in tell("policy", "history", *lake)


def test_a_file_says_what_happens_without_a_required_value(own_shop: Path, tmp_path: Path) -> None:
    lake, file = ("--lake", own_shop), tmp_path / "policies.toml"
    ask("alter", _TABLE, "ALTER COLUMN id SET NOT NULL", *lake)
    rule = '{not_null = ["id"], on_violation = "quarantine"}'
    file.write_text(f'[policies."{_TABLE}"]\nconstraints = {{has_id = {rule}}}\n')
    ask("policy", "apply", file, "--yes", *lake)
    (found,) = ask("policy", *lake)["policies"]
    wanted = {"not_null": ["id"], "on_violation": "quarantine"}
    assert found["policy"]["constraints"] == {"has_id": wanted}
    assert ask("policy", "apply", file, "--dry-run", *lake)["plan"] == []
    file.write_text(file.read_text().replace("quarantine", "warn"))
    assert run("--json", "policy", "apply", file, "--yes", *lake).code == 2


@pytest.mark.parametrize("suffix", [".toml", ".yaml"])
def test_a_file_is_applied_after_its_plan(own_shop: Path, tmp_path: Path, suffix: str) -> None:
    lake = ("--lake", own_shop)
    file = tmp_path / f"policies{suffix}"
    wanted = {"sales.*": {"compression": "zstd", "constraints": {"known": "id IS NOT NULL"}}}
    if suffix == ".toml":
        file.write_text(
            '[policies."sales.*"]\ncompression = "zstd"\nconstraints = {known = "id IS NOT NULL"}\n'
        )
    else:
        file.write_text(json.dumps({"policies": wanted}))
    ask("policy", "set", "other.*", "compression=gzip", *lake)

    plan = ask("policy", "apply", file, "--dry-run", *lake)
    assert plan["applied"] is False
    assert [(c["pattern"], c["action"]) for c in plan["plan"]] == [("sales.*", "set")]
    assert len(ask("policy", *lake)["policies"]) == 1
    refused = run("policy", "apply", file, *lake)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert "+ sales.*" in tell("policy", "apply", file, "--dry-run", *lake)
    assert ask("policy", "apply", file, "--yes", "--prune", "-m", "git", *lake)["applied"]
    assert [p["pattern"] for p in ask("policy", *lake)["policies"]] == ["sales.*"]
    assert ask("policy", "apply", file, "--yes", *lake) == {"plan": [], "applied": False}

    exported = tmp_path / "exported.toml"
    ask("policy", "export", exported, *lake)
    assert ask("policy", "apply", exported, "--dry-run", *lake)["plan"] == []
    assert "zstd" in tell("policy", "export", *lake)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("set", "sales.*", "nonsense=1"), "nonsense"),
        (("set", "a b", "compression=zstd"), "a b"),
        (("set", "sales.*", "compression"), "FIELD=VALUE"),
        (("set", "sales.*", "constraints.never=id < 0"), "never"),
        (("apply", "missing.toml"), "missing.toml"),
    ],
)
def test_what_is_refused_changes_nothing(
    own_shop: Path, arguments: tuple[str, ...], word: str
) -> None:
    done = run("policy", *arguments, "--lake", own_shop)
    assert done.code in (2, 3)
    assert word in done.err
    assert ask("policy", "history", "--lake", own_shop)["policies"] == []


def test_a_policy_refuses_an_alteration_of_the_command_line(own_shop: Path) -> None:
    lake = ("--lake", own_shop)
    ask("policy", "set", "sales.*", "allowed_evolutions=set_comment", *lake)
    before = ask("show", _TABLE, *lake)["version"]
    done = run("alter", _TABLE, "ADD COLUMN more string", *lake)
    assert done.code == 2
    assert "sales.*" in done.err
    assert ask("show", _TABLE, *lake)["version"] == before
