package run

// IsClosing reports whether Close was called.
func (r *Runner) IsClosing() bool { return r.running.Err() != nil }

// NotBusy is a condition for Await: the run has ended, or waits for something.
func NotBusy(st *State) bool { return !st.Status.IsBusy() }
