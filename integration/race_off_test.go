//go:build !race

package integration

// race reports whether the tests, and so the gateway, have the race detector.
const race = false

// historyCalls is the number of calls that TestConsole_of_many_calls makes.
const historyCalls = 10_000
