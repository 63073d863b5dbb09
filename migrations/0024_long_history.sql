-- The newest messages of a persona are found without sorting all of them.
CREATE INDEX messages_by_time ON messages (persona_id, received_at);
