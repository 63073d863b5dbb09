-- The lexical index of letters: what is new in each, without quotations. A letter's thread is a word of it, so that a
-- search for one correspondent reads the letters of their threads only. Built from what is there by the engine, in steps
-- (`store/search/index_build.rs`), which then drops the index of 0001.
CREATE VIEW letter_texts (seq, thread, subject, sender, own) AS
  SELECT seq, replace(thread_id, '-', ''), subject, sender, coalesce(fresh_text, text_body) FROM messages;
CREATE VIRTUAL TABLE letter_words USING fts5(
  thread, subject, sender, own,
  content = 'letter_texts', content_rowid = 'seq', tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO letter_words (letter_words, rank) VALUES ('usermerge', 8);
INSERT INTO letter_words (letter_words, rank) VALUES ('automerge', 12);
-- Words of a letter that is deleted go at once, and not when their segment is merged.
INSERT INTO letter_words (letter_words, rank) VALUES ('secure-delete', 1);

DROP TRIGGER messages_fts_insert;
DROP TRIGGER messages_fts_delete;
CREATE TRIGGER letter_words_insert AFTER INSERT ON messages BEGIN
  INSERT INTO letter_words (rowid, thread, subject, sender, own)
  VALUES (new.seq, replace(new.thread_id, '-', ''), new.subject, new.sender, coalesce(new.fresh_text, new.text_body));
END;
-- A letter that is not indexed yet has nothing to delete.
CREATE TRIGGER letter_words_delete AFTER DELETE ON messages
WHEN EXISTS (SELECT 1 FROM letter_words_docsize WHERE id = old.seq) BEGIN
  INSERT INTO letter_words (letter_words, rowid, thread, subject, sender, own)
  VALUES ('delete', old.seq, replace(old.thread_id, '-', ''), old.subject, old.sender, coalesce(old.fresh_text, old.text_body));
END;
CREATE TRIGGER letter_words_update AFTER UPDATE OF thread_id, subject, sender, text_body, fresh_text ON messages
WHEN EXISTS (SELECT 1 FROM letter_words_docsize WHERE id = old.seq) BEGIN
  INSERT INTO letter_words (letter_words, rowid, thread, subject, sender, own)
  VALUES ('delete', old.seq, replace(old.thread_id, '-', ''), old.subject, old.sender, coalesce(old.fresh_text, old.text_body));
  INSERT INTO letter_words (rowid, thread, subject, sender, own)
  VALUES (new.seq, replace(new.thread_id, '-', ''), new.subject, new.sender, coalesce(new.fresh_text, new.text_body));
END;

-- Letters below this number may be missing in the index; without a row, it is whole.
CREATE TABLE letter_words_build (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  below INTEGER NOT NULL
) STRICT;
INSERT INTO letter_words_build (id, below) SELECT 1, coalesce(max(seq), 0) + 1 FROM messages;

CREATE INDEX thread_participants_by_address ON thread_participants (address, thread_id);
