package postgres_test

import (
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/postgres"
	"github.com/fairwayhq/fairway/store/storetest"
)

func TestQueue(t *testing.T) {
	storetest.RunQueue(t, func(t *testing.T) storetest.Place {
		address := storetest.Postgres(t)
		return storetest.Place{Nodes: true, Open: func(t testing.TB) store.Store { return openStore(t, address) }}
	}, func(q store.Queue) { q.(*postgres.Queue).SetIdle(time.Millisecond) })
}
