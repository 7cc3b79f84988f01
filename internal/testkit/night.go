package testkit

import "os"

// Night reports whether FAIRWAY_TEST_NIGHT is set. Then tests try all their cases; otherwise those with many cases of one kind try
// a few.
func Night() bool { return os.Getenv("FAIRWAY_TEST_NIGHT") != "" }
