package authserver

import (
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// pageContent is what the page shows: an error, or the question for the user's consent.
type pageContent struct {
	Error    string
	Back     template.URL // address of the client that gets the error; "" for none
	Again    string       // page of the gateway that the user has logged out of
	Name     string       // of the client
	Domain   string       // verified; "" if the client's name is not verified
	Redirect string       // host that gets the code, or what it is instead
	IsLocal  bool         // the redirect address is on the user's own machine
	Resource string
	Scopes   []string
	Login    string // ID of the login
	Action   string // address of the form
}

// showConsent asks the user whether the client may act for him.
func (s *Server) showConsent(w http.ResponseWriter, c *Client, asked *request, id string) {
	_, audiences, _ := s.targets.of(asked.Resource) // cannot fail: it was checked
	content := &pageContent{Name: c.name(), Domain: c.domain, Resource: strings.Join(audiences, ", "), Scopes: asked.Scopes, Login: id, Action: s.path + "/consent"}
	to, err := url.Parse(asked.Redirect)
	switch {
	case err != nil: // cannot happen: the address was checked
	case to.Host == "":
		content.Redirect, content.IsLocal = to.Scheme+": on this device", true
	default:
		content.Redirect, content.IsLocal = to.Host, isLoopback(to.Hostname())
	}
	s.show(w, http.StatusOK, content)
}

// showError shows an error to a person. Programs get it as text of the page too.
func (s *Server) showError(w http.ResponseWriter, status int, message string) {
	s.show(w, status, &pageContent{Error: message})
}

// contentPolicy allows what the page has: its own styles, and the form. The form leads to the provider and to the client by redirects, which form-action
// would have to list; the answer is bound to the cookie instead.
const contentPolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"

func (s *Server) show(w http.ResponseWriter, status int, content *pageContent) {
	var text strings.Builder
	if err := page.Execute(&text, content); err != nil {
		s.options.Report("the page of the login cannot be shown", err)
		http.Error(w, "Internal error.", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("X-Frame-Options", "DENY")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text.String())) // the browser may have disconnected
}
