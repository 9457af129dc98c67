"""A provider for Apache Airflow: hook, operators, sensors and assets for the tables of a lake."""

from __future__ import annotations

from typing import Any

_HERE = "lakeward.integrations.airflow"


def get_provider_info() -> dict[str, Any]:
    """Return the provider metadata that Airflow reads by entry point; do not import Airflow."""
    import lakeward

    integration = "Lakeward"
    return {
        "package-name": "lakeward",
        "name": integration,
        "description": "Lakes of Delta and Iceberg tables, with one transaction over many tables.",
        "versions": [lakeward.__version__],
        "integrations": [
            {"integration-name": integration, "tags": ["software"], "external-doc-url": ""}
        ],
        "operators": [{"integration-name": integration, "python-modules": [f"{_HERE}.operators"]}],
        "sensors": [{"integration-name": integration, "python-modules": [f"{_HERE}.sensors"]}],
        "hooks": [{"integration-name": integration, "python-modules": [f"{_HERE}.hook"]}],
        "triggers": [{"integration-name": integration, "python-modules": [f"{_HERE}.triggers"]}],
        "connection-types": [
            {
                "connection-type": "lakeward",
                "hook-class-name": f"{_HERE}.hook.LakewardHook",
            }
        ],
        "asset-uris": [
            {
                "schemes": ["lakeward"],
                "handler": f"{_HERE}.assets.sanitize_uri",
                "factory": f"{_HERE}.assets.create_asset",
            }
        ],
    }
