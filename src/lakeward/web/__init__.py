"""The HTTP service of a lake: REST API, dashboard and Iceberg REST catalog."""
