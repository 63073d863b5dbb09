-- On PostgreSQL some functions keep their plans from here on; SQLite's are its own.
SELECT 1;
