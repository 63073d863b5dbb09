-- Which boot of which machine a node belongs to, and which folder there (D-147): names of machines are not theirs alone.
ALTER TABLE nodes ADD COLUMN identity TEXT NOT NULL DEFAULT '';
