-- Grows with the groups of writes: a number outside of the file, compared at the next opening, shows that a log was lost (D-151).
ALTER TABLE engine ADD COLUMN mark INTEGER NOT NULL DEFAULT 0;
