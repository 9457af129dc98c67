"""The program as it is run: start-up, streams, signals, terminals, completion."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from tests.cli.console import clean_environment, program

HEAVY = ("pyarrow", "sqlalchemy", "sqlglot", "deltalake", "polars", "pandas", "numpy", "rich.table")


def test_the_help_loads_nothing_heavy() -> None:
    code = f"import sys; import lakeward.cli.main;print([m for m in {HEAVY} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240
    )
    assert result.stdout == "[]\n"
    assert program("--help").returncode == 0


_ASKING = ("tables", "show", "history", "versions", "diff", "transactions", "locks", "runs")


@pytest.mark.parametrize("command", [*_ASKING, "snapshot"])
def test_a_command_that_only_asks_the_log_loads_no_engine(shop: Path, command: str) -> None:
    """Start-up is mostly imports: a second of CPU with pandas, which comes with datasets."""
    unneeded = (
        *("pandas", "pyarrow.dataset", "pyarrow.compute", "pyarrow.parquet", "pyarrow.fs"),
        *("pydantic", "sqlalchemy", "sqlglot", "tenacity", "rich.progress"),
        *("lakeward.engines.arrow.scan", "lakeward.write.transaction.lifecycle"),
        *("lakeward.model.expressions.where", "lakeward.model.evolution.apply"),
        *("lakeward.stream.sink", "lakeward.maintain.doctor", "lakeward.maintain.rebuild"),
    )
    table = ["sales.orders"] if command in ("show", "history", "versions", "diff") else []
    code = f"""
import sys
from lakeward.cli.main import app
ended = app({[command, *table, "--lake", str(shop)]!r}, standalone_mode=False)
print(ended, [m for m in {unneeded!r} if m in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240
    )
    assert done.stdout.splitlines()[-1] == "0 []"


def test_the_installed_program_is_the_same() -> None:
    script = Path(sys.executable).with_name("lakeward")
    result = subprocess.run(
        [script, "--version"], capture_output=True, text=True, check=True, timeout=240
    )
    assert result.stdout == program("--version").stdout


def test_json_is_one_object_on_standard_output_and_nothing_else(shop: Path) -> None:
    result = program("tables", "--json", "--lake", shop)
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1
    assert set(orjson.loads(result.stdout)) == {"lake", "tables"}
    result = program("show", "nosuch", "--json", "--lake", shop)
    assert result.returncode == 3
    assert result.stderr == ""
    assert set(orjson.loads(result.stdout)) == {"error"}


def test_errors_go_to_standard_error_as_text(shop: Path) -> None:
    result = program("show", "nosuch", "--lake", shop)
    assert result.returncode == 3
    assert result.stdout == ""
    assert result.stderr.startswith("error: The lake has no table nosuch.")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_reader_that_has_seen_enough_ends_the_program_quietly(
    shop: Path, form: list[str]
) -> None:
    program_ = [sys.executable, "-m", "lakeward", "read", "sales.orders", "--limit", "100"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(
            [*program_, *form, "--lake", shop],
            stdout=writing,
            stderr=subprocess.PIPE,
            env=clean_environment(),
            timeout=240,
            check=False,
        )
    finally:
        os.close(writing)
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize("form", ["", "--json"])
@pytest.mark.parametrize("place", [">/dev/full", ">&-"])
def test_output_that_cannot_be_written_is_an_error_with_its_name(
    shop: Path, place: str, form: str
) -> None:
    result = subprocess.run(
        ["sh", "-c", f'"$0" -m lakeward tables --lake "$1" {form} {place}', sys.executable, shop],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=240,
        check=False,
    )
    assert (result.returncode, result.stdout) == (8, "")
    assert result.stderr.startswith("error: standard output: ")
    assert "Traceback" not in result.stderr


def test_ctrl_c_before_the_command_line_is_imported_ends_with_130(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    result = subprocess.run(
        [sys.executable, "-m", "lakeward", "tables"],
        env=clean_environment(PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (result.returncode, result.stderr) == (130, "error: Interrupted.\n")


@pytest.mark.slow
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_ctrl_c_ends_with_130(tmp_path: Path, form: list[str]) -> None:
    place = tmp_path / "demo"
    process = subprocess.Popen(
        [sys.executable, "-m", "lakeward", "demo", "--embedded", "--into", place, *form],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
        # A shell starts its background jobs with the signal ignored, and their children inherit it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (place / "shop" / "stock").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 130, (out, err)
    assert "Traceback" not in err
    if form:
        assert orjson.loads(out)["error"]["type"] == "Interrupted"
    else:
        assert err.endswith("error: Interrupted.\n")


def test_ctrl_c_in_a_finalizer_is_not_ignored() -> None:
    code = (
        "import signal, time\n"
        "from lakeward.cli.interrupts import keep_interrupts\n"
        "class Dying:\n"
        "    def __del__(self):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "keep_interrupts()\n"
        "try:\n"
        "    Dying()\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (result.stdout, result.stderr) == ("interrupted\n", "")


def test_ctrl_c_while_a_module_is_imported_ends_with_the_exit_code(tmp_path: Path) -> None:
    """`python -m` killed itself by the signal after the program had handled it."""
    (tmp_path / "interrupted.py").write_text(
        "import signal, sys\n"
        "from lakeward.cli.interrupts import forget_interrupt\n"
        "try:\n"
        "    exec('signal.raise_signal(signal.SIGINT)')\n"
        "except KeyboardInterrupt:\n"
        "    forget_interrupt()\n"
        "sys.exit(130)\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "interrupted"],
        cwd=tmp_path,
        check=False,
        timeout=50,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert result.returncode == 130


def _on_a_terminal(arguments: list[str], **environment: str) -> str:
    """What a person sees who runs the program on a terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lakeward", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=clean_environment(TERM="xterm-256color", **environment),
    )
    os.close(slave)
    seen = b""
    try:
        while select.select([master], [], [], 60)[0]:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # Linux's way to say that the other side is closed
                break
            if not chunk:
                break
            seen += chunk
    finally:
        process.wait(60)
        os.close(master)
    return seen.decode()


def test_a_terminal_gets_colours_unless_it_asks_for_none(shop: Path) -> None:
    arguments = ["doctor", "--lake", str(shop)]
    assert "\x1b[1;32m✓ healthy" in _on_a_terminal(arguments)
    plain = _on_a_terminal(arguments, NO_COLOR="1")
    assert "✓ healthy" in plain
    assert "\x1b[1;32m" not in plain
    assert "\x1b[32m" not in plain


def test_rows_that_differ_are_coloured_on_a_terminal(shop: Path) -> None:
    seen = _on_a_terminal(["diff", "sales.orders", "2", "3", "--rows", "--lake", str(shop)])
    assert "\x1b[31m- id=" in seen


def test_a_pipe_gets_neither_colours_nor_broken_lines(shop: Path) -> None:
    text = program("history", "sales.orders", "--lake", shop).stdout
    assert "\x1b" not in text
    assert len([line for line in text.splitlines() if "both-tables (2 tables)" in line]) == 1


def test_json_on_a_terminal_is_for_people_to_read(shop: Path) -> None:
    seen = _on_a_terminal(["tables", "--json", "--lake", str(shop)])
    assert "\x1b" not in seen
    assert '\n  "tables": [' in seen.replace("\r\n", "\n")


def test_output_that_is_not_unicode_loses_no_line(shop: Path) -> None:
    result = program("diff", "sales.orders", "--lake", shop, PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert "version 2 \\u2192 3" in result.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("lakeward --lake LAKE show ", ["audit", "sales.orders"]),
        ("lakeward show --lake LAKE sa", ["sales.orders"]),
        ("lakeward doctor --lake LAKE audit sa", ["sales.orders"]),
        ("lakeward dif", ["diff"]),
        ("lakeward store ", ["export", "import"]),
        ("lakeward --lake nowhere show ", []),
    ],
)
def test_the_shell_completes_commands_and_table_names(
    shop: Path, words: str, expected: list[str]
) -> None:
    words = words.replace("LAKE", str(shop))
    result = program(
        _LAKEWARD_COMPLETE="complete_bash",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split(" ")) - 1),
    )
    assert result.stdout.split() == expected
    assert result.stderr == ""


def test_completion_takes_the_lake_of_the_environment_and_makes_none(
    shop: Path, tmp_path: Path
) -> None:
    words = {
        "_LAKEWARD_COMPLETE": "complete_bash",
        "COMP_WORDS": "lakeward show ",
        "COMP_CWORD": "2",
    }
    assert program(**words, LAKEWARD_LAKE=str(shop)).stdout.split() == ["audit", "sales.orders"]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert program(**words, LAKEWARD_LAKE=str(empty)).stdout.split() == []
    assert list(empty.iterdir()) == []
