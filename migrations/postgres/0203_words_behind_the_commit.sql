-- SQLite alone makes words behind the commit: a transaction here makes them by one statement, and another persona's waits for none.
SELECT 1;
