"""The dashboard: pages made of the records that the REST API answers with."""
