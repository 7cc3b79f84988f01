package endpoints

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/oagent/accept"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/registry"
)

// documentTypes are the media types that an agent document may be sent with.
var documentTypes = []string{"", "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "application/json", "text/plain"}

// change accepts or deletes an agent document (OpenAgentSpec v1, Server, rule 2).
func (q documentRequest) change() {
	if !q.sameOrigin() {
		return
	}
	if !q.options.Accept.Permits(q.user.ID) {
		q.problem(http.StatusForbidden, "Not permitted", "You may not change agent documents on this site.")
		return
	}
	condition := registry.ConditionOf(q.r.Header)
	if q.r.Method == http.MethodDelete {
		if err := q.options.Accept.Delete(q.r.Context(), q.rest[0], q.user.ID, condition); err != nil {
			q.failChange(err)
			return
		}
		q.w.WriteHeader(http.StatusNoContent)
		return
	}
	kind, _, _ := strings.Cut(q.r.Header.Get("Content-Type"), ";")
	if !slices.Contains(documentTypes, strings.ToLower(strings.TrimSpace(kind))) {
		q.problem(http.StatusUnsupportedMediaType, "Unsupported media type", "Send the document with the header Content-Type: application/yaml.")
		return
	}
	source, err := readSmall(q.r, registry.MaxDocument)
	if errors.Is(err, buffer.ErrTooLarge) {
		q.failChange(registry.ErrTooLarge)
		return
	}
	if err != nil {
		q.problem(http.StatusBadRequest, "Incomplete body", "The document was not received completely.")
		return
	}
	entry, created, err := q.options.Accept.Put(q.r.Context(), registry.Change{Name: q.rest[0], Source: source, By: q.user.ID, Condition: condition})
	if err != nil {
		q.failChange(err)
		return
	}
	q.w.Header().Set("Etag", entry.Tag())
	status := http.StatusNoContent
	if created {
		q.w.Header().Set("Location", q.options.Documents+"/"+entry.Name)
		status = http.StatusCreated
	}
	q.w.WriteHeader(status)
}

// failChange responds with an error of the Service.
func (q documentRequest) failChange(err error) {
	switch _, invalid := errors.AsType[oagent.LintErrors](err); {
	case invalid:
		q.problem(http.StatusUnprocessableEntity, "Invalid agent document", err.Error())
	case errors.Is(err, registry.ErrTooLarge):
		q.problem(http.StatusRequestEntityTooLarge, "Document too large", sentence(err))
	case errors.Is(err, registry.ErrPrecondition):
		q.problem(http.StatusPreconditionFailed, "Precondition failed", sentence(err)+" GET "+q.options.Documents+"/"+q.rest[0]+" returns its Etag.")
	case errors.Is(err, registry.ErrNotFound):
		q.unknownAgent()
	case errors.Is(err, registry.ErrFull):
		q.problem(http.StatusInsufficientStorage, "Too many agent documents", sentence(err))
	case errors.Is(err, accept.ErrFromFile):
		q.problem(http.StatusConflict, "Agent of a file", sentence(err)+" Use another name, or change the file.")
	case errors.Is(err, accept.ErrNotLoaded):
		q.w.Header().Set("Retry-After", "2")
		q.problem(http.StatusServiceUnavailable, "Tools not loaded", sentence(err)+" Try again later.")
	default:
		q.fail(err)
	}
}

// sentence returns the message of an error as a sentence.
func sentence(err error) string {
	message := err.Error()
	return strings.ToUpper(message[:1]) + message[1:] + "."
}
