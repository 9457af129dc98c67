"""The read half of the behaviour suite: what is run through `lw.connect` too, and what is not.

The files of `FILES` run once more on a lake that is written by itself and read through its service
(`tests/support/through_service.py`). Those of `ALWAYS` do so in every run, the others in
`make faults`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

ALWAYS: Final = frozenset({"time_travel/test_at.py"})
FILES: Final = ALWAYS | {
    "changes/test_changes.py",
    "changes/test_columns_that_return.py",
    "changes/test_row_diff.py",
    "partitions/test_partitioned_writes.py",
    "partitions/test_transforms.py",
    "pruning/test_bloom_filters.py",
    "pruning/test_casts.py",
    "pruning/test_dotted_names.py",
    "pruning/test_edges_of_literals.py",
    "pruning/test_plan.py",
    "pruning/test_pruning_is_sound.py",
    "reading/test_frames.py",
    "sql/test_again.py",
    "sql/test_older_versions.py",
    "sql/test_parameters.py",
    "sql/test_queries.py",
    "tags/test_tags.py",
    "time_travel/test_cuts_by_time.py",
    "time_travel/test_diff.py",
    "time_travel/test_history.py",
    "time_travel/test_lake_snapshot.py",
    "time_travel/test_model_of_the_lake.py",
    "time_travel/test_rows_changed.py",
    "time_travel/test_snapshot_ids.py",
    "types/test_types_round_trip.py",
}
LEFT_OUT: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "changes/test_columns_that_return.py": {
        "the changes of a lake have versions, and no rows": (
            "test_values_of_a_type_that_was_restored_away_are_whole",
        ),
    },
    "changes/test_row_diff.py": {
        "tables and branches are compared by the lake": (
            "test_two_tables_are_compared_by_names",
            "test_what_cannot_be_compared_is_refused",
            "test_a_branch_is_compared_with_its_base_and_with_another",
        ),
    },
    "partitions/test_transforms.py": {
        "entries of the log": ("test_entries_and_differences_tell_the_partitions",),
    },
    "reading/test_frames.py": {
        "looks into the log": (
            "test_the_log_counts_rows_without_reading_a_file",
            "test_the_first_rows_do_not_need_the_other_files",
        ),
        "a client reads rows as streams, without pages": (
            "test_the_first_rows_of_many_files_are_those_of_all_rows",
        ),
    },
    "sql/test_parameters.py": {
        "a query of a client begins at once, and so do its errors": (
            "test_each_value_finds_its_own_row",
        ),
        "exports are of the lake": ("test_an_export_takes_values",),
    },
    "sql/test_queries.py": {
        "engines, pins and files of the service's process": (
            "test_a_missing_engine_is_named",
            "test_versions_are_held_until_the_rows_are_read",
            "test_all_versions_of_a_table_in_a_query_are_held",
            "test_a_file_that_is_deleted_before_the_rows_are_read_is_missed",
            "test_a_reader_that_holds_no_versions_misses_what_vacuum_deleted",
        ),
        "a client has no DuckDB connection": (
            "test_tables_whose_names_are_joined_alike_are_different_views",
        ),
    },
    "tags/test_tags.py": {
        "counters of the process": ("test_lookups_are_counted_with_their_times",),
        "the service hides where files are": (
            "test_iceberg_readers_find_the_tag_and_the_lake_goes_on",
        ),
        "a dropped table cannot be read": (
            "test_a_cut_has_the_names_that_tables_had_then",
            "test_a_tag_of_a_dropped_table_still_reads",
        ),
        "the changes of a lake have versions, and no rows": (
            "test_no_change_after_a_tag_is_left_out_if_a_table_is_brought_back",
        ),
        "maintenance and DuckDB are of the lake": (
            "test_a_version_that_the_metadata_no_longer_lists_is_tagged",
            "test_a_ref_of_another_engine_is_not_taken",
            "test_the_rows_of_a_cut_go_out_under_the_names_of_then",
        ),
    },
    "time_travel/test_cuts_by_time.py": {
        "is about PostgreSQL": ("test_a_transaction_that_took_its_position_earlier_is_waited_for",),
        "a dropped table cannot be read": (
            "test_a_table_that_was_dropped_later_is_in_the_cut",
            "test_of_two_tables_of_one_name_the_cut_has_the_one_of_its_time",
            "test_a_table_of_the_lake_comes_before_one_that_was_adopted_later_with_an_older_history",
        ),
        "a client pins no versions": (
            "test_pins_are_held_while_the_block_runs_and_ignored_when_their_lease_is_over",
            "test_a_pin_is_renewed_while_its_holder_lives",
        ),
    },
    "time_travel/test_lake_snapshot.py": {
        "a dropped table cannot be read": ("test_a_cut_survives_a_dropped_table",),
        "writers without a pause leave the service in their process no time": (
            "test_cuts_are_consistent_while_writers_commit",
        ),
    },
    "time_travel/test_rows_changed.py": {
        "is about the command line": ("test_the_command_line_shows_the_rows_that_changed",),
    },
    "time_travel/test_snapshot_ids.py": {
        "the service hides where files are": (
            "test_every_version_can_be_handed_to_another_engine",
            "test_the_metadata_document_is_the_one_that_the_catalog_names",
        ),
    },
}
"""Tests of these files that no client can pass, by the reason."""


def part_of(path: Path, test: str) -> str | None:
    """Return `always` or `full` if a test is run through a client, otherwise None."""
    file = f"{path.parent.name}/{path.name}"
    if file not in FILES or any(test in names for names in LEFT_OUT.get(file, {}).values()):
        return None
    return "always" if file in ALWAYS else "full"
