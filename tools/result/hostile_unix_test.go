//go:build unix

package result

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// hostile are expressions that take a long time or much memory without limits. The body is the text of
// hostileBody.
var hostile = []string{
	// regular expressions
	`[.t | splits("\n")] | length`, `[.t | scan("[a-z]+")] | length`, `.u | gsub("a"; "b")`, `.u | gsub("a"; "b", "c")`, `.u | sub("(?<x>a)"; range(100000) | tostring; "g")`,
	`.u | [match("a.*b|a"; "g")] | length`, `.u * 100 | test("(a?){500}(a*)*b")`, `.u | test("(a{900}){900}")`, `.u | test("a{1000}" * 900)`,
	`reduce range(1e6) as $i (0; . + ("a" | if test("a\($i){300}") then 1 else 0 end))`, `.u * 100 | [match("";"g")] | length`, `.t * 50 | [splits("a|b|\n")] | length`,
	`.u | gsub(""; "a" * 1000)`, `.u | [scan("(((((((((a)))))))))")] | length`,
	// repetition, joins and concatenation
	`"a" * 1e9`, `[.. | tostring] | add * 1000000`, `reduce range(40) as $i ("a"; . + .)`, `reduce range(40) as $i ([1]; . + .)`, `reduce range(40) as $i ("a"; [., .] | add)`,
	`reduce range(40) as $i ("a"; [., .] | join("-"))`, `reduce range(40) as $i ("a"; "\(.)\(.)")`, `[range(100000)] | join("x" * 100000)`, `reduce range(60) as $i ("\""; tojson)`,
	`reduce range(40) as $i ("&"; @html)`, `reduce range(40) as $i ("%"; @uri)`, `reduce range(40) as $i ("'"; @sh)`, `reduce range(40) as $i ("a"; @base64)`, `("a" * 1e8) | explode`,
	`("a" * 1e8) | split("")`, `("a" * 1e8) / ""`, `[range(3000000)] | map(65) | implode | explode | implode`, `"a" * 1e8 | ascii_downcase`, `reduce range(1e9) as $i ("\\"; tojson)`,
	`[limit(1e9; repeat("a" * 1e6))] | add`, `[range(1e12)]`, `[limit(1e9; repeat(1))]`, `[repeat({a: 1, b: 2})]`, `"%1024d" * 1e6 as $f | 0 | strftime($f)`,
	// indexes and paths
	`.[500000000]? = 1`, `null | .[500000000] = 1`, `null | .[500000000] |= 1`, `null | setpath([500000000]; 1)`, `null | getpath([500000000]) = 1`, `pick(first(.[500000000]))?`, `.t[500000000:] = "x"`,
	`null | pick(.[500000000])`, `reduce range(50) as $i (null; .[10000000 + $i] = .)`, `fromstream([[500000000], 1], [[500000000]])`, `[limit(100; repeat([range(1000000)]))] | length`,
	`[range(1000000)] as $a | $a[] as $b | $a[] as $c | $a[] as $d | $a[] as $e | $a[] as $f | empty`, `[[range(1000000)], (range(1000000) | [])] | transpose`,
	// values that share parts
	`reduce range(40) as $i (1; [., .]) | . == (. | .)`, `reduce range(40) as $i (1; [., .]) | [., 1] | sort | length`, `reduce range(40) as $i (1; [., .]) | tojson | length`,
	`reduce range(40) as $i (1; {a: ., b: .}) | del(.a.b.a) | length`, `reduce range(40) as $i (1; [., .]) | flatten | length`, `reduce range(40) as $i (1; [., .]) | contains([[]])`,
	`reduce range(40) as $i (1; [., .]) | unique`, `reduce range(40) as $i (1; [., .]) | error`, `reduce range(40) as $i (1; [., .]) | (.. |= empty)`, `reduce range(40) as $i (1; [., .])`,
	`reduce range(40) as $i (1; {a: ., b: .}) | . * .`, `reduce range(40) as $i (1; [., .]) | IN(.)`, `reduce range(40) as $i (1; [., .]) | [.] | INDEX(.)`,
	`reduce range(40) as $i (1; [., .]) | index([1, 2])`, `reduce range(40) as $i (1; [., .]) as $x | $x | .[$x]`, `reduce range(40) as $i (1; [., .]) | [.[], .[]] - .`,
	`reduce range(40) as $i (1; [., .]) | walk(.)`, `reduce range(40) as $i (1; [., .]) | [paths] | length`, `reduce range(40) as $i (1; [., .]) | ltrimstr("a") | @text`,
	// deep values
	`reduce range(1e6) as $i (1; [.])`, `reduce range(1e6) as $i (1; [.]) | tojson`, `reduce range(1e6) as $i (1; {a: .}) | . == {a: 1}`, `reduce range(1e6) as $i (1; [.]) | flatten`, `reduce range(1e6) as $i (1; [.]) | del(.[0])`,
	`def f: [f]; f`, `def f: 1 + f; f`, `("[" * 1e6) | fromjson`,
	// pairs
	`[range(100000)] - [range(100000) | . + 100000]`, `[range(50000)] | contains([range(50000)])`, `("a" * 3000000) | indices("a")`, `[range(3000000) | 1] | index(2)`, `("a" * 100000) | indices("a" * 50000 + "b")`, `[range(100000) | 1] | indices([range(50000) | 1])`, `[range(50000)] | inside([range(50000)])`,
	`[range(100000) | 1] as $a | $a | .[[$a[:50000][]]]`, `[range(100000) | 1] as $a | $a | getpath([$a])`, `[range(200000)] | [.[] | tostring] | sort | unique | group_by(.) | length`, `[range(300000)] | sort_by(-.) | length`,
	// numbers
	`reduce range(40) as $i (10000000000000000000000; . * .)`, `("9" * 1e7) | tonumber`, `("9" * 1e6) | tonumber | . * .`, `jn(1e18; 1e19)`, `yn(1e9; 1e10)`, `[limit(100000; repeat("9" * 10000 | tonumber + 1))] | length`,
	`("9" * 1e5 | fromjson) as $n | [range(100000) | $n > .] | length`, `("9" * 1e6 | fromjson) as $n | [range(100000) | [1][$n]] | length`,
	// other loops
	`def f: f; f`, `[.[] | until(false; .)]`, `[while(true; .)] | length`, `[recurse] | length`, `[combinations(10)]?`, `[[range(100)], [range(100)], [range(100)], [range(100)]] | [combinations] | length`, `[range(1e9)] | length`,
	`try ("a" * 1e9) catch "caught"`, `[limit(1e9; repeat(try ("a" * 1e9) catch .))]`, `label $out | foreach range(1e12) as $i (0; . + 1; empty)`, `[.u | _parts("a"; "g")] | length`, `[_parts(1; 2)]?`,
}

func hostileBody() []byte {
	return fmt.Appendf(nil, `{"t":%q,"u":%q}`, strings.Repeat("ab\n", 33_000), strings.Repeat("a", 100_000))
}

const hostileChild = "FAIRWAY_TEST_HOSTILE"

// TestMain runs the hostile expressions if the test has started itself.
func TestMain(m *testing.M) {
	if parallel, err := strconv.Atoi(os.Getenv(hostileChild)); err == nil {
		os.Exit(runHostile(parallel))
	}
	testkit.CollectRarely()
	os.Exit(m.Run())
}

// usage returns the CPU time of the process, and the memory in bytes that the Go runtime has ever mapped. That number
// only grows, and has no part of the race detector's own memory, which doubles the memory of the process.
func usage() (cpu time.Duration, mapped uint64) {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), sample[0].Value.Uint64()
}

// runHostile runs the expressions, each at the same time as the given number of others, and prints the CPU time of
// each and the peak memory.
func runHostile(parallel int) int {
	body, memory := hostileBody(), NewMemory(nil)
	for i, source := range hostile {
		if parallel > 1 && i%5 > 0 {
			continue // a part of them, to save time
		}
		q, err := CompileQuery(source)
		if err != nil {
			fmt.Printf("0\t0\t%s\t%v\n", source, err)
			return 1
		}
		before, _ := usage()
		var done sync.WaitGroup
		var failure error
		for i := range parallel {
			done.Go(func() {
				if _, err := q.Append(context.Background(), Limit{memory, "user ada"}, nil, body); i == 0 {
					failure = err
				}
			})
		}
		done.Wait()
		after, peak := usage()
		fmt.Printf("%d\t%d\t%s\t%.60v\n", (after - before).Milliseconds(), peak>>20, source, failure)
	}
	if used := memory.bound.Usage().Used; used != 0 {
		fmt.Printf("0\t0\tmemory is still reserved\t%d\n", used)
		return 1
	}
	return 0
}

// The limits hold for every expression. The process is a separate one, because memory that Go has freed stays
// in the process for a while.
func TestQuery_limits_hold_for_hostile_expressions(t *testing.T) {
	for _, parallel := range []int{1, 3} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), hostileChild+"="+strconv.Itoa(parallel))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%d at a time: %v\n%s", parallel, err, out)
		}
		for line := range strings.Lines(string(out)) {
			fields := strings.Split(line, "\t")
			cpu, _ := strconv.Atoi(fields[0])
			peak, _ := strconv.Atoi(fields[1])
			// The limit of a run is 1 s of time. The garbage collector runs beside it, and the race detector and other
			// processes slow both. Without the limit, most of the expressions take more than 10 s.
			if cpu > 2000+1000*parallel || peak > 700 {
				t.Errorf("%d at a time: %d ms of CPU, peak %d MB: %s", parallel, cpu, peak, line)
			}
		}
	}
}

// A run whose client has left ends at once, and frees its memory.
func TestQuery_ends_when_the_client_leaves(t *testing.T) {
	body := hostileBody()
	for _, source := range []string{`def f: f; f`, `.u | [match("a.*b|a"; "g")] | length`, `[range(1e9)]`, `.u * 100 | test("(a?){500}(a*)*b")`} {
		q, err := CompileQuery(source)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Hour
		for range 10 { // the shortest time counts, because the machine may have other work
			ctx, cancel := context.WithCancel(t.Context())
			limit := alone()
			ended := make(chan error)
			go func() {
				_, err := q.Append(ctx, limit, nil, body)
				ended <- err
			}()
			cancel()
			left := time.Now()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: error %v, want the end of the context", source, err)
			}
			took = min(took, time.Since(left))
			if used := limit.Memory.bound.Usage().Used; used != 0 {
				t.Errorf("%s: %d bytes are still reserved", source, used)
			}
			if took <= maxQueryTime/2 {
				break
			}
		}
		if took > maxQueryTime/2 {
			t.Errorf("%s: ran for %s after the client had left", source, took)
		}
	}
}
