package hosted

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/oagent/endpoints"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/registry"
)

// documentTypes are the media types that an agent document may be sent with.
var documentTypes = []string{"", "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "application/json", "text/plain"}

// Serve implements guard.Acceptor: it accepts or deletes an agent document (OpenAgentSpec v1, Server, rule 2).
func (s *acceptService) Serve(q *endpoints.Request) error {
	if err := q.SameOrigin(); err != nil {
		return err
	}
	if !s.Permits(q.User.ID) {
		return endpoints.NewProblem(http.StatusForbidden, "Not permitted", "You may not change agent documents on this site.")
	}
	condition := registry.ConditionOf(q.R.Header)
	if q.R.Method == http.MethodDelete {
		if err := s.Delete(q.R.Context(), q.Rest[0], q.User.ID, condition); err != nil {
			return changeProblem(q, err)
		}
		q.W.WriteHeader(http.StatusNoContent)
		return nil
	}
	kind, _, _ := strings.Cut(q.R.Header.Get("Content-Type"), ";")
	if !slices.Contains(documentTypes, strings.ToLower(strings.TrimSpace(kind))) {
		return endpoints.NewProblem(http.StatusUnsupportedMediaType, "Unsupported media type", "Send the document with the header Content-Type: application/yaml.")
	}
	source, err := q.ReadSmall(registry.MaxDocument)
	if errors.Is(err, buffer.ErrTooLarge) {
		return changeProblem(q, registry.ErrTooLarge)
	}
	if err != nil {
		return q.BodyProblem(err, http.StatusBadRequest, "Incomplete body", "The document was not received completely.")
	}
	entry, created, err := s.Put(q.R.Context(), registry.Change{Name: q.Rest[0], Source: source, By: q.User.ID, Condition: condition})
	if err != nil {
		return changeProblem(q, err)
	}
	q.W.Header().Set("Etag", entry.Tag())
	status := http.StatusNoContent
	if created {
		q.W.Header().Set("Location", q.Options.Documents+"/"+entry.Name)
		status = http.StatusCreated
	}
	q.W.WriteHeader(status)
	return nil
}

// changeProblem returns the problem of an error of the acceptService.
func changeProblem(q *endpoints.Request, err error) error {
	switch _, invalid := errors.AsType[oagent.LintErrors](err); {
	case invalid:
		return endpoints.NewProblem(http.StatusUnprocessableEntity, "Invalid agent document", err.Error())
	case errors.Is(err, registry.ErrTooLarge):
		return endpoints.NewProblem(http.StatusRequestEntityTooLarge, "Document too large", text.Sentence(err.Error()))
	case errors.Is(err, registry.ErrPrecondition):
		return endpoints.NewProblem(http.StatusPreconditionFailed, "Precondition failed", text.Sentence(err.Error())+" GET "+q.Options.Documents+"/"+q.Rest[0]+" returns its Etag.")
	case errors.Is(err, registry.ErrNotFound):
		return q.UnknownAgent()
	case errors.Is(err, registry.ErrFull):
		return endpoints.NewProblem(http.StatusInsufficientStorage, "Too many agent documents", text.Sentence(err.Error()))
	case errors.Is(err, errFromFile):
		return endpoints.NewProblem(http.StatusConflict, "Agent of a file", text.Sentence(err.Error())+" Use another name, or change the file.")
	case errors.Is(err, errNotLoaded):
		q.W.Header().Set("Retry-After", "2")
		return endpoints.NewProblem(http.StatusServiceUnavailable, "Tools not loaded", text.Sentence(err.Error())+" Try again later.")
	}
	return err
}
