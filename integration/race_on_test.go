//go:build race

package integration

// race reports whether the tests, and so the gateway, have the race detector.
const race = true
