-- Functions of SQLite that statements of the store use, for PostgreSQL 15 and newer, so that one text of a statement serves both
-- databases. They need no superuser and no extension. Names are SQLite's where PostgreSQL lets them be.
--
-- What these functions cannot change, and statements therefore must not rely on:
-- - `json_object`, `json_array` and `char` are words of PostgreSQL's grammar (the first two from version 16 on).
-- - `value` of `json_each` is text, also where the JSON has a number: a number is compared as `CAST(value AS BIGINT)`.
-- - `CAST(bytes AS TEXT)` writes hexadecimal digits: bytes are read by `convert_from(bytes, 'UTF8')`. `x''` is no bytes but bits.
-- - LIKE heeds case, and rows without a value come last in an ascending order.
--
-- Most are plain SQL of one expression and not STRICT, because only such a function becomes part of the plan of its caller. One
-- that does not (an argument that it uses more than once, a sub-select, a caller that is no statement) is in PL/pgSQL, which keeps
-- its plan for as long as the session lasts. The type is `json`, not `jsonb`: it keeps the digits of numbers and the order of
-- members, as SQLite does.

-- The order of texts is that of their bytes, and letters beyond ASCII have no case, as in SQLite: instants are compared as texts,
-- and `~` stands behind all of them.
DO $$
BEGIN
  IF current_setting('server_version_num')::INT < 150000 THEN
    RAISE EXCEPTION 'PostgreSQL % is too old: use 15 or newer', current_setting('server_version');
  END IF;
  IF current_setting('server_encoding') <> 'UTF8' OR NOT ('B' < 'a' AND 'z' < '~' AND 'z' < 'ä' AND lower('Ä') = 'Ä') THEN
    RAISE EXCEPTION 'the database % compares texts by a language', current_database()
      USING HINT = 'Make it by CREATE DATABASE name TEMPLATE template0 ENCODING ''UTF8'' LOCALE ''C''.';
  END IF;
END $$;

-- JSON

-- No text of PostgreSQL can have a NUL. JSON can, as an escape, and every look into such JSON would fail: it is read as U+FFFD.
CREATE FUNCTION json_of(j TEXT) RETURNS JSON LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN strpos(j, '\u0000') = 0 THEN j
    ELSE regexp_replace(j, '((?<!\\)(?:\\\\)*)\\u0000', '\1\\ufffd', 'g') END::JSON
$$;

-- A value as SQLite gives it: a text without quotes, true and false as 1 and 0, null as NULL, objects and arrays as JSON.
CREATE FUNCTION json_scalar(v JSON) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE WHEN json_typeof(v) = 'boolean' THEN CASE WHEN v #>> '{}' = 'true' THEN '1' ELSE '0' END ELSE v #>> '{}' END;
END $$;

-- SQLite's names of types.
CREATE FUNCTION json_kind(v JSON) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE json_typeof(v) WHEN 'string' THEN 'text' WHEN 'boolean' THEN v #>> '{}'
    WHEN 'number' THEN CASE WHEN v #>> '{}' ~ '[.eE]' THEN 'real' ELSE 'integer' END ELSE json_typeof(v) END;
END $$;

-- The steps of a path such as `$.reads[0].name`, `$` or a plain name. A name cannot have a dot or a bracket.
CREATE FUNCTION json_steps(path TEXT) RETURNS TEXT[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN left(path, 1) = '$' THEN string_to_array(ltrim(translate(substr(path, 2), '[]', '.'), '.'), '.')
    ELSE ARRAY[path] END
$$;

CREATE FUNCTION json_extract(j TEXT, path TEXT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  found TEXT;
BEGIN
  found := json_of(j) #>> json_steps(path);
  IF found = 'true' OR found = 'false' THEN
    found := json_scalar(json_of(j) #> json_steps(path));
  END IF;
  RETURN found;
END $$;
CREATE FUNCTION json_element(j TEXT, place BIGINT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN json_scalar(json_of(j) -> place::INT);
END $$;
CREATE FUNCTION json_extract_json(j TEXT, path TEXT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN (json_of(j) #> json_steps(path))::TEXT;
END $$;
CREATE FUNCTION json_element_json(j TEXT, place BIGINT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (json_of(j) -> place::INT)::TEXT
$$;
CREATE OPERATOR ->> (LEFTARG = TEXT, RIGHTARG = TEXT, FUNCTION = json_extract);
CREATE OPERATOR ->> (LEFTARG = TEXT, RIGHTARG = BIGINT, FUNCTION = json_element);
CREATE OPERATOR -> (LEFTARG = TEXT, RIGHTARG = TEXT, FUNCTION = json_extract_json);
CREATE OPERATOR -> (LEFTARG = TEXT, RIGHTARG = BIGINT, FUNCTION = json_element_json);

-- The elements of an array or the values of an object, with their places from 0 on; of NULL and of null, none. Where SQLite has the
-- name of a member in `key`, this has its place, since a column has one type: `json_members` returns the names.
CREATE FUNCTION json_elements(v JSON) RETURNS JSON LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF json_typeof(v) = 'array' THEN
    RETURN v;
  ELSIF json_typeof(v) = 'object' THEN
    RETURN (SELECT json_agg(m.value) FROM json_each(v) m);
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION json_each(j TEXT) RETURNS TABLE (key BIGINT, value TEXT, type TEXT)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10 AS $$
  SELECT e.place - 1, json_scalar(e.v), json_kind(e.v)
  FROM json_array_elements(json_elements(json_of(j))) WITH ORDINALITY AS e (v, place)
$$;
CREATE FUNCTION json_each(j TEXT, path TEXT) RETURNS TABLE (key BIGINT, value TEXT, type TEXT)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10 AS $$
  SELECT e.place - 1, json_scalar(e.v), json_kind(e.v)
  FROM json_array_elements(json_elements(json_of(j) #> json_steps(path))) WITH ORDINALITY AS e (v, place)
$$;
-- SQLite's `jsonb_each` differs from its `json_each` by the form of its results alone.
CREATE FUNCTION jsonb_each(j TEXT) RETURNS TABLE (key BIGINT, value TEXT, type TEXT)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10 AS $$
  SELECT e.place - 1, json_scalar(e.v), json_kind(e.v)
  FROM json_array_elements(json_elements(json_of(j))) WITH ORDINALITY AS e (v, place)
$$;
CREATE FUNCTION json_members(j TEXT) RETURNS TABLE (key TEXT, value TEXT, type TEXT)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10 AS $$
  SELECT e.name, json_scalar(e.v), json_kind(e.v)
  FROM json_each(CASE WHEN json_typeof(json_of(j)) = 'object' THEN json_of(j) END) AS e (name, v)
$$;

-- Every value within a text, with the path of what it stands in, in no order. Names in a path are not quoted.
CREATE FUNCTION json_tree(j TEXT) RETURNS TABLE (key TEXT, value TEXT, type TEXT, path TEXT)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  WITH RECURSIVE tree (key, v, path, own) AS (
    SELECT NULL::TEXT, json_of(j), NULL::TEXT, '$'
    UNION ALL
    SELECT e.key, e.v, t.own, t.own || CASE WHEN json_typeof(t.v) = 'array' THEN '[' || e.key || ']' ELSE '.' || e.key END
    FROM tree t CROSS JOIN LATERAL (
      SELECT m.key, m.value FROM json_each(CASE WHEN json_typeof(t.v) = 'object' THEN t.v END) m
      UNION ALL
      SELECT (a.place - 1)::TEXT, a.value
      FROM json_array_elements(CASE WHEN json_typeof(t.v) = 'array' THEN t.v END) WITH ORDINALITY AS a (value, place)) AS e (key, v))
  SELECT key, json_scalar(v), json_kind(v), path FROM tree WHERE v IS NOT NULL
$$;

CREATE FUNCTION json_array_length(j TEXT) RETURNS BIGINT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE WHEN json_typeof(json_of(j)) = 'array' THEN json_array_length(json_of(j)) WHEN j IS NOT NULL THEN 0 END::BIGINT;
END $$;
CREATE FUNCTION json_quote(v TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(to_json(v)::TEXT, 'null')
$$;
CREATE FUNCTION json_quote(v BIGINT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(v::TEXT, 'null')
$$;

-- Whether a text is JSON. Version 15 can only try, and whoever tries cannot do so in a parallel worker.
DO $do$
BEGIN
  IF current_setting('server_version_num')::INT >= 160000 THEN
    EXECUTE 'CREATE FUNCTION json_valid(j TEXT) RETURNS BOOLEAN LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT j IS JSON $$';
  ELSE
    CREATE FUNCTION json_valid(j TEXT) RETURNS BOOLEAN LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE AS $$
    BEGIN
      RETURN CASE WHEN j IS NULL THEN NULL ELSE j::JSON IS NOT NULL END;
    EXCEPTION WHEN data_exception OR program_limit_exceeded OR statement_too_complex THEN
      RETURN FALSE;
    END $$;
  END IF;
END $do$;

-- Aggregates of JSON. An array of nothing is `[]`. Elements that are JSON themselves come as `json`, as from
-- `json_build_object`; all others are texts or numbers.
CREATE FUNCTION json_array_text(elements TEXT[]) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN '[' || array_to_string(elements, ',', 'null') || ']';
END $$;
CREATE FUNCTION json_array_add(elements TEXT[], v TEXT) RETURNS TEXT[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN array_append(elements, to_json(v)::TEXT);
END $$;
CREATE FUNCTION json_array_add(elements TEXT[], v BIGINT) RETURNS TEXT[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN array_append(elements, v::TEXT);
END $$;
CREATE FUNCTION json_array_add(elements TEXT[], v JSON) RETURNS TEXT[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN array_append(elements, v::TEXT);
END $$;
CREATE AGGREGATE json_group_array(TEXT) (SFUNC = json_array_add, STYPE = TEXT[], FINALFUNC = json_array_text, INITCOND = '{}',
  PARALLEL = SAFE);
CREATE AGGREGATE json_group_array(BIGINT) (SFUNC = json_array_add, STYPE = TEXT[], FINALFUNC = json_array_text, INITCOND = '{}',
  PARALLEL = SAFE);
CREATE AGGREGATE json_group_array(JSON) (SFUNC = json_array_add, STYPE = TEXT[], FINALFUNC = json_array_text, INITCOND = '{}',
  PARALLEL = SAFE);

-- Texts, bytes and numbers

-- So that `CAST('' AS BLOB)` is no bytes on both; a text with anything in it is not cast by its bytes.
CREATE DOMAIN BLOB AS BYTEA;

CREATE FUNCTION instr(haystack TEXT, needle TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT strpos(haystack, needle)::BIGINT
$$;
CREATE FUNCTION instr(haystack BYTEA, needle BYTEA) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT position(needle IN haystack)::BIGINT
$$;

-- With places as the store binds them. A place below 0 counts from the end; the store uses no length below 0.
CREATE FUNCTION substr(v TEXT, place BIGINT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN place < 0 THEN right(v, -place::INT) ELSE substr(v, place::INT) END
$$;
CREATE FUNCTION substr(v TEXT, place BIGINT, size BIGINT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN place < 0 THEN left(right(v, -place::INT), size::INT) ELSE substr(v, place::INT, size::INT) END
$$;
CREATE FUNCTION substr(v BYTEA, place BIGINT, size BIGINT) RETURNS BYTEA LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT substr(v, place::INT, size::INT)
$$;

CREATE FUNCTION iif(condition BOOLEAN, a TEXT, b TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN condition THEN a ELSE b END
$$;
CREATE FUNCTION iif(condition BOOLEAN, a BIGINT, b BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN condition THEN a ELSE b END
$$;
CREATE FUNCTION iif(condition BIGINT, a TEXT, b TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN condition <> 0 THEN a ELSE b END
$$;
CREATE FUNCTION iif(condition BIGINT, a BIGINT, b BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN condition <> 0 THEN a ELSE b END
$$;
-- SQLite's sign that a column is not to be looked up by an index.
CREATE FUNCTION text_itself(v TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT v $$;
CREATE OPERATOR + (RIGHTARG = TEXT, FUNCTION = text_itself);
-- Of two values, as SQLite has them beside the aggregates: NULL where one is NULL, unlike `greatest` and `least`.
CREATE FUNCTION max(a BIGINT, b BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN a >= b THEN a WHEN a < b THEN b END
$$;
CREATE FUNCTION min(a BIGINT, b BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN a <= b THEN a WHEN a > b THEN b END
$$;
CREATE FUNCTION max(a TEXT, b TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN a >= b THEN a WHEN a < b THEN b END
$$;
CREATE FUNCTION min(a TEXT, b TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN a <= b THEN a WHEN a > b THEN b END
$$;

-- Conditions are numbers to SQLite, so that their sum is a count; NULL where there is nothing to count.
CREATE FUNCTION sum_add(sum BIGINT, condition BOOLEAN) RETURNS BIGINT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE WHEN condition IS NULL THEN sum ELSE coalesce(sum, 0) + condition::INT END;
END $$;
CREATE AGGREGATE sum(BOOLEAN) (SFUNC = sum_add, STYPE = BIGINT, PARALLEL = SAFE);

-- Not by the transition function of `string_agg`, which only a superuser may use in an aggregate.
CREATE FUNCTION concat_add(joined TEXT, v TEXT, separator TEXT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE WHEN v IS NULL THEN joined ELSE coalesce(joined || separator, '') || v END;
END $$;
CREATE FUNCTION concat_add(joined TEXT, v TEXT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE WHEN v IS NULL THEN joined ELSE coalesce(joined || ',', '') || v END;
END $$;
CREATE AGGREGATE group_concat(TEXT, TEXT) (SFUNC = concat_add, STYPE = TEXT, PARALLEL = SAFE);
CREATE AGGREGATE group_concat(TEXT) (SFUNC = concat_add, STYPE = TEXT, PARALLEL = SAFE);

-- Instants, which the store writes as `2026-01-31T09:00:00.000Z`

-- Not `CAST(t AS TIMESTAMPTZ)` alone: its result depends on settings of the session, unless the text names its zone.
CREATE FUNCTION instant_of(t TEXT) RETURNS TIMESTAMPTZ LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN make_timestamptz(substr(t, 1, 4)::INT, substr(t, 6, 2)::INT, substr(t, 9, 2)::INT, substr(t, 12, 2)::INT,
    substr(t, 15, 2)::INT, coalesce(nullif(rtrim(substr(t, 18), 'Z'), ''), '0')::DOUBLE PRECISION, 'UTC');
END $$;
CREATE FUNCTION unixepoch(t TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT floor(extract(EPOCH FROM instant_of(t)))::BIGINT
$$;
CREATE FUNCTION unix_ms(t TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT round(extract(EPOCH FROM instant_of(t)) * 1000)::BIGINT
$$;
-- Of SQLite's forms only those that the store uses: its own, moved by seconds such as `+1.500 seconds`, and seconds since 1970.
CREATE FUNCTION strftime(form TEXT, t TEXT, moved TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE form WHEN '%Y-%m-%dT%H:%M:%fZ'
    THEN to_char(timezone('UTC', instant_of(t) + moved::INTERVAL), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END
$$;
CREATE FUNCTION strftime(form TEXT, t TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE form WHEN '%s' THEN unixepoch(t)::TEXT END
$$;

-- Sets a member of an object; the others keep their order. Of paths only those of one step.
CREATE FUNCTION json_set(j TEXT, path TEXT, v JSON) RETURNS JSON LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN (SELECT json_object_agg(e.name, e.v ORDER BY e.place) FROM (
    SELECT m.key, m.value, m.place FROM json_each(json_of(j)) WITH ORDINALITY AS m (key, value, place)
    WHERE m.key <> substr(path, 3)
    UNION ALL SELECT substr(path, 3), v, 2147483647) AS e (name, v, place));
END $$;
CREATE FUNCTION json_set(j TEXT, path TEXT, v TEXT) RETURNS JSON LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT json_set(j, path, coalesce(to_json(v), 'null'::JSON))
$$;

-- A text of bytes; NULL for what is no UTF-8, or has a NUL.
CREATE FUNCTION text_of(v BYTEA) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE AS $$
BEGIN
  RETURN convert_from(v, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
  RETURN NULL;
END $$;

-- The server's clock, in milliseconds since 1970, at the moment of the call.
CREATE FUNCTION server_ms() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
  SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT
$$;
