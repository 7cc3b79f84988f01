//go:build race

package mcpadapter

// raceDetector reports whether the tests run with the race detector, under which a
// process takes several times its memory.
const raceDetector = true
