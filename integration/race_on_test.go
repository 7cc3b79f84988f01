//go:build race

package integration

// race reports whether the tests, and so the gateway, have the race detector.
const race = true

// historyCalls is the number of calls that TestConsole_of_many_calls makes. Each takes several times as long as without the
// race detector.
const historyCalls = 2_000
