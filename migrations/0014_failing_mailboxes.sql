-- Since when a mailbox could not be fetched from, NULL while it can: the owner is told once per outage.
ALTER TABLE mailboxes ADD COLUMN failing_since TEXT;
