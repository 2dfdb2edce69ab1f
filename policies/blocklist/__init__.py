"""What the pages of the blocklist are about: whose lists somebody edits, and what an edit would do."""
