-- Functions of SQLite that only tests use. They are in a schema of their own, which the engine does not look into.
CREATE SCHEMA tests;
CREATE FUNCTION tests.hex(v BYTEA) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$ SELECT upper(encode(v, 'hex')) $$;
CREATE FUNCTION tests.json_remove(j TEXT, path TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
  SELECT (j::jsonb #- string_to_array(substr(path, 3), '.'))::text $$;
CREATE FUNCTION tests.json_set(j TEXT, path TEXT, v TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_set(j::jsonb, string_to_array(substr(path, 3), '.'), to_jsonb(v))::text $$;
CREATE FUNCTION tests.json_array(VARIADIC elements TEXT[]) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
  SELECT to_json(elements)::text $$;
CREATE FUNCTION tests.zeroblob(size INTEGER) RETURNS BYTEA LANGUAGE sql IMMUTABLE AS $$
  SELECT decode(repeat('00', size), 'hex') $$;
-- Bytes that are text; others with their escapes.
CREATE FUNCTION tests.text_of(v BYTEA) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN convert_from(v, 'UTF8');
EXCEPTION WHEN OTHERS THEN
  RETURN encode(v, 'escape');
END $$;
CREATE FUNCTION tests.json_object(key TEXT, v TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
  SELECT json_build_object(key, v)::text $$;
