"""SQL expressions over a table's columns: parsed, bound to a schema, rendered, and used to prune.

Reading order: `nodes` (the bound tree), `where` (text to tree, the entry point), `parsed` and
`binder` (the way through the parser's tree), `bind_values` and `bind_conditions` (one handler for
each SQL construct), `names` (columns), `literals`, `coercion` and `functions` (types and
conversions); then the users of a tree: `prune` and `projection` (which files can match), `render`
(SQL text). `when` has the clauses of a merge.
"""
