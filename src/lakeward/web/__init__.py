"""The service of a lake: REST API, dashboard and Iceberg REST catalog, on the same records."""
