package mcpadapter

// What the revisions know of results, of what comes before them, and of requests
// to the client.

// explainsProgress reports whether a progress notification may have a message.
func (v revision) explainsProgress() bool { return v >= v20250326 }

// listens reports whether content may be audio.
func (v revision) listens() bool { return v >= v20250326 }

// links reports whether content may be a link to a resource.
func (v revision) links() bool { return v >= v20250618 }

// annotatesContent reports whether parts of results have a _meta of their own and
// annotations say when something changed.
func (v revision) annotatesContent() bool { return v >= v20250618 }

// pictures reports whether links have icons.
func (v revision) pictures() bool { return v >= v20251125 }

// describesOutput reports whether tools may have an outputSchema.
func (v revision) describesOutput() bool { return v >= v20250618 }

// describesObjects reports whether an outputSchema must be that of an object.
func (v revision) describesObjects() bool { return v < v20260728 }

// elicits reports whether clients can be asked to fill in a form.
func (v revision) elicits() bool { return v >= v20250618 }

// elicitsMore reports whether forms have choices of several, titles of choices and
// defaults, and there are URLs to send a user to.
func (v revision) elicitsMore() bool { return v >= v20251125 }

// samplesMore reports whether sampling knows tools, and messages of several parts.
func (v revision) samplesMore() bool { return v >= v20251125 }
