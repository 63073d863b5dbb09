-- Waiting letters of one thread are answered by one run (decision D-170): that of the last letter.
ALTER TABLE runs ADD COLUMN letters INTEGER NOT NULL DEFAULT 1; -- how many letters it answers
ALTER TABLE runs ADD COLUMN answered_by TEXT;                   -- the run that answers its letter in its place
