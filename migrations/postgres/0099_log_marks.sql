-- For the file of SQLite alone (D-151).
ALTER TABLE engine ADD COLUMN mark BIGINT NOT NULL DEFAULT 0;
