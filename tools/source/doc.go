// Package source fetches OpenAPI documents: from files, from URLs, and from the site itself.
//
// A Source returns a Snapshot: the bytes of a document and what is needed to find out cheaply whether
// it has changed (the state of its files, or the validators of its HTTP response). Callers pass the
// last Snapshot to the next Fetch, which reads the document again only if it has changed. The size of
// a document is limited, even after decompression. Snapshot.Keep adds the other files that a document
// refers to, so that a change of one of them is a change of the document.
package source
