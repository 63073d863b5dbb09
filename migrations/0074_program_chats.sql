-- A message of a program is found by the digest of all that its conversation held up to it.
CREATE INDEX messages_said ON messages (persona_id, metadata_json ->> '$.said_sha256')
  WHERE direction = 'synthetic' AND metadata_json ->> '$.said_sha256' IS NOT NULL;
