package run

// NotBusy is a condition for Await: the run has ended, or waits for something.
func NotBusy(st *State) bool { return !st.Status.IsBusy() }

// MaxListed is maxListed.
const MaxListed = maxListed
