"""A Prometheus that scrapes a service: Debian's package, on a port of this machine."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

import httpx
import yaml  # type: ignore[import-untyped]

from tests.support.promtool import program
from tests.support.servers import PATIENCE_SECONDS, Server, free_port

_SHARED: Final = ("__name__", "alertname", "alertstate", "severity")


class Prometheus(Server):
    """A running Prometheus with rules.

    Args:
        target: Host and port of what it scrapes.
        secret: The token that it shows there.
        rules: A file of rules. They are evaluated twice per second, and what must hold for minutes
            must hold for as many seconds; their expressions stay as they are.

    Raises:
        Unobtainable: It is not installed, and Debian's package cannot be downloaded.
    """

    def __init__(self, target: str, secret: str, rules: Path) -> None:
        binary = program("prometheus")
        super().__init__("prometheus")
        port = free_port()
        (self._directory / "token").write_text(secret)
        (self._directory / "rules.yml").write_text(json.dumps(_faster(rules)))
        job = {
            "job_name": "lakeward",
            "authorization": {"credentials_file": "token"},
            "static_configs": [{"targets": [target]}],
        }
        config = {
            "global": {"scrape_interval": "2s", "evaluation_interval": "500ms"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [job],
        }
        # JSON is YAML.
        (self._directory / "prometheus.yml").write_text(json.dumps(config))
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
        command = [
            str(binary),
            f"--config.file={self._directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self._serve(command, port)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._client.get("/-/ready").status_code != httpx.codes.OK:
            if time.monotonic() > deadline:
                raise self._silent()
            time.sleep(0.05)

    def close(self) -> None:
        """Stop it and delete its data."""
        self._client.close()
        super().close()

    def value(self, query: str) -> float | None:
        """The value of a query with one series now; None if it has no series."""
        (found,) = self._ask("/query", query=query)["result"] or [None]
        return None if found is None else float(found["value"][1])

    def alerts(self) -> dict[tuple[str, ...], str]:
        """The states of active alerts, by name and the values of their own labels."""
        return {_alert(found["labels"]): found["state"] for found in self._ask("/alerts")["alerts"]}

    def past_alerts(self) -> set[tuple[str, ...]]:
        """All alerts that ever were pending or firing."""
        return {_alert(labels) for labels in self._ask("/series", **{"match[]": "ALERTS"})}

    def _ask(self, path: str, **parameters: str) -> Any:
        response = self._client.get(f"/api/v1{path}", params=parameters)
        assert response.status_code == 200, response.text
        return response.json()["data"]


def _alert(labels: dict[str, str]) -> tuple[str, ...]:
    own = {k: v for k, v in labels.items() if k not in _SHARED}
    return (labels["alertname"], *own.values())


def _faster(rules: Path) -> Any:
    """The rules, with `for: 2m` as `for: 2s`, and so on."""
    found = yaml.safe_load(rules.read_text())
    for group in found["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                number, unit = rule["for"][:-1], rule["for"][-1]
                rule["for"] = number + {"m": "s", "h": "m"}[unit]
    return found
