package revision

// Features of revisions that concern results, notifications and requests to the client.

// SupportsProgressMessage reports whether a progress notification may have a message.
func (v Revision) SupportsProgressMessage() bool { return v >= V20250326 }

// SupportsAudio reports whether content may be audio.
func (v Revision) SupportsAudio() bool { return v >= V20250326 }

// SupportsResourceLinks reports whether content may be a resource_link.
func (v Revision) SupportsResourceLinks() bool { return v >= V20250618 }

// SupportsContentMeta reports whether content blocks may have _meta, and annotations may have
// lastModified.
func (v Revision) SupportsContentMeta() bool { return v >= V20250618 }

// SupportsIcons reports whether tools, resources and prompts may have icons.
func (v Revision) SupportsIcons() bool { return v >= V20251125 }

// SupportsOutputSchema reports whether tools may have an outputSchema.
func (v Revision) SupportsOutputSchema() bool { return v >= V20250618 }

// RequiresObjectOutput reports whether the type of an outputSchema must be object.
func (v Revision) RequiresObjectOutput() bool { return v < V20260728 }

// SupportsElicitation reports whether clients may support form elicitation.
func (v Revision) SupportsElicitation() bool { return v >= V20250618 }

// SupportsRichElicitation reports whether forms may have multiple choices, titled choices and defaults, and
// whether clients may support URL elicitation.
func (v Revision) SupportsRichElicitation() bool { return v >= V20251125 }

// SupportsRichSampling reports whether sampling may have tools and messages with several parts.
func (v Revision) SupportsRichSampling() bool { return v >= V20251125 }

// SupportsCompletion reports whether servers declare the capability completions.
func (v Revision) SupportsCompletion() bool { return v >= V20250326 }

// SupportsExtensions reports whether servers declare the extensions that they support.
func (v Revision) SupportsExtensions() bool { return v >= V20260728 }
