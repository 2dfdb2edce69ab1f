"""How guards pull their bundles: what the gate holds in memory, whom it wakes, and what it learns of them.

`listening` hears of new revisions, `hub` holds the newest bundle of each tenant and the requests that wait
for the next, `reading` asks the database for both, `fleet` keeps what guards say of themselves and writes it
in batches.
"""
