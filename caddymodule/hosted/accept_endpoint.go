package hosted

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/oagent/endpoints"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/registry"
)

// documentTypes are the media types that an agent document may be sent with.
var documentTypes = []string{"", "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "application/json", "text/plain"}

// Serve implements guard.Acceptor: it accepts or deletes an agent document (OpenAgentSpec v1, Server, rule 2).
func (s *acceptService) Serve(q *endpoints.Request) {
	if !q.SameOrigin() {
		return
	}
	if !s.Permits(q.User.ID) {
		q.Problem(http.StatusForbidden, "Not permitted", "You may not change agent documents on this site.")
		return
	}
	condition := registry.ConditionOf(q.R.Header)
	if q.R.Method == http.MethodDelete {
		if err := s.Delete(q.R.Context(), q.Rest[0], q.User.ID, condition); err != nil {
			failChange(q, err)
			return
		}
		q.W.WriteHeader(http.StatusNoContent)
		return
	}
	kind, _, _ := strings.Cut(q.R.Header.Get("Content-Type"), ";")
	if !slices.Contains(documentTypes, strings.ToLower(strings.TrimSpace(kind))) {
		q.Problem(http.StatusUnsupportedMediaType, "Unsupported media type", "Send the document with the header Content-Type: application/yaml.")
		return
	}
	source, err := q.ReadSmall(registry.MaxDocument)
	if errors.Is(err, buffer.ErrTooLarge) {
		failChange(q, registry.ErrTooLarge)
		return
	}
	if err != nil {
		q.FailBody(err, http.StatusBadRequest, "Incomplete body", "The document was not received completely.")
		return
	}
	entry, created, err := s.Put(q.R.Context(), registry.Change{Name: q.Rest[0], Source: source, By: q.User.ID, Condition: condition})
	if err != nil {
		failChange(q, err)
		return
	}
	q.W.Header().Set("Etag", entry.Tag())
	status := http.StatusNoContent
	if created {
		q.W.Header().Set("Location", q.Options.Documents+"/"+entry.Name)
		status = http.StatusCreated
	}
	q.W.WriteHeader(status)
}

// failChange responds with an error of the acceptService.
func failChange(q *endpoints.Request, err error) {
	switch _, invalid := errors.AsType[oagent.LintErrors](err); {
	case invalid:
		q.Problem(http.StatusUnprocessableEntity, "Invalid agent document", err.Error())
	case errors.Is(err, registry.ErrTooLarge):
		q.Problem(http.StatusRequestEntityTooLarge, "Document too large", sentence(err))
	case errors.Is(err, registry.ErrPrecondition):
		q.Problem(http.StatusPreconditionFailed, "Precondition failed", sentence(err)+" GET "+q.Options.Documents+"/"+q.Rest[0]+" returns its Etag.")
	case errors.Is(err, registry.ErrNotFound):
		q.UnknownAgent()
	case errors.Is(err, registry.ErrFull):
		q.Problem(http.StatusInsufficientStorage, "Too many agent documents", sentence(err))
	case errors.Is(err, errFromFile):
		q.Problem(http.StatusConflict, "Agent of a file", sentence(err)+" Use another name, or change the file.")
	case errors.Is(err, errNotLoaded):
		q.W.Header().Set("Retry-After", "2")
		q.Problem(http.StatusServiceUnavailable, "Tools not loaded", sentence(err)+" Try again later.")
	default:
		q.Fail(err)
	}
}

// sentence returns the message of an error as a sentence.
func sentence(err error) string {
	message := err.Error()
	return strings.ToUpper(message[:1]) + message[1:] + "."
}
