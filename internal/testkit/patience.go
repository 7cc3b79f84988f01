package testkit

import (
	"testing"
	"time"
)

// Patience is how long tests wait for something that must happen. A test never fails because a machine is
// slow: tests run with the race detector, beside other work.
const Patience = 2 * time.Minute

// maxPause is the longest time between two checks of a condition.
const maxPause = 50 * time.Millisecond

// Eventually waits until the condition holds. It checks often at first, and then every maxPause: a condition that reads a
// file or makes a request costs more CPU than what it waits for.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	pause := time.Millisecond
	for deadline := time.Now().Add(Patience); !holds(); pause = min(pause*3/2, maxPause) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after %s waiting for: %s", Patience, what)
		}
		time.Sleep(pause)
	}
}

// maxAttempts is how often InProportion measures.
const maxAttempts = 6

// InProportion checks that the time that work takes grows at most in proportion to its size. It measures
// the work with a small size and with a size that is factor times as large, in turns. A time that grows with
// the square of the size is rejected. The shortest times count, because the machine may have other work. The
// large size should take some milliseconds.
func InProportion(t testing.TB, small, factor int, work func(size int) time.Duration) {
	t.Helper()
	inSmall, inLarge := time.Hour, time.Hour
	for range maxAttempts {
		inSmall, inLarge = min(inSmall, work(small)), min(inLarge, work(small*factor))
		if inLarge <= time.Duration(factor*factor/2)*inSmall { // halfway to the square
			return
		}
	}
	t.Errorf("%d times the size take %s instead of %s, more than in proportion", factor, inLarge, inSmall)
}
