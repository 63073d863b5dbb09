-- The writer merges the index of messages a few pages at a time (`store/mail/search_index.rs`): eight segments of a level
-- become one. FTS5's own bursts are what remains when nobody merges, as under `attache import`.
INSERT INTO messages_fts (messages_fts, rank) VALUES ('usermerge', 8);
INSERT INTO messages_fts (messages_fts, rank) VALUES ('automerge', 12);
