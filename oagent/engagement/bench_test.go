package engagement

import (
	"testing"
	"time"
)

// BenchmarkEncoding measures what each change writes, and what the first change after a start reads.
func BenchmarkEncoding(b *testing.B) {
	e := Entry{
		Event: EntryFinished, At: time.Now(), Call: 12, Nth: 3, Name: "get-trip", Status: 200,
		Inputs: []byte(`{"trip_id":"ir-1512"}`), Outputs: []byte(`{"id":"ir-1512","price":12}`),
	}
	s := NewState(Ref{Agent: "planner", ID: "e1", User: User{ID: "alice"}}, time.Now())
	for _, name := range []string{"get-trip", "list-trips", "book-trip"} {
		s.Names[s.IndexOf(name)].Count++
	}
	var entry, state []byte
	b.Run("entry/append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			entry = e.append(entry[:0])
		}
	})
	b.Run("state/append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			state = s.append(state[:0])
		}
	})
	b.Run("entry/decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decodeEntry("", entry); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("state/decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decodeState("", state); err != nil {
				b.Fatal(err)
			}
		}
	})
}
