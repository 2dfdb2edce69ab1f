"""The only way to change what guards are told: policies, the blocklist, stops, signing secrets.

Each verb takes an actor, writes its row, the audit row and the bundles of the tenants it concerns in one
transaction, and wakes the guards when that commits. An edit of a whole organisation, or of everybody, writes
its row and a `Change`; the bundles follow in batches (`policies.publish.changes`).

Locks, in this order: the rows that are edited, then tenants in ascending order of id. Organisations and
tenants are locked without their keys: a commit looks at the keys of what its rows point to, in no order.
"""
