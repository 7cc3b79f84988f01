//go:build unix

package ocp

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkSession measures the CPU time of a highly compressed session, by what is read
// of it. The budget is 1 ms for each 256 KiB of JSON, and next to nothing where nothing is
// read. Decoding the whole context, with up to 1,000 history entries, comes on top. CPU time is reported since wall time depends on what else runs.
func BenchmarkSession(b *testing.B) {
	for _, size := range []int{256 << 10, 1 << 20} {
		session := repetitiveSession(b, size)
		header := headerOf(map[string]string{"OCP-Context-ID": "ocp-a1b2c3d4", "OCP-Agent-Type": "cli_tool", "OCP-Session": session})
		for _, asked := range []struct {
			name string
			ask  func(*Incoming)
		}{
			{"nothing", func(*Incoming) {}},
			{"screen", func(in *Incoming) { _ = in.Session.Screen() }},
			{"field", func(in *Incoming) { in.Session.Field("created_at") }},
			{"brief", func(in *Incoming) { in.Brief() }},
			{"history", func(in *Incoming) { in.History().Len() }},
			{"context", func(in *Incoming) { in.Context() }},
		} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, asked.name), func(b *testing.B) {
				b.ReportAllocs()
				before := cpuTime(b)
				for b.Loop() {
					asked.ask(ReadIncoming(header, ReadOptions{}))
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(len(session)), "header-bytes")
			})
		}
	}
}

// cpuTime returns the CPU time that the process has used.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
