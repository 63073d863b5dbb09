-- The digests of the texts in `contents` that a turn was told, the digest of its configuration among them. Only the names that
-- the engine itself writes into the note of what was read count: the note also holds words of letters, and any word of
-- 64 characters looks like a digest.
CREATE VIEW turn_texts (run_id, turn_index, attempt, pruned_at, sha256) AS
  SELECT t.run_id, t.turn_index, t.attempt, t.pruned_at, n.value FROM run_turns t, json_tree(t.sources_json) n
  WHERE n.type = 'text' AND ((n.path = '$' AND n.key = 'config') OR (n.key = 'sha256' AND n.path GLOB '$.reads*'));
