-- The first version of the schema. Names are found by the search path, which is the schema alone.
-- Texts that callers choose are bytea: they may contain any byte, and sort by bytes.

CREATE TABLE records (
	key       bytea       PRIMARY KEY,
	log       bigint      NOT NULL GENERATED ALWAYS AS IDENTITY, -- a record that is created again has a new log
	length    bigint      NOT NULL, -- number of entries in the log
	size      bigint      NOT NULL, -- bytes that count towards the limit of the store
	owner     bytea       NOT NULL,
	evictable boolean     NOT NULL,
	tombstone bytea,
	expires   timestamptz NOT NULL,
	value     bytea       NOT NULL
);
CREATE INDEX records_expires ON records (expires);
CREATE INDEX records_evictable ON records (owner, expires) WHERE evictable;

CREATE TABLE entries (
	log    bigint,
	number bigint,
	data   bytea NOT NULL,
	PRIMARY KEY (log, number)
);

-- Logs of deleted records. sweep removes their entries, so that the deletion itself is quick.
CREATE TABLE deleted_logs (log bigint PRIMARY KEY);

-- What the records of each owner take is the sum of the owner's rows. A change adds a row, so that changes do not wait
-- for each other. sweep merges the rows.
CREATE TABLE owner_bytes (owner bytea NOT NULL, bytes bigint NOT NULL)
	WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE jobs (
	id     bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	queue  bytea       NOT NULL,
	node   bytea       NOT NULL, -- empty: for any node
	lane   smallint    NOT NULL, -- -1: the job is for one node
	job    bytea       NOT NULL,
	owner  bytea       NOT NULL,
	pushed timestamptz NOT NULL DEFAULT statement_timestamp(),
	due    timestamptz NOT NULL DEFAULT statement_timestamp() -- when it is delivered, or delivered again
);
CREATE INDEX jobs_due ON jobs (queue, node, lane, due, id);
CREATE INDEX jobs_of_nodes ON jobs (pushed) WHERE lane = -1;

CREATE FUNCTION record_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'UPDATE' AND OLD.owner = NEW.owner THEN
		IF OLD.size <> NEW.size THEN
			INSERT INTO owner_bytes VALUES (NEW.owner, NEW.size - OLD.size);
		END IF;
		RETURN NULL;
	END IF;
	IF TG_OP <> 'INSERT' THEN
		INSERT INTO owner_bytes VALUES (OLD.owner, -OLD.size);
	END IF;
	IF TG_OP <> 'DELETE' THEN
		INSERT INTO owner_bytes VALUES (NEW.owner, NEW.size);
	ELSIF OLD.length > 0 THEN
		INSERT INTO deleted_logs VALUES (OLD.log);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER record_changed AFTER INSERT OR UPDATE OR DELETE ON records FOR EACH ROW EXECUTE FUNCTION record_changed();

-- lock_record locks a record until the end of the transaction, and returns it if it exists and has not expired. The name of
-- the key is locked, too, so that one transaction at a time can create the record.
CREATE FUNCTION lock_record(wanted bytea) RETURNS SETOF records LANGUAGE plpgsql AS $$
DECLARE
	locked records;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended(current_schema || ' ' || encode(wanted, 'hex'), 0));
	SELECT * INTO locked FROM records WHERE key = wanted FOR UPDATE; -- sees what was committed before the lock
	IF NOT FOUND THEN
		RETURN;
	END IF;
	IF locked.expires <= clock_timestamp() THEN
		DELETE FROM records WHERE key = wanted;
		RETURN;
	END IF;
	RETURN NEXT locked;
END $$;

-- write_record writes a record that lock_record has locked, and appends to its log. Without a value, the value stays as it is.
CREATE FUNCTION write_record(of_key bytea, old_length bigint, new_size bigint, new_owner bytea, may_evict boolean, new_tombstone bytea,
	lifetime interval, new_value bytea, appended bytea[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	WITH changed AS (
		INSERT INTO records AS r (key, length, size, owner, evictable, tombstone, expires, value)
		VALUES (of_key, old_length + coalesce(cardinality(appended), 0), new_size, new_owner, may_evict, new_tombstone,
			clock_timestamp() + lifetime, coalesce(new_value, ''))
		ON CONFLICT (key) DO UPDATE SET length = excluded.length, size = excluded.size, owner = excluded.owner, evictable = excluded.evictable,
			tombstone = excluded.tombstone, expires = excluded.expires, value = coalesce(new_value, r.value)
		RETURNING log
	)
	INSERT INTO entries SELECT log, old_length + n - 1, coalesce(data, '') FROM changed, unnest(appended) WITH ORDINALITY AS e(data, n);
END $$;

-- read_log returns entries of a log, at most about most_bytes, but at least one.
CREATE FUNCTION read_log(of_key bytea, first bigint, most bigint, most_bytes bigint) RETURNS SETOF bytea LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN QUERY SELECT data FROM (
		SELECT data, number, sum(octet_length(data)) OVER (ORDER BY number) AS total FROM records JOIN entries USING (log)
		WHERE key = of_key AND expires > statement_timestamp() AND number >= first AND number < first + most
	) AS e WHERE number = first OR total <= most_bytes ORDER BY number;
END $$;

-- take_job takes the first job of the first lane that has one that is due. It skips jobs that other nodes are taking. The job
-- is due again after idle.
CREATE FUNCTION take_job(of_queue bytea, of_node bytea, lanes smallint[], idle interval) RETURNS SETOF jobs LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY UPDATE jobs SET due = statement_timestamp() + idle WHERE id = (
		SELECT found.id FROM unnest(lanes) AS visited(lane), LATERAL (
			SELECT id FROM jobs
			WHERE queue = of_queue AND lane = visited.lane AND node = CASE visited.lane WHEN -1 THEN of_node ELSE '' END
				AND due <= statement_timestamp()
			ORDER BY due, id LIMIT 1 FOR UPDATE SKIP LOCKED
		) AS found LIMIT 1
	) RETURNING jobs.*;
END $$;

-- evict evicts records of an owner, in the order of their expiry, until needed bytes are free, and returns the number of
-- freed bytes. It waits for transactions that evict, and skips records that others are changing.
CREATE FUNCTION evict(of_owner bytea, needed bigint, except_key bytea) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	r     record;
	freed bigint := 0;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended(current_schema, 1));
	FOR n IN 1..64 LOOP
		SELECT key, size, expires, octet_length(value) - octet_length(tombstone) AS shrinks INTO r FROM records
		WHERE owner = of_owner AND evictable AND key <> except_key ORDER BY expires LIMIT 1 FOR UPDATE SKIP LOCKED;
		EXIT WHEN NOT FOUND;
		IF r.shrinks IS NULL OR r.expires <= clock_timestamp() THEN
			DELETE FROM records WHERE key = r.key;
			freed := freed + r.size;
		ELSE
			UPDATE records SET value = tombstone, tombstone = NULL, evictable = false, size = size - r.shrinks WHERE key = r.key;
			freed := freed + r.shrinks;
		END IF;
		EXIT WHEN freed >= needed;
	END LOOP;
	RETURN freed;
END $$;

-- sweep removes expired records, entries of deleted logs and old jobs, and merges owner_bytes. One call removes at most a
-- bounded number of rows, and reports whether there may be more. If another node is sweeping, it does nothing.
CREATE FUNCTION sweep(most_records int, most_entries int, most_jobs int, job_lifetime interval) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	removed_records int;
	removed_entries int;
	logs            bigint[];
BEGIN
	IF NOT pg_try_advisory_xact_lock(hashtextextended(current_schema, 2)) THEN
		RETURN false;
	END IF;
	DELETE FROM records WHERE key = ANY (ARRAY(
		SELECT key FROM records WHERE expires <= statement_timestamp() ORDER BY expires LIMIT most_records FOR UPDATE SKIP LOCKED));
	GET DIAGNOSTICS removed_records = ROW_COUNT;

	logs := ARRAY(SELECT log FROM deleted_logs ORDER BY log LIMIT most_records);
	DELETE FROM entries WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM entries WHERE log = ANY (logs) LIMIT most_entries));
	GET DIAGNOSTICS removed_entries = ROW_COUNT;
	DELETE FROM deleted_logs d WHERE log = ANY (logs) AND NOT EXISTS (SELECT FROM entries e WHERE e.log = d.log);

	WITH merged AS (
		DELETE FROM owner_bytes WHERE owner IN (SELECT owner FROM owner_bytes GROUP BY owner HAVING count(*) > 1) RETURNING owner, bytes
	)
	INSERT INTO owner_bytes SELECT owner, sum(bytes) FROM merged GROUP BY owner HAVING sum(bytes) <> 0;

	DELETE FROM jobs WHERE id <= (SELECT max(id) FROM jobs) - most_jobs;
	DELETE FROM jobs WHERE lane = -1 AND pushed < statement_timestamp() - job_lifetime;
	RETURN removed_records = most_records OR removed_entries = most_entries OR cardinality(logs) = most_records;
END $$;
