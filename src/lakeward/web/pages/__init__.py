"""The dashboard: HTML pages that show the records of the REST API."""
