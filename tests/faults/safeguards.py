"""Removes one safeguard at a time, on a copy of the source, and sees which fault test goes red.

A fault test that never failed proves nothing. Run it from the root of the project::

    python -m tests.faults.safeguards [word …]

With words, only the safeguards whose description contains one of them are tried. An edit that no
longer fits the source is an error: then the safeguard has moved, and its entry must follow.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import lakeward
from tests.faults.safeguard import Edit, Safeguard
from tests.faults.service_safeguards import SERVICE_SAFEGUARDS

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = Path(lakeward.__file__).parent
_RED: Final = re.compile(r"^(?:FAILED|ERROR) \S+?::(\w+)(\[.*?\])?(?: - (.*))?$", re.MULTILINE)


_UNLOCKED = Edit(
    "log/heads.py",
    '_LOCK = Statement(f"{_SELECT} AND table_id = :table_id FOR UPDATE")',
    '_LOCK = Statement(f"{_SELECT} AND table_id = :table_id")',
)

_UNFENCED = Edit(
    "log/writers.py", "AND instance = :instance", "AND (instance = :instance OR 1 = 1)"
)
_UNCOUNTED = Edit("log/writers.py", "epoch < :after", "epoch < :after OR 1 = 1")

SAFEGUARDS: Final = (
    Safeguard(
        "R1: all members of a transaction are ratified in one database transaction",
        (
            Edit(
                "write/commit/ratify.py",
                "            members.append(member)\n",
                "            members.append(member)\n"
                '            session.script("COMMIT")\n'
                '            session.script("BEGIN")\n'
                '            reach("ratify.inserted")\n',
            ),
        ),
        "test_kill.py",
    ),
    Safeguard(
        "R1: an Iceberg table's pointer moves in the transaction that ratifies the commit",
        (
            Edit(
                "formats/iceberg/format.py",
                '    reach("iceberg.swapped")\n    context.cache(Memory).renew',
                '    session.script("COMMIT")\n    session.script("BEGIN")\n'
                '    reach("iceberg.swapped")\n    context.cache(Memory).renew',
            ),
        ),
        "test_kill.py",
    ),
    Safeguard(
        "R1, R5: whoever opens the lake publishes what is owed",
        (Edit("lake/opening.py", "recover(context)", "recover"),),
        "test_kill.py test_publication.py",
        "killed_at or torn",
    ),
    Safeguard(
        "R1, R8: a published file gets its name when it is whole",
        (
            Edit(
                "storage/local.py",
                "                _name(handle, self._target)\n",
                "                os.close(handle)\n"
                "                handle = os.open(self._target, NEW, 0o644)\n"
                "                write_all(handle, self.data[:40])\n"
                '                reach("publish.written")\n'
                "                write_all(handle, self.data[40:])\n"
                "                os.close(handle)\n"
                '                reach("publish.linked")\n',
            ),
        ),
        "test_kill.py test_disk.py",
        "killed_at or single and write",
    ),
    Safeguard(
        "R1: a published file that is written ahead gets its name when the log has the commit",
        (
            Edit(
                "storage/local.py",
                "            self._failed = error\n",
                "            self._failed = error\n"
                "        if self._handle is not None:\n"
                "            os.fsync(self._handle)\n"
                "            _name(self._handle, target)\n"
                "            self._handle = None\n",
            ),
        ),
        "test_kill.py",
    ),
    Safeguard(
        "R1: files of deletion vectors that a commit names are kept",
        (
            Edit(
                "write/transaction/lifecycle.py",
                "            for path in stored_paths(f)\n",
                "            for path in [f.path]\n",
            ),
        ),
        "test_kill.py",
        "sqlite",
    ),
    Safeguard(
        "R1: vectors of rows that an update, a delete or a merge marked are kept",
        (
            Edit(
                "write/transaction/lifecycle.py",
                "            for path in stored_paths(f)\n",
                "            for path in [f.path]\n",
            ),
        ),
        "test_row_kills.py",
        "sqlite",
    ),
    Safeguard(
        "R1: whoever runs a killed change of rows again writes files of other names",
        (Edit("write/stage/stager.py", "lambda: os.urandom(2).hex()", 'lambda: "dead"'),),
        "test_row_kills.py",
        "sqlite",
    ),
    Safeguard(
        "R1: a change of rows is in the log with its change files or not at all",
        (
            Edit(
                "write/transaction/member.py",
                "        change.recorded_change_files.extend(done.change_files)\n",
                "",
            ),
        ),
        "test_row_kills.py",
        "sqlite",
    ),
    Safeguard(
        "R2: a commit locks the heads of its tables (PostgreSQL)",
        (_UNLOCKED,),
        "test_many_writers.py",
        "many_writers and postgres",
    ),
    Safeguard(
        "R2: the lock, and a version is unique in its table (PostgreSQL)",
        (
            _UNLOCKED,
            Edit(
                "log/migrations/m0001_initial.py",
                "        info TEXT NOT NULL,\n        PRIMARY KEY (table_id, version)\n",
                "        info TEXT NOT NULL\n",
            ),
            Edit("log/migrations/m0001_initial.py", "        PRIMARY KEY (table_id, seq)\n", ""),
            Edit(
                "log/migrations/m0001_initial.py",
                "        hash TEXT NOT NULL,\n",
                "        hash TEXT NOT NULL\n",
            ),
            Edit("log/migrations/m0001_initial.py", "CREATE UNIQUE INDEX", "CREATE INDEX"),
        ),
        "test_many_writers.py",
        "many_writers and postgres",
    ),
    Safeguard(
        "R2: a version follows the locked head, not the version that the transaction saw",
        (
            Edit(
                "write/commit/ratify.py",
                "            member = record(context, session, head, draft",
                "            member = record(context, session, change.head, draft",
            ),
        ),
        "test_many_writers.py",
        "many_writers",
    ),
    Safeguard(
        "R3: rows that others added where a transaction replaces are minded",
        (
            Edit(
                "write/commit/conflict.py",
                "    added = _first_added(session, change, current, change.scopes, after, until)\n",
                "    added = _first_added(session, change, current, [], after, until)\n",
            ),
        ),
        "isolation/test_isolation_delivered.py",
        "snapshot and promised",
    ),
    Safeguard(
        "R3: all reads of a transaction are from one cut",
        (
            Edit(
                "write/transaction/view.py",
                "        if reads and self._isolation is Isolation.READ_COMMITTED:\n",
                "        if reads:\n",
            ),
        ),
        "isolation/test_isolation_delivered.py",
        "snapshot and promised",
    ),
    Safeguard(
        "R3: a table that was only added to moves to the cut as well",
        (
            Edit(
                "write/transaction/view.py",
                "                member.move(head, self.context.definition(session, head))\n",
                "                pass\n",
            ),
        ),
        # By chance alone, the random transactions of the short form find it in one run of three.
        "isolation/test_isolation_delivered.py ../behaviour/transactions/test_one_cut.py",
        "(snapshot and promised) or added_to_before",
    ),
    Safeguard(
        "R3: every member of a transaction is inserted with its rows",
        (
            Edit(
                "write/commit/ratify.py",
                "            member = record(",
                "            if members:\n"
                "                from dataclasses import replace\n\n"
                "                draft = replace(draft, added=())\n"
                "            member = record(",
            ),
        ),
        "isolation/test_isolation_delivered.py",
        "promised",
    ),
    Safeguard(
        "R3: what a serializable transaction read is compared, in the tables it writes",
        (Edit("write/commit/conflict.py", "    if not change.reads:\n", "    if change.reads:\n"),),
        "isolation/test_isolation_delivered.py",
        "serializable and promised",
    ),
    Safeguard(
        "R3: what a serializable transaction read is compared, in the tables it only reads",
        (
            Edit(
                "write/transaction/lifecycle.py",
                "        if self.isolation is not Isolation.SERIALIZABLE:\n",
                "        if self.isolation:\n",
            ),
        ),
        "isolation/test_isolation_delivered.py",
        "serializable and promised",
    ),
    Safeguard(
        "R4: a transaction goes through the door of ratification once",
        (
            Edit(
                "write/commit/ratify.py",
                "TransactionState.RATIFIED, now_ms(), opened_ms):",
                "TransactionState.RATIFIED, now_ms(), opened_ms) or transaction_id:",
            ),
        ),
        "test_lost_answers.py",
    ),
    Safeguard(
        "R4: an unknown outcome deletes no file",
        (
            Edit(
                "write/transaction/lifecycle.py",
                "        except OutcomeUnknown:\n",
                "        except OutcomeUnknown:\n"
                "            for member in self.view.members.values():\n"
                "                member.stager.discard()\n",
            ),
        ),
        "test_lost_answers.py",
    ),
    Safeguard(
        "R4: a lost answer is not taken for a failure",
        (
            Edit("log/drivers/sqlite.py", "doubt = OutcomeUnknown(", "doubt = StoreError("),
            Edit("log/drivers/postgres.py", "raise OutcomeUnknown(", "raise StoreError("),
        ),
        "test_lost_answers.py",
    ),
    Safeguard(
        "R4: a table whose answer was lost is not made twice",
        (Edit("write/tables/create.py", "        if done:\n", "        if done is None:\n"),),
        "test_lost_answers.py",
        "each_single",
    ),
    Safeguard(
        "R5: a published file is put if absent, never over another",
        (
            Edit(
                "storage/local.py",
                "                try:\n                    self._link(target, data)\n",
                "                with suppress(OSError):\n"
                "                    os.unlink(target)\n"
                "                try:\n                    self._link(target, data)\n",
            ),
        ),
        "test_publication.py",
    ),
    Safeguard(
        "R5: versions are published in order",
        (
            Edit(
                "formats/delta/published_files.py",
                "    for version in progress.counted(range(first, last + 1), last + 1 - first):\n",
                "    for version in range(last, first - 1, -1):\n",
            ),
        ),
        "test_publication.py",
    ),
    Safeguard(
        "R5: a torn file is made whole",
        (
            Edit(
                "formats/delta/published_files.py",
                "    if data.startswith(found):\n",
                "    if found is None:\n",
            ),
        ),
        "test_publication.py",
    ),
    Safeguard(
        "R7: a registration on a server survives its crash",
        (
            Edit(
                "write/transaction/registration.py",
                "durable=self._context.database.is_remote",
                "durable=False",
            ),
        ),
        "test_store_killed.py",
        "still_registered",
    ),
    Safeguard(
        "R8: a file that cannot be written is an error of our tree",
        (
            Edit(
                "storage/syncing.py",
                "        if isinstance(error, OSError):\n",
                "        if error is None:\n",
            ),
        ),
        "test_disk.py",
        "single",
    ),
    Safeguard(
        "R8: a COMMIT that fails is not taken for done (SQLite)",
        (
            Edit(
                "log/drivers/sqlite.py",
                "            self._end(doubt)\n            raise doubt from failure\n",
                "            self._end(None)\n            return\n",
            ),
        ),
        "test_disk.py",
        "sqlite and strace and write",
    ),
    Safeguard(
        "R9: a commit is later than the one before it, whatever the clock says",
        (
            Edit(
                "write/commit/ratify.py",
                "    return max([now_ms(), *[h.timestamp_ms + 1 for h in current]])\n",
                "    return now_ms()\n",
            ),
        ),
        "test_clock.py",
    ),
    Safeguard(
        "R9: all members of a transaction share one timestamp",
        (
            Edit(
                "write/commit/ratify.py",
                "            draft = draft_of(context, intent, change, timestamp, definition, "
                "position)\n",
                "            late = timestamp_after([head, head])\n"
                "            draft = draft_of(context, intent, change, late, definition, "
                "position)\n",
            ),
        ),
        "test_clock.py",
    ),
    Safeguard(
        "R9: leases on a server are measured by the server's clock",
        (
            Edit(
                "log/drivers/postgres.py",
                "        return int(session.row(_CLOCK)[0])\n",
                "        import time\n\n        return time.time_ns() // 1_000_000\n",
            ),
        ),
        "test_clock.py",
    ),
    Safeguard(
        "R10: a vacuum keeps what tags name",
        (
            Edit(
                "maintain/vacuum/kept.py",
                '"tags hold": tags.held_versions(session, table_id)',
                '"tags hold": tags.held_versions(session, -1)',
            ),
        ),
        "test_vacuum_rounds.py ../maintain/test_vacuum.py",
        "sqlite and tag_holds",
    ),
    Safeguard(
        "R10: a vacuum keeps what branches and clones use",
        (
            Edit(
                "maintain/vacuum/kept.py",
                '"branches and clones use": branches.held_versions(session, table_id)',
                '"branches and clones use": branches.held_versions(session, -1)',
            ),
            Edit(
                "maintain/vacuum/files.py",
                "reach.full_paths_of_others(session, head.table_id)",
                "()",
            ),
        ),
        "test_vacuum_rounds.py ../maintain/test_vacuum.py",
        "sqlite and hold_is_kept",
    ),
    Safeguard(
        "R10: a vacuum keeps what readers have pinned",
        (
            Edit(
                "maintain/vacuum/kept.py",
                "pins.held_versions(session, table_id, now)",
                "pins.held_versions(session, -1, now)",
            ),
        ),
        "test_vacuum_rounds.py ../maintain/test_vacuum.py",
        "sqlite and hold_is_kept",
    ),
    Safeguard(
        "R10: a vacuum keeps what open transactions staged",
        (
            Edit(
                "maintain/vacuum/files.py",
                "state is not TransactionState.OPEN",
                "state in TransactionState",
            ),
        ),
        "test_vacuum_rounds.py ../maintain/test_vacuum.py",
        "sqlite and open_transaction",
    ),
    Safeguard(
        "R10: a vacuum keeps deletion vectors of kept versions",
        (
            Edit(
                "maintain/vacuum/files.py",
                "for p in vector_paths(loads(row[1]))]",
                "for p in vector_paths(loads(row[1]))[:0]]",
            ),
        ),
        "test_vacuum_rounds.py",
        "sqlite and reach",
    ),
    Safeguard(
        "R10: a vacuum follows no link",
        (
            Edit(
                "storage/removal.py",
                "entry.is_dir(follow_symlinks=False)",
                "entry.is_dir(follow_symlinks=True)",
            ),
            Edit(
                "storage/removal.py",
                "_BELOW: Final = _ROOT | os.O_NOFOLLOW",
                "_BELOW: Final = _ROOT",
            ),
        ),
        "test_vacuum_rounds.py",
        "sqlite and reach",
    ),
    Safeguard(
        "R10: a vacuum does not run on a store that is older than the warehouse",
        (
            Edit(
                "maintain/vacuum/behind.py",
                "    path = unknown_commit(context, session, head)\n",
                "    path = None\n",
            ),
        ),
        "../maintain/test_vacuum.py",
        "sqlite and older_than",
    ),
    Safeguard(
        "R10: a vacuum keeps what is younger than the floor",
        (
            Edit(
                "maintain/vacuum/plan.py",
                "f.modified_ms <= latest",
                "f.modified_ms >= 0",
            ),
        ),
        "../maintain/test_vacuum.py",
        "sqlite and (unknown_files or policy)",
    ),
    Safeguard(
        "R10: a vacuum keeps what was added to the table since it was planned",
        (
            Edit(
                "maintain/vacuum/files.py",
                "_take_all(inside, reach.added_since(session, head.table_id, head.version), names",
                "_take_all(inside, (), names",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "restore_between or taken_in",
    ),
    Safeguard(
        "R10: a vacuum looks again at what is held before it retires versions",
        (
            Edit(
                "maintain/vacuum/run.py",
                "if not plan.kept.covers(self._kept(session, head, dropped_ms)):",
                "if not self._kept(session, head, dropped_ms):",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "whoever_holds",
    ),
    Safeguard(
        "R10: whoever comes to hold a version finds out that it is retired",
        (
            Edit(
                "log/retired.py",
                "    if not is_retired(session, head.table_id, version):\n",
                "    if is_retired(session, head.table_id, version) is not None:\n",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "whoever_holds",
    ),
    Safeguard(
        "R10: a vacuum keeps what open transactions may read",
        (
            Edit(
                "maintain/vacuum/kept.py",
                "    if seen is not None and seen < kept_from:\n",
                "    if seen is not None and seen < 0:\n",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "open_transaction_reads",
    ),
    Safeguard(
        "R10: a compaction that was vacuumed is not undone",
        (
            Edit(
                "write/commit/conflict.py",
                "    if put_back is not None and",
                "    if put_back is not None and put_back < 0 and",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "put_back",
    ),
    Safeguard(
        "R10: no table is adopted around the warehouse",
        (
            Edit(
                "formats/places.py",
                "if is_full(place) and overlaps(place, storage.root):",
                "if is_full(place) and overlaps(place, storage.root) is None:",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "around",
    ),
    Safeguard(
        "R10: files of a dropped table belong to the one that took them over",
        (
            Edit(
                "maintain/vacuum/run.py",
                " or heads.has_heir(session, head):",
                ":",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "took_over",
    ),
    Safeguard(
        "R10: a vacuum of a dropped table leaves hidden files of others",
        (
            Edit(
                "maintain/vacuum/files.py",
                "if n.startswith(metadata) or _CHECKSUM.search(n)]",
                "if n.startswith(metadata) or is_hidden(n)]",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "hidden",
    ),
    Safeguard(
        "R10: a table that is dropped again has its whole grace period",
        (
            Edit(
                "maintain/vacuum/run.py",
                "if dropped_ms != plan.dropped_ms:",
                "if (dropped_ms is None) != (plan.dropped_ms is None):",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "dropped_again",
    ),
    Safeguard(
        "R10: a vacuum looks at all tables for a store that is older than the warehouse",
        (
            Edit(
                "maintain/vacuum/run.py",
                "    check_lake_not_behind(context)\n",
                "",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "old_backup",
    ),
    Safeguard(
        "R10: a vacuum knows paths by other spellings",
        (
            Edit(
                "maintain/vacuum/files.py",
                "return posixpath.normpath(place)",
                "return place",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "another_way",
    ),
    Safeguard(
        "R10: a vacuum keeps what refs of other engines name",
        (
            Edit(
                "maintain/vacuum/files.py",
                "paths = publisher.files_of_refs(context, head, refs)",
                "paths = ()",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "tags_and_branches",
    ),
    Safeguard(
        "R10: a version that was the newest is not read after it was vacuumed",
        (
            Edit(
                "read/snapshot.py",
                "        if retired.is_retired(session, self.log_head.table_id, self.version):\n",
                "        if self.version < 0:\n",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "looked_up_before",
    ),
    Safeguard(
        "R10: a table does not come back after its versions were retired",
        (
            Edit(
                "write/tables/undrop.py",
                "        if retired.is_retired(session, head.table_id, head.version):\n",
                "        if head.version < 0:\n",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "cannot_come_back_while",
    ),
    Safeguard(
        "R10: a file that is added by its path and was vacuumed is a conflict",
        (Edit("write/commit/ratify.py", "            if change.claims:\n", "            if 0:\n"),),
        "../maintain/test_vacuum_hostile.py",
        "vanished",
    ),
    Safeguard(
        "R10: nobody adds an unknown file by its path while it is deleted",
        (
            Edit(
                "log/unrecorded.py",
                "    lost = _paths(session, _ANNOUNCED, table_id).intersection(paths)",
                "    lost = _paths(session, _ANNOUNCED, -1).intersection(paths)",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "nobody_adds",
    ),
    Safeguard(
        "R10: a vacuum keeps what open transactions add by their paths",
        (
            Edit(
                "log/unrecorded.py",
                "    return _paths(session, _CLAIMED, table_id)",
                "    return _paths(session, _CLAIMED, -1)",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "by_its_path_is_kept or before_its_batch",
    ),
    Safeguard(
        "R10: a vacuum keeps young files that other engines may be about to commit",
        (
            Edit(
                "maintain/vacuum/plan.py",
                "floor = FLOOR_MS if _others_may_write(head) else limits.floor_ms",
                "floor = limits.floor_ms",
            ),
        ),
        "../maintain/test_vacuum.py",
        "sqlite and unknown_files",
    ),
    Safeguard(
        "R10: a dropped table stays while a transaction may read it",
        (
            Edit(
                "maintain/vacuum/plan.py",
                "if not known or may_be_read(session, dropped_ms) or",
                "if not known or",
            ),
            Edit(
                "maintain/vacuum/run.py",
                "if may_be_read(session, dropped_ms) or heads.has_heir(session, head):",
                "if heads.has_heir(session, head):",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "stays_while_a_transaction",
    ),
    Safeguard(
        "R10: a dropped table that is adopted during a vacuum stays",
        (
            Edit(
                "maintain/vacuum/run.py",
                "if may_be_read(session, dropped_ms) or heads.has_heir(session, head):",
                "if may_be_read(session, dropped_ms):",
            ),
            Edit(
                "maintain/vacuum/run.py",
                "return taken_over(context, head) is not None",
                "return False",
            ),
        ),
        "../maintain/test_vacuum_of_dropped.py",
        "sqlite and adopted_between",
    ),
    Safeguard(
        "R10: a table whose files vacuum deletes is not adopted",
        (
            Edit(
                "write/tables/adopt.py",
                "if retired.is_retired(session, last_id, last.version):",
                "if last_id < 0:",
            ),
        ),
        "../maintain/test_vacuum_of_dropped.py",
        "sqlite and cannot_be_adopted",
    ),
    Safeguard(
        "R10: a dropped table that another lake took over stays",
        (
            Edit(
                "maintain/vacuum/plan.py",
                "theirs = taken_over(context, head) if dropped and forbidden is None else None",
                "theirs = None",
            ),
            Edit(
                "maintain/vacuum/run.py",
                "return taken_over(context, head) is not None",
                "return False",
            ),
        ),
        "../maintain/test_vacuum_of_dropped.py",
        "another_lake",
    ),
    Safeguard(
        "R10: a version that was vacuumed is not undone",
        (
            Edit(
                "write/history/undo.py",
                "check_readable(context, session, head, version)\n",
                "check_readable(context, session, head, version - 1)\n",
            ),
        ),
        "../behaviour/restore/test_restore.py",
        "sqlite and in_part",
    ),
    Safeguard(
        "R10: a document of a tag is not deleted while the outcome is unknown",
        (Edit("write/tables/tag.py", "if not is_committing or _is_refused(error):", "if True:"),),
        "../behaviour/tags/test_tags.py",
        "sqlite and interrupt",
    ),
    Safeguard(
        "R10: commits are given up only for a checkpoint that was read",
        (
            Edit(
                "formats/delta/cleaning.py",
                "(c for c in known if _is_sound",
                "(c for c in known if c or _is_sound",
            ),
        ),
        "../maintain/test_expire.py",
        "is_damaged",
    ),
    Safeguard(
        "R10: manifests that a restored version uses again are kept",
        (Edit("formats/iceberg/forgotten.py", "*first, *returned}", "*first}"),),
        "../maintain/test_expire.py",
        "uses_again",
    ),
    Safeguard(
        "R10: manifests of versions that were held when others were vacuumed are kept",
        (
            Edit(
                "log/retired.py",
                "starts = {first, *(high for _, high in ranges(session, table_id))}",
                "starts = {first}",
            ),
        ),
        "../maintain/test_expire.py",
        "held_when",
    ),
    Safeguard(
        "R10: a vacuum looks again at the refs of other engines",
        (
            Edit(
                "maintain/vacuum/run.py",
                "if not foreign_refs(context, session, head).items() <= plan.refs.items():",
                "if foreign_refs(context, session, head) is None:",
            ),
        ),
        "../maintain/test_vacuum_hostile.py",
        "ref_that",
    ),
    Safeguard(
        "X7: whoever waits for a lock looks for a circle",
        (
            Edit(
                "write/transaction/locking.py",
                "        cycle = claims.deadlock(self._transaction_id)\n",
                "        cycle: Cycle = ()\n",
            ),
        ),
        "test_deadlock.py",
        "three_processes",
    ),
    Safeguard(
        "X7: a commit honours the locks of others",
        (
            Edit(
                "write/commit/ratify.py",
                "    check_locks(context, session, wanted, by=intent.transaction_id)\n",
                "",
            ),
        ),
        "test_deadlock.py",
        "counter",
    ),
    Safeguard(
        "X7: a lock that excludes others is held by one alone",
        (
            Edit(
                "model/locks.py",
                "        return LockMode.WRITE in (self, other)\n",
                "        return False\n",
            ),
        ),
        "test_deadlock.py",
        "counter",
    ),
    Safeguard(
        "X7: whoever asks for a lock has locked the table's head (PostgreSQL)",
        (
            Edit(
                "write/transaction/locking.py",
                "            head = heads.lock(session, found.table_id, self._name)\n",
                "            head = found\n",
            ),
        ),
        "test_deadlock.py",
        "counter and postgres",
    ),
    Safeguard(
        "X7: whoever takes a lock from the dead closes their transaction",
        (
            Edit(
                "log/locks.py",
                "            transactions.end(session, expired, TransactionState.EXPIRED, now)\n",
                "",
            ),
        ),
        "test_deadlock.py",
        "stopped_process",
    ),
    Safeguard(
        "X7: a lock lasts no longer than the lease of its transaction",
        (
            Edit(
                "log/locks.py",
                " if c.lease_until_ms < now}):\n",
                " if c.lease_until_ms < 0}):\n",
            ),
        ),
        "test_deadlock.py",
        "killed_process",
    ),
    Safeguard(
        "R11: an older instance of a writer is fenced off inside the ratifying transaction",
        (_UNFENCED,),
        "test_sink_kills.py",
        "dies_replays",
    ),
    Safeguard(
        "R11: an epoch that is there is not committed again, as the sink and the store know",
        (
            Edit(
                "stream/committer.py",
                "        if last is not None and number <= last:\n            continue\n",
                "",
            ),
            _UNCOUNTED,
        ),
        "test_sink_kills.py",
        "dies_replays",
    ),
    Safeguard(
        "K3: an epoch that is submitted is not committed after one that failed",
        (
            Edit(
                "stream/committer.py",
                "                self._check_broken()\n                return",
                "                return",
            ),
        ),
        "../behaviour/sinks/test_sink_submits.py",
        "none_is_committed",
    ),
    Safeguard(
        "K4: a merge by key conflicts with rows that others add meanwhile",
        (
            Edit(
                "write/transaction/member.py",
                "        change.scopes.extend(plan.scopes)\n",
                "",
            ),
        ),
        "../behaviour/sinks/test_sink_upsert.py",
        "last_moment",
    ),
    Safeguard(
        "R11: the fence, and the count of epochs in the store",
        (_UNFENCED, _UNCOUNTED),
        "test_sink_kills.py",
        "take_over",
    ),
    Safeguard(
        "R6: requests that may pass are repeated",
        (
            Edit(
                "storage/object_store/retry.py",
                "retry=retry_if_exception(is_temporary)",
                "retry=retry_if_exception(lambda _: False)",
            ),
            Edit("storage/object_store/storage.py", '"max_retries", _RETRIES', '"max_retries", 0'),
        ),
        "test_faulty_store.py",
        "nothing_is_lost",
    ),
    Safeguard(
        "P1: a change that Spark made is not replayed on a newer version",
        (
            Edit(
                "engines/base.py",
                "            Capability.RUN_SQL,\n",
                "            Capability.RUN_SQL,\n            Capability.REPLAY,\n",
            ),
            Edit(
                "write/plan/change.py",
                "return not (self.fixed or self.rejected) and (bool(self.steps) or not has_files)",
                "return has_files is not None and not (self.fixed and self.removed)",
            ),
        ),
        "../spark/test_spark_property.py",
        "exactly_once",
    ),
    Safeguard(
        "T6: keys that others committed since the check are compared at ratification",
        (
            Edit(
                "write/commit/ratify.py",
                "        check_guards(session, intent.guards, locked)\n",
                "",
            ),
        ),
        "test_key_races.py",
        "eight and sqlite",
    ),
    Safeguard(
        "T6: a row that others removed since the check is no row to refer to",
        (
            Edit(
                "write/keys/guards.py",
                "return not files.removed_between(",
                "return True or files.removed_between(",
            ),
        ),
        "test_key_races.py",
        "child and sqlite",
    ),
    Safeguard(
        "R6: a store is probed when it is attached",
        (
            Edit(
                "storage/attach.py",
                "range(2)):\n        return",
                "range(2)) or True:\n        return",
            ),
        ),
        "../objects/test_probe.py",
        "overwrites",
    ),
    *SERVICE_SAFEGUARDS,
)


def main(words: list[str]) -> int:
    """Try the safeguards; how many of them no test missed."""
    unnoticed = 0
    for safeguard in SAFEGUARDS:
        if words and not any(word in safeguard.what for word in words):
            continue
        red = tests_gone_red(safeguard)
        unnoticed += not red
        print(f"\n{safeguard.what}", *red or ["NO TEST NOTICED"], sep="\n    ", flush=True)
    return unnoticed


def tests_gone_red(safeguard: Safeguard) -> list[str]:
    """Remove a safeguard from a copy of the source and run its tests; which failed, and why."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "lakeward"
        # With its compiled files, which stay valid for all modules that are not edited.
        shutil.copytree(SOURCE, source)
        for edit in safeguard.edits:
            apply(edit, source / edit.file)
        files = [f"tests/faults/{name}" for name in safeguard.tests.split()]
        options = ["-q", "-p", "no:cacheprovider", "--tb=no", "-m", safeguard.size]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, "-k", safeguard.only, *files],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": directory,
                "PYTHONDONTWRITEBYTECODE": "1",
                "COLUMNS": "400",
            },
            capture_output=True,
            text=True,
        )
    if done.returncode < 0:
        # Something below Python was reached that the safeguard keeps away.
        return [f"the process ended by signal {-done.returncode}"]
    if done.returncode not in (0, 1) or "ImportError" in done.stdout:
        # Red for a reason that proves nothing.
        raise RuntimeError(done.stdout + done.stderr)
    red: dict[str, list[str]] = {}
    for name, case, why in _RED.findall(done.stdout):
        red.setdefault(f"{name}{case.split('-')[0].rstrip(']')}]", []).append(why[:90])
    return [f"{name} × {len(why)}: {why[0]}" for name, why in red.items()]


def apply(edit: Edit, path: Path) -> None:
    """Change a file of the copy."""
    text = path.read_text()
    if edit.old not in text:
        message = f"{edit.file} no longer has:\n{edit.old}"
        raise SystemExit(message)
    path.write_text(text.replace(edit.old, edit.new))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
