"""Every command, as text and as JSON."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeward as lw
from tests.cli.console import ask, run, tell
from tests.support.inside import context_of


def test_init_makes_a_lake_once(tmp_path: Path) -> None:
    place = tmp_path / "new"
    first = ask("init", "--lake", place)
    assert first == {
        "lake": str(place / "lakeward.db"),
        "warehouse": str(place),
        "created": True,
        "tables": 0,
    }
    assert ask("init", place)["created"] is False
    assert "There is a lake already" in tell("init", place)


def test_init_says_what_to_do_next(tmp_path: Path) -> None:
    text = tell("init", tmp_path / "new")
    assert "A lake is made" in text
    assert "lakeward create" in text


def test_init_refuses_two_places(tmp_path: Path) -> None:
    answer = run("init", tmp_path / "a", "--lake", tmp_path / "b", "--json")
    assert answer.code == 2
    assert answer.error["type"] == "InvalidInput"
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_tables_lists_what_the_lake_holds(shop: Path) -> None:
    audit, orders = ask("tables", "--lake", shop)["tables"]
    assert audit["name"] == "audit"
    assert orders["name"] == "sales.orders"
    assert (orders["version"], orders["rows"], orders["files"]) == (3, 35, 4)
    assert orders["location"] == str(shop / "sales" / "orders")
    assert datetime.fromisoformat(orders["timestamp"]).tzinfo is not None


def test_tables_of_a_lake_without_tables(tmp_path: Path) -> None:
    run("init", tmp_path)
    assert ask("tables", "--lake", tmp_path)["tables"] == []
    assert "has no tables yet" in tell("tables", "--lake", tmp_path)


def test_rows_are_counted_only_where_every_file_tells(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run("init", lake)
    tell("create", "empty", "id int64", "--lake", lake)
    assert ask("show", "empty", "--lake", lake)["rows"] == 0
    place = tmp_path / "silent"
    write_deltalake(place, pa.table({"id": [1, 2]}))
    write_deltalake(place, pa.table({"id": [3]}), mode="append")
    path = place / "_delta_log" / f"{1:020d}.json"
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    path.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    tell("adopt", "silent", place, "--lake", lake)
    assert ask("show", "silent", "--lake", lake)["rows"] is None
    assert "rows unknown in 2 files" in tell("show", "silent", "--lake", lake)


def test_tables_text_has_a_line_to_a_table(shop: Path) -> None:
    text = tell("tables", "--lake", shop)
    (line,) = [line for line in text.splitlines() if "sales.orders" in line]
    assert line.split()[:6] == ["sales.orders", "delta", "3", "35", "4", line.split()[5]]


@pytest.mark.parametrize("before", [True, False])
def test_options_may_stand_on_either_side_of_the_command(shop: Path, before: bool) -> None:
    options = ["--lake", str(shop), "--json"]
    arguments = [*options, "tables"] if before else ["tables", *options]
    answer = run(*arguments)
    assert len(answer.json["tables"]) == 2


def test_the_lake_comes_from_the_environment_unless_it_is_given(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWARD_LAKE", str(shop))
    assert len(ask("tables")["tables"]) == 2
    other = tmp_path / "other"
    run("init", other)
    assert ask("tables", "--lake", other)["tables"] == []
    assert ask("--lake", other, "tables")["tables"] == []


def test_the_lake_is_in_the_working_directory_unless_said_otherwise(tmp_path: Path) -> None:
    run("init")
    assert Path("lake/lakeward.db").exists()
    assert ask("tables")["tables"] == []


def test_show_tells_all_of_a_table(shop: Path) -> None:
    found = ask("show", "sales.orders", "--lake", shop)
    assert [(c["name"], c["type"]) for c in found["schema"]] == [
        ("id", "int64"),
        ("region", "string"),
        ("amount", "double"),
    ]
    assert found["constraints"] == {"positive": "amount > 0"}
    assert found["partition_by"] == ["region"]
    assert found["comment"] == "what was sold"
    assert found["guarded"] is True
    text = tell("show", "sales.orders", "--lake", shop)
    for word in ("sales.orders", "what was sold", "region", "amount > 0", "35 rows in 4 files"):
        assert word in text


def test_show_of_an_older_version(shop: Path) -> None:
    found = ask("show", "sales.orders", "--version", "1", "--lake", shop)
    assert (found["version"], found["newest_version"], found["rows"]) == (1, 3, 30)
    assert "the newest is 3" in tell("show", "sales.orders", "--version", "1", "--lake", shop)


def test_history_is_newest_first(shop: Path) -> None:
    found = ask("history", "sales.orders", "--lake", shop)
    assert [v["version"] for v in found["versions"]] == [3, 2, 1, 0]
    assert found["more"] is False
    second = found["versions"][1]
    assert second["message"] == "both"
    assert second["transaction_id"] == "both-tables"
    assert second["members"] == 2
    assert second["actor"] == "tester"
    text = tell("history", "sales.orders", "--lake", shop)
    assert "both-tables (2 tables)" in text
    assert "DELETE" in text


def test_history_by_pages_and_ranges(shop: Path) -> None:
    found = ask("history", "sales.orders", "--limit", "2", "--lake", shop)
    assert [v["version"] for v in found["versions"]] == [3, 2]
    assert found["more"] is True
    assert "--limit shows more" in tell("history", "sales.orders", "--limit", "2", "--lake", shop)
    found = ask("history", "sales.orders", "--since", "1", "--until", "2", "--lake", shop)
    assert [v["version"] for v in found["versions"]] == [2, 1]


def test_versions_of_a_time_range_are_oldest_first(shop: Path) -> None:
    found = ask("versions", "sales.orders", "--lake", shop)["versions"]
    assert [v["version"] for v in found] == [0, 1, 2, 3]
    since = found[1]["timestamp"]
    until = found[2]["timestamp"]
    some = ask("versions", "sales.orders", "--since", since, "--until", until, "--lake", shop)
    assert [v["version"] for v in some["versions"]] == [1, 2]
    text = tell("versions", "sales.orders", "--until", "2000-01-01", "--lake", shop)
    assert "has no version there" in text


def test_diff_tells_rows_partitions_and_files(shop: Path) -> None:
    found = ask("diff", "sales.orders", "1", "3", "--lake", shop)
    assert (found["from_version"], found["to_version"]) == (1, 3)
    assert found["before"]["rows"] == 30
    assert found["after"]["rows"] == 35
    assert {p["partition"] for p in found["partitions"]} == {"region=north", "region=south"}
    assert len(found["files_added"]) == 4
    assert found["files_removed"][0]["partition"] == {"region": "north"}
    text = tell("diff", "sales.orders", "1", "3", "--lake", shop)
    assert "version 1 → 3" in text
    assert "region=north" in text
    assert "+ region=north/part-" in text


def test_diff_is_about_the_newest_change_unless_told(shop: Path) -> None:
    found = ask("diff", "sales.orders", "--lake", shop)
    assert (found["from_version"], found["to_version"]) == (2, 3)
    found = ask("diff", "sales.orders", "0", "--lake", shop)
    assert (found["from_version"], found["to_version"]) == (0, 3)
    assert "Nothing differs" in tell("diff", "sales.orders", "2", "2", "--lake", shop)


def test_diff_lists_only_so_many_files(shop: Path) -> None:
    text = tell("diff", "sales.orders", "1", "3", "--files", "1", "--lake", shop)
    assert text.count("+ region=") == 1
    assert "… and 3 files more" in text


def test_diff_tells_of_new_properties(own_shop: Path, tmp_path: Path) -> None:
    place = tmp_path / "t"
    write_deltalake(place, pa.table({"id": [1]}))
    DeltaTable(place).alter.set_table_properties({"delta.appendOnly": "true"})
    tell("adopt", "t", place, "--open", "--lake", own_shop)
    found = ask("diff", "t", "0", "1", "--lake", own_shop)
    assert found["properties"]["delta.appendOnly"] == {"before": None, "after": "true"}
    text = tell("diff", "t", "0", "1", "--lake", own_shop)
    assert "property delta.appendOnly: (none) → true" in text


def test_read_gives_a_page_of_rows(shop: Path) -> None:
    found = ask("read", "sales.orders", "--limit", "3", "--lake", shop)
    assert len(found["rows"]) == 3
    assert found["more"] is True
    assert set(found["rows"][0]) == {"id", "region", "amount"}
    assert [c["type"] for c in found["schema"]] == ["int64", "string", "double"]
    text = tell("read", "sales.orders", "--limit", "3", "--table", "--lake", shop)
    assert "rows 1 to 3 of sales.orders at version 3" in text


def test_pages_follow_each_other_without_gap_or_repetition(shop: Path) -> None:
    seen: list[int] = []
    more = True
    while more:
        page = ask(
            "read", "sales.orders", "--limit", "4", "--offset", str(len(seen)), "--lake", shop
        )
        seen += [row["id"] for row in page["rows"]]
        more = page["more"]
    assert sorted(seen) == list(range(5, 40))


def test_read_of_an_old_version_with_a_condition_and_columns(shop: Path) -> None:
    found = ask(
        "read", "sales.orders", "--version", "1", "--where", "id < 4 AND region = 'north'",
        "--columns", "amount,id", "--lake", shop,
    )  # fmt: skip
    assert found["rows"] == [{"amount": 0.5, "id": 0}, {"amount": 2.5, "id": 2}]
    assert found["version"] == 1
    again = ask(
        "read", "sales.orders", "--version", "1", "--where", "id = 1",
        "--columns", "amount", "--columns", "id", "--lake", shop,
    )  # fmt: skip
    assert again["rows"] == [{"amount": 1.5, "id": 1}]


def test_read_as_of_a_moment(shop: Path) -> None:
    moment = ask("versions", "sales.orders", "--lake", shop)["versions"][1]["timestamp"]
    found = ask("read", "sales.orders", "--timestamp", moment, "--limit", "100", "--lake", shop)
    assert found["version"] == 1
    assert len(found["rows"]) == 30
    assert found["more"] is False


def test_the_moments_that_text_shows_can_be_given_back(shop: Path) -> None:
    line = tell("history", "sales.orders", "--limit", "1", "--lake", shop).splitlines()[3]
    moment = line.split()[1]
    assert ask("show", "sales.orders", "--timestamp", moment, "--lake", shop)["version"] == 3


def test_read_of_no_rows(shop: Path) -> None:
    assert ask("read", "audit", "--where", "note = 'x'", "--lake", shop)["rows"] == []
    text = tell("read", "audit", "--where", "note = 'x'", "--table", "--lake", shop)
    assert "no rows of audit" in text
    assert ask("read", "sales.orders", "--limit", "0", "--lake", shop)["more"] is True


def test_a_column_with_a_comma_in_its_name_can_be_chosen(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        lake.create("t", {"a,b": "int64", "rows": "int64"})
        with lake.transaction() as tx:
            tx.append("t", [{"a,b": 1, "rows": 2}])
    assert ask("read", "t", "--columns", "a,b", "--lake", tmp_path)["rows"] == [{"a,b": 1}]
    assert "a,b" in tell("read", "t", "--lake", tmp_path)


def test_create_makes_a_table_of_typed_columns(tmp_path: Path) -> None:
    run("init", tmp_path)
    made = ask(
        "create", "s.t", "id int64 not null, tags list<string>, day date, price decimal(10,2)",
        "--partition-by", "day", "--check", "cheap=price < 100", "--property",
        "delta.appendOnly=true", "--comment", "a table", "--lake", tmp_path,
    )  # fmt: skip
    assert made["version"] == 0
    found = ask("show", "s.t", "--lake", tmp_path)
    assert [(c["name"], c["type"], c["nullable"]) for c in found["schema"]] == [
        ("id", "int64", False),
        ("tags", "list<string>", True),
        ("day", "date", True),
        ("price", "decimal(10,2)", True),
    ]
    assert found["partition_by"] == ["day"]
    assert found["constraints"] == {"cheap": "price < 100"}
    assert found["properties"]["delta.appendOnly"] == "true"
    assert found["guarded"] is True
    assert "is made at" in tell("create", "u", "id int64", "--open", "--lake", tmp_path)
    assert ask("show", "u", "--lake", tmp_path)["guarded"] is False


def test_adopt_takes_a_table_with_its_history(own_shop: Path, tmp_path: Path) -> None:
    place = tmp_path / "foreign"
    for number in range(3):
        write_deltalake(place, pa.table({"id": [number]}), mode="append")
    found = ask("adopt", "foreign", place, "--lake", own_shop)
    assert found["guarded"] is True
    assert (found["first_version"], found["version"], found["files"]) == (0, 3, 3)
    other = tmp_path / "other"
    write_deltalake(other, pa.table({"id": [1]}))
    text = tell("adopt", "other", other, "--open", "--drift", "refuse", "--lake", own_shop)
    assert "open to other writers" in text
    assert ask("show", "other", "--lake", own_shop)["drift"] == "refuse"


def test_adopt_takes_a_path_from_the_working_directory(own_shop: Path) -> None:
    write_deltalake("here", pa.table({"id": [1]}))
    assert ask("adopt", "here", "here", "--lake", own_shop)["location"] == str(
        Path("here").resolve()
    )


def test_publish_tells_what_was_owed(own_shop: Path) -> None:
    with lw.open(own_shop) as lake:
        location = Path(lake.table("sales.orders").location)
    log = sorted((location / "_delta_log").glob("*.json"))
    whole = [p.read_bytes() for p in log]
    with lw.open(own_shop, repair=False) as lake, context_of(lake).database.write() as session:
        session.script("UPDATE lakeward_head SET published = 1 WHERE name = 'orders'")
    for path in log[2:]:
        path.unlink()
    assert ask("publish", "--lake", own_shop) == {"published": {"sales.orders": 2}, "total": 2}
    assert [p.read_bytes() for p in log] == whole
    assert ask("publish", "--lake", own_shop)["total"] == 0
    assert "nothing was owed" in tell("publish", "--lake", own_shop)


def test_outcome_of_a_transaction_by_its_id(shop: Path) -> None:
    assert ask("outcome", "both-tables", "--lake", shop) == {
        "transaction_id": "both-tables",
        "state": "ratified",
        "committed": True,
        "versions": {"audit": 1, "sales.orders": 2},
    }
    text = tell("outcome", "both-tables", "--lake", shop)
    assert "Transaction both-tables is committed." in text
    assert "sales.orders" in text


def test_doctor_of_a_healthy_lake(shop: Path) -> None:
    found = ask("doctor", "--lake", shop)
    assert found["healthy"] is True
    assert (found["tables"], found["versions"]) == (2, 6)
    assert found["mended"] is None
    assert "✓ healthy" in tell("doctor", "sales.orders", "--lake", shop)


def test_doctor_ends_with_its_own_code_until_it_is_fixed(own_shop: Path) -> None:
    path = own_shop / "audit" / "_delta_log" / f"{1:020d}.json"
    tell("publish", "--lake", own_shop)
    path.write_bytes(path.read_bytes()[:20])
    answer = run("doctor", "--lake", own_shop, "--json")
    assert answer.code == 12
    (finding,) = answer.json["findings"]
    assert finding["code"] == "published-torn"
    assert (finding["table"], finding["version"], finding["severity"]) == ("audit", 1, "error")
    assert run("doctor", "--lake", own_shop).code == 12
    assert "→ Run `lakeward doctor --fix`" in run("doctor", "--lake", own_shop).out
    answer = run("doctor", "--fix", "--lake", own_shop)
    assert answer.code == 0
    assert "mended: audit, 1 version published again" in answer.out
    assert tell("doctor", "--lake", own_shop).startswith("✓ healthy")


def test_doctor_without_fix_leaves_what_is_owed(own_shop: Path) -> None:
    path = own_shop / "audit" / "_delta_log" / f"{1:020d}.json"
    path.unlink()
    with lw.open(own_shop, repair=False) as lake, context_of(lake).database.write() as session:
        session.script("UPDATE lakeward_head SET published = 0 WHERE name = 'audit'")
    answer = run("doctor", "--lake", own_shop, "--json")
    assert answer.code == 0
    assert [f["code"] for f in answer.json["findings"]] == ["owed"]
    assert "healthy, with 1 warning" in tell("doctor", "--lake", own_shop)
    assert not path.exists()
    assert ask("doctor", "--fix", "--lake", own_shop)["findings"] == []
    assert path.exists()


def test_the_version_of_the_program() -> None:
    assert tell("--version").startswith("lakeward ")
    assert set(ask("--version")) == {"version"}


def test_without_a_command_the_help_is_shown() -> None:
    assert "Usage: lakeward" in tell()
    answer = run("--json")
    assert answer.code == 2
    assert answer.error["type"] == "UsageError"
