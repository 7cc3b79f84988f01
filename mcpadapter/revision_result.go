package mcpadapter

// Features of revisions that concern results, notifications and requests to the client.

// explainsProgress reports whether a progress notification may have a message.
func (v revision) explainsProgress() bool { return v >= v20250326 }

// listens reports whether content may be audio.
func (v revision) listens() bool { return v >= v20250326 }

// links reports whether content may be a resource_link.
func (v revision) links() bool { return v >= v20250618 }

// annotatesContent reports whether content blocks may have _meta, and annotations may have
// lastModified.
func (v revision) annotatesContent() bool { return v >= v20250618 }

// pictures reports whether tools, resources and prompts may have icons.
func (v revision) pictures() bool { return v >= v20251125 }

// describesOutput reports whether tools may have an outputSchema.
func (v revision) describesOutput() bool { return v >= v20250618 }

// describesObjects reports whether the type of an outputSchema must be object.
func (v revision) describesObjects() bool { return v < v20260728 }

// elicits reports whether clients may support form elicitation.
func (v revision) elicits() bool { return v >= v20250618 }

// elicitsMore reports whether forms may have multiple choices, titled choices and defaults, and
// whether clients may support URL elicitation.
func (v revision) elicitsMore() bool { return v >= v20251125 }

// samplesMore reports whether sampling may have tools and messages with several parts.
func (v revision) samplesMore() bool { return v >= v20251125 }
