package console

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/replay"
	verdicts "github.com/fairwayhq/fairway/oagent/replay"
)

// replayModel is a changed document of agents, and what it would have decided.
type replayModel struct {
	replayRequest
	Report  *verdicts.Report `json:"report,omitzero"`
	Problem string           `json:"problem,omitzero"` // why there is no report

	Agents []string `json:"-"` // whose document can be chosen
}

// replayRequest is the body of the request of a program.
type replayRequest struct {
	Document string `json:"document"`
	Since    string `json:"since,omitzero"` // as in the admin endpoint
	User     string `json:"user,omitzero"`
}

// serveReplay tries a changed document on the calls that are recorded. It is for auditors, and stores nothing.
func (p *recordPages) serveReplay() (*page, error) {
	if len(p.in.rest) > 1 || !p.in.viewer.Auditor || len(p.site.guards()) == 0 {
		return nil, errNotFound
	}
	m := new(replayModel)
	shown := &page{view: "agents", template: "replay", part: "result", title: "Try a change", model: m}
	for _, h := range p.site.guards() {
		documents, _ := h.Agents()
		for _, a := range documents {
			m.Agents = append(m.Agents, a.Name)
			if a.Name == p.in.URL.Query().Get("agent") {
				m.Document = string(a.Source)
			}
		}
	}
	switch {
	case p.in.isRead():
		return shown, nil
	case p.in.Method != http.MethodPost:
		return nil, errNotFound
	}
	if err := m.read(p.in); err != nil {
		return nil, err
	}
	report, err := p.site.replay.Run(p.in.Context(), p.site.guards(), &replay.Request{
		Documents: []replay.Document{{Name: "document", Text: m.Document}}, Since: m.Since, User: m.User,
	})
	if refused, ok := errors.AsType[caddy.APIError](err); ok {
		m.Problem, shown.status = refused.Err.Error(), refused.HTTPStatus
		if !p.in.api {
			shown.status = http.StatusOK // the form shows the problem
		}
		return shown, nil
	}
	m.Report = report
	return shown, err
}

// read reads the form, or the request of a program.
func (m *replayModel) read(q *request) error {
	if err := q.readBody(&m.replayRequest, `{"document": "kind: …", "since": "7d", "user": ""}`); err != nil || q.api {
		return err
	}
	m.Document, m.Since, m.User = q.PostForm.Get("document"), strings.TrimSpace(q.PostForm.Get("since")), strings.TrimSpace(q.PostForm.Get("user"))
	return nil
}
