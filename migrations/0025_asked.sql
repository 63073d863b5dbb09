-- The last engine, by its epoch, that was asked to end: what became of it after that counts against no run.
ALTER TABLE engine ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;
