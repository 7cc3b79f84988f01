package postgres

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// migrations has the changes of the schema: 1.sql creates it, and N.sql changes version N-1 to N. A released
// file must not be changed.
//
//go:embed schema/*.sql
var migrations embed.FS

const (
	newestVersion    = 1 // the number of files
	migrationTimeout = time.Minute
)

// migrate creates the schema or brings it to version newest, in one transaction. Nodes that start together do so one
// after the other.
func migrate(ctx context.Context, settings *pgx.ConnConfig, schema string, newest int) error {
	ctx, cancel := context.WithTimeout(ctx, migrationTimeout)
	defer cancel()
	settings = settings.Copy()
	settings.RuntimeParams["statement_timeout"] = milliseconds(migrationTimeout)
	conn, err := pgx.ConnectConfig(ctx, settings)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		version, err := currentVersion(ctx, tx, schema)
		if err != nil || version == newest {
			return err
		}
		if version > newest {
			return fmt.Errorf("the schema %s has version %d, and this version of Fairway supports up to %d: use a newer Fairway or another schema", schema, version, newest)
		}
		for version++; version <= newest; version++ {
			statements, err := migrations.ReadFile(fmt.Sprintf("schema/%d.sql", version))
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(statements)); err != nil {
				return fmt.Errorf("changing the schema %s to version %d: %w", schema, version, err)
			}
		}
		_, err = tx.Exec(ctx, "INSERT INTO versions VALUES ($1)", newest)
		return err
	})
}

// currentVersion locks the schema for other migrations and returns its version. If there is no schema, it creates one of
// version 0. A user who may not create schemas can use one that exists.
func currentVersion(ctx context.Context, tx pgx.Tx, schema string) (version int, err error) {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 3))", schema); err != nil {
		return 0, err
	}
	for _, part := range []struct{ missing, create string }{ // each statement needs a right, also if the part exists
		{"to_regnamespace($1) IS NULL", "CREATE SCHEMA " + schema},
		{"to_regclass($1 || '.versions') IS NULL", "CREATE TABLE versions (version int PRIMARY KEY, since timestamptz NOT NULL DEFAULT now())"},
	} {
		var missing bool
		if err = tx.QueryRow(ctx, "SELECT "+part.missing, schema).Scan(&missing); err == nil && missing {
			_, err = tx.Exec(ctx, part.create)
		}
		if err != nil {
			return 0, fmt.Errorf("creating the schema %s: %w", schema, err)
		}
	}
	err = tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM versions").Scan(&version)
	return version, err
}
