package review

import "time"

// DefaultRetryPause is the default of Pace.RetryPause.
const DefaultRetryPause = time.Second

// Pace says how often reviewing agents are contacted.
type Pace struct {
	ScanInterval   time.Duration // interval between scans for reviews that other nodes have left pending
	OtherNodeDelay time.Duration // delay before checking again a review that another node is handling
	RetryPause     time.Duration // before the program of a reviewing agent is called again; it doubles each time
}

// DefaultPace returns the intervals used in production.
func DefaultPace() Pace {
	return Pace{ScanInterval: 15 * time.Second, OtherNodeDelay: 5 * time.Second, RetryPause: DefaultRetryPause}
}
