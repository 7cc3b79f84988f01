package postgres

import "time"

// SetIdle sets after which time a job is delivered again.
func (q *Queue) SetIdle(d time.Duration) { q.idle = d }

const NewestVersion = newestVersion
