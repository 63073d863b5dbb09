-- The exact body of a provider call and its context, compressed together. `request_json` is empty and `context_json` NULL where
-- a row has it. The dictionary is an earlier request of the run, or a text in `contents`, which is then named here.
ALTER TABLE run_turns ADD COLUMN packed BLOB;
ALTER TABLE run_turns ADD COLUMN packed_with TEXT;
