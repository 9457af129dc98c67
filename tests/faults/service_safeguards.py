"""Safeguards of the service: of access, of limits, and of commits of other engines."""

from __future__ import annotations

from typing import Final

from tests.faults.safeguard import Edit, Safeguard

_ACCESS: Final = "../web/test_access.py"
_EDGE: Final = "../web/test_edge.py"
_PAGES: Final = "../web/test_pages.py"
_MALFORMED: Final = "../web/test_malformed.py"
_CATALOG: Final = "../web/test_iceberg_catalog.py"


def _service(what: str, file: str, old: str, new: str, tests: str, only: str = "") -> Safeguard:
    return Safeguard(f"R12: {what}", (Edit(file, old, new),), tests, only)


SERVICE_SAFEGUARDS: Final = (
    _service(
        "a route that declares no role is closed",
        "web/access.py",
        "        raise Forbidden(what)\n    if need.role is None:",
        "        return\n    if need.role is None:",
        _ACCESS,
        "says_nothing",
    ),
    _service(
        "a route needs a valid token",
        "web/access.py",
        "        raise Unauthenticated(what, hint=hint)",
        "        return",
        _ACCESS,
        "without_a_valid_token",
    ),
    _service(
        "the secret of a token is compared",
        "lake/tokens.py",
        "row is None or not hmac.compare_digest(row.digest, _digest(parsed[2]))",
        "row is None",
        _ACCESS,
        "without_a_valid_token and forged",
    ),
    _service(
        "a token ends when it expires or is revoked",
        "lake/tokens.py",
        "return found if found.valid else None",
        "return found",
        _ACCESS,
        "without_a_valid_token",
    ),
    _service(
        "a route needs its role",
        "web/access.py",
        "if not caller.role.includes(need.role):",
        "if False:",
        _ACCESS,
        "smaller_role",
    ),
    _service(
        "the table in an address is open to the caller",
        "web/access.py",
        "        if not self.sees(name):",
        "        if False:",
        _ACCESS,
        "looks_as_if or names_in_bodies",
    ),
    _service(
        "lists leave out what is not open to the caller",
        "web/api/lake.py",
        '    return {**to_json(record), "versions": versions} if versions else None',
        "    return dict(to_json(record))",
        _ACCESS,
        "lists_have_only",
    ),
    _service(
        "the audit trail leaves out other tables",
        "web/api/lake.py",
        "[e for e in found if by.sees(e.table)]",
        "found",
        _ACCESS,
        "lists_have_only",
    ),
    _service(
        "hints of errors name no other tables",
        "web/problems.py",
        "hint = error.hint if is_open or not isinstance(error, errors.NotFound) else None",
        "hint = error.hint",
        _ACCESS,
        "lists_have_only",
    ),
    _service(
        "a tag is moved by those who see its tables",
        "web/api/writes.py",
        "if body.replace and not by.sees_everything:",
        "if False:",
        _ACCESS,
        "names_in_bodies",
    ),
    _service(
        "a foreign key refers to a table that is open to the caller",
        "web/api/writes.py",
        "    by.check_all(asked.references)\n",
        "",
        _ACCESS,
        "names_in_bodies",
    ),
    _service(
        "the tables of a commit over several are open to the caller",
        "web/iceberg/routes.py",
        "            by.check(str(lake_catalog.name_of(one.namespace, one.name)))",
        "            one",
        _ACCESS,
        "names_in_bodies",
    ),
    _service(
        "what is about the whole lake needs all tables",
        "web/access.py",
        '        if not self.sees_everything:\n            what = "This is',
        '        if False:\n            what = "This is',
        _ACCESS,
        "about_the_whole_lake",
    ),
    _service(
        "other machines reach it only with tokens",
        "web/settings.py",
        "    if settings.is_loopback and settings.public_name is None:\n        return",
        "    if settings is not None:\n        return",
        _ACCESS,
        "listens_elsewhere or behind_a_proxy",
    ),
    _service(
        "requests that a proxy hands on need a token",
        "web/access.py",
        "state.settings.anonymous if is_own else None",
        "state.settings.anonymous if is_own or True else None",
        _ACCESS,
        "proxy_brings",
    ),
    _service(
        "commits record the name of the token",
        "web/access.py",
        "lake.acting_as(token.name)",
        "lake",
        _ACCESS,
        "name_of_the_token",
    ),
    _service(
        "on loopback only its own names are answered",
        "web/settings.py",
        "        if not self.is_loopback:\n            return True",
        "        if self.host:\n            return True",
        _EDGE,
        "other_names",
    ),
    _service(
        "changes that another site asks for are refused",
        "web/edge.py",
        '        if is_other or headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):',
        "        if is_other and not origin:",
        _EDGE,
        "another_site",
    ),
    _service(
        "pages forbid inline scripts",
        "web/edge.py",
        "script-src 'self';",
        "script-src 'self' 'unsafe-inline';",
        _EDGE,
        "forbids_foreign_scripts",
    ),
    _service(
        "pages escape every text",
        "web/pages/rendering.py",
        "autoescape=True",
        "autoescape=False",
        _PAGES,
        "leads_to_a_page_that_is_safe",
    ),
    _service(
        "signing in leads to no other site",
        "web/pages/session.py",
        '    return place if is_local and place.isprintable() else "/"',
        '    return place if is_local or place else "/"',
        _PAGES,
        "no_other_site",
    ),
    _service(
        "a body that says that it is too large is refused",
        "web/edge.py",
        "int(self._said) > self._most",
        "int(self._said) < 0",
        _EDGE,
        "says_that_it_is_too_large",
    ),
    _service(
        "a body that turns out too large is refused",
        "web/edge.py",
        "        if self._size > self._most:",
        "        if self._size < 0:",
        _EDGE,
        "limited_in_size",
    ),
    _service(
        "a slow body is given up",
        "web/edge.py",
        "asyncio.timeout(max(0.0, self._deadline - time.monotonic()))",
        "asyncio.timeout(60 + max(0.0, self._deadline - time.monotonic()))",
        _EDGE,
        "body_that_does_not_arrive",
    ),
    _service(
        "a slow head is given up",
        "web/protocol.py",
        "        if not self.transport.is_closing():",
        "        if self.transport.is_closing():",
        _EDGE,
        "head_that_does_not_arrive",
    ),
    _service(
        "one caller makes so many requests",
        "web/rates.py",
        "        return has_one\n",
        "        return True\n",
        _EDGE,
        "busy",
    ),
    _service(
        "rows are limited by their size in memory",
        "web/uploads.py",
        "        if size > most:",
        "        if size < 0:",
        _EDGE,
        "what_they_are_in_memory",
    ),
    _service(
        "answers show no path and no secret",
        "web/hiding.py",
        "            text = text.replace(place, shown)\n",
        "            text = text.replace(place, place)\n",
        _EDGE,
        "paths_and_secrets",
    ),
    _service(
        "the server prints no exception",
        "web/edge.py",
        "            if not status:\n                failed",
        "            raise\n            if not status:\n                failed",
        _EDGE,
        "log_has_no_secret",
    ),
    _service(
        "buffers of Arrow streams are checked",
        "web/uploads.py",
        "        batch.validate(full=True)\n",
        "",
        _MALFORMED,
        "rows_that_cannot and arrow",
    ),
    _service(
        "broken manifests of a client are a mistake of the client",
        "write/branch/remote.py",
        "    except CorruptTable as error:\n",
        "    except CorruptTable as error:\n        raise\n",
        _MALFORMED,
        "manifests",
    ),
    _service(
        "a commit names files in its table's directory only",
        "write/branch/remote.py",
        "        if name not in known and not path(name).startswith(root):",
        '        if name not in known and not path(name).startswith("/"):',
        _CATALOG,
        "own and outside",
    ),
    _service(
        "a commit adds files in its table's directory only",
        "write/branch/remote.py",
        '            if is_full(file.path) or ".." in file.path.split("/"):',
        "            if not file.path:",
        _CATALOG,
        "data_file_of_another_table",
    ),
    Safeguard(
        "R1: a REST commit is ratified on the version that it requires",
        (Edit("write/branch/remote.py", "    change.exact = commit.requires_base\n", ""),),
        _CATALOG,
        "holds_when_it_is_ratified",
    ),
    Safeguard(
        "R1: delete files of other engines are kept",
        (
            Edit(
                "lake/rest_catalog.py",
                "if commit.changes_rows_only and not remote.adds_delete_files(",
                "if commit.changes_rows_only or not remote.adds_delete_files(",
            ),
            Edit(
                "write/branch/iceberg.py",
                "if any(file.deletion_vector is not None for file in added):",
                "if any(file.path is None for file in added):",
            ),
        ),
        "../web/test_rest_engines.py",
        "duckdb",
    ),
    Safeguard(
        "R1: a REST commit with a key is made once",
        (
            Edit(
                "web/iceberg/routes.py",
                "lake_catalog.commit(asked, transaction_id=key)",
                "lake_catalog.commit(asked)",
            ),
        ),
        "test_rest_kills.py",
        "at_once",
    ),
    Safeguard(
        "R1: a REST commit over several tables is one transaction",
        (
            Edit(
                "lake/rest_catalog.py",
                "        with begun as tx:\n            for name, commit in wanted:\n",
                "        for name, commit in wanted:\n"
                "            with self._transactions.begin(\n"
                '                isolation="snapshot", message=None\n'
                "            ) as tx:\n",
            ),
        ),
        _CATALOG,
        "several_tables or keeps_all_back",
    ),
    _service(
        "a key of other tables acknowledges nothing",
        "lake/rest_catalog.py",
        "            if not set(done.versions) <= {str(name) for name, _ in wanted}:",
        "            if not wanted:",
        _CATALOG,
        "acknowledges_nothing",
    ),
    _service(
        "settings of the lake are no properties for engines",
        "formats/iceberg/requests.py",
        "        if kept is not None:",
        "        if kept is not None and not kept:",
        _CATALOG,
        "settings_of_the_lake",
    ),
    _service(
        "a staged table is created at its own place",
        "write/branch/remote_creation.py",
        "    if not re.fullmatch(",
        '    if re.fullmatch(r"\\0", location) and not re.fullmatch(',
        _CATALOG,
        "own_place_only",
    ),
)
