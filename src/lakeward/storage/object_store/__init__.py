"""Warehouses on S3, Azure and GCS, by obstore.

`storage` implements `lakeward.storage.base`; `places` parses names, `options` and `settings`
resolve credentials, `engine_options` names them for other engines, `files` uploads and reads, and
`retry` and `errors` handle failures.
"""
