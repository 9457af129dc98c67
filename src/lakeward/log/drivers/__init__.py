"""The two databases that can hold a log, and how a store is opened.

`connect` opens a store by the path or URL that a user gave; `sqlite` and `postgres` implement
`lakeward.log.database`.
"""
