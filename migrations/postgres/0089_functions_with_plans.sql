-- A function in SQL that does not become part of its caller's plan (0084) is parsed and planned in every statement that calls it,
-- again each time. One in PL/pgSQL keeps its plan for as long as the session lasts. These have an argument that they use more than
-- once, a sub-select, or a caller that is no statement, so that PostgreSQL never merges them.

CREATE OR REPLACE FUNCTION json_scalar(v JSON) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE WHEN json_typeof(v) = 'boolean' THEN CASE WHEN v #>> '{}' = 'true' THEN '1' ELSE '0' END ELSE v #>> '{}' END;
END $$;

CREATE OR REPLACE FUNCTION json_kind(v JSON) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE json_typeof(v) WHEN 'string' THEN 'text' WHEN 'boolean' THEN v #>> '{}'
    WHEN 'number' THEN CASE WHEN v #>> '{}' ~ '[.eE]' THEN 'real' ELSE 'integer' END ELSE json_typeof(v) END;
END $$;

-- The type is looked at only where the text may be that of a boolean.
CREATE OR REPLACE FUNCTION json_extract(j TEXT, path TEXT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  found TEXT;
BEGIN
  found := json_of(j) #>> json_steps(path);
  IF found = 'true' OR found = 'false' THEN
    found := json_scalar(json_of(j) #> json_steps(path));
  END IF;
  RETURN found;
END $$;
CREATE OR REPLACE FUNCTION json_element(j TEXT, place BIGINT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN json_scalar(json_of(j) -> place::INT);
END $$;
CREATE OR REPLACE FUNCTION json_extract_json(j TEXT, path TEXT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN (json_of(j) #> json_steps(path))::TEXT;
END $$;

CREATE OR REPLACE FUNCTION json_elements(v JSON) RETURNS JSON LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF json_typeof(v) = 'array' THEN
    RETURN v;
  ELSIF json_typeof(v) = 'object' THEN
    RETURN (SELECT json_agg(m.value) FROM json_each(v) m);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION json_array_length(j TEXT) RETURNS BIGINT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE WHEN json_typeof(json_of(j)) = 'array' THEN json_array_length(json_of(j)) WHEN j IS NOT NULL THEN 0 END::BIGINT;
END $$;

-- Functions of aggregates are called by PostgreSQL itself.
CREATE OR REPLACE FUNCTION json_array_text(elements TEXT[]) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN '[' || array_to_string(elements, ',', 'null') || ']';
END $$;
CREATE OR REPLACE FUNCTION json_array_add(elements TEXT[], v TEXT) RETURNS TEXT[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN array_append(elements, to_json(v)::TEXT);
END $$;
CREATE OR REPLACE FUNCTION json_array_add(elements TEXT[], v BIGINT) RETURNS TEXT[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN array_append(elements, v::TEXT);
END $$;
CREATE OR REPLACE FUNCTION json_array_add(elements TEXT[], v JSON) RETURNS TEXT[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN array_append(elements, v::TEXT);
END $$;
CREATE OR REPLACE FUNCTION sum_add(sum BIGINT, condition BOOLEAN) RETURNS BIGINT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE WHEN condition IS NULL THEN sum ELSE coalesce(sum, 0) + condition::INT END;
END $$;
CREATE OR REPLACE FUNCTION concat_add(joined TEXT, v TEXT, separator TEXT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE WHEN v IS NULL THEN joined ELSE coalesce(joined || separator, '') || v END;
END $$;
CREATE OR REPLACE FUNCTION concat_add(joined TEXT, v TEXT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN CASE WHEN v IS NULL THEN joined ELSE coalesce(joined || ',', '') || v END;
END $$;

CREATE OR REPLACE FUNCTION json_set(j TEXT, path TEXT, v JSON) RETURNS JSON LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN (SELECT json_object_agg(e.name, e.v ORDER BY e.place) FROM (
    SELECT m.key, m.value, m.place FROM json_each(json_of(j)) WITH ORDINALITY AS m (key, value, place)
    WHERE m.key <> substr(path, 3)
    UNION ALL SELECT substr(path, 3), v, 2147483647) AS e (name, v, place));
END $$;

CREATE OR REPLACE FUNCTION instant_of(t TEXT) RETURNS TIMESTAMPTZ LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN make_timestamptz(substr(t, 1, 4)::INT, substr(t, 6, 2)::INT, substr(t, 9, 2)::INT, substr(t, 12, 2)::INT,
    substr(t, 15, 2)::INT, coalesce(nullif(rtrim(substr(t, 18), 'Z'), ''), '0')::DOUBLE PRECISION, 'UTC');
END $$;
