package modelapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// slowTransport is a server whose response arrives in small pieces with pauses between them.
type slowTransport struct {
	handler http.Handler
	pause   time.Duration
}

func (s slowTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	response := w.Result()
	response.Body = slowBody{response.Body, s.pause, r}
	return response, nil
}

type slowBody struct {
	io.ReadCloser
	pause time.Duration
	r     *http.Request
}

func (b slowBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(b.pause):
	case <-b.r.Context().Done():
		return 0, b.r.Context().Err()
	}
	return b.ReadCloser.Read(p[:min(len(p), 100)])
}

// testSlow wants the timeout to apply to pauses: a stream may take longer in all.
func testSlow(t *testing.T, s subject) {
	for pause, want := range map[time.Duration]model.Kind{50 * time.Second: "", 70 * time.Second: model.KindTimeout} {
		synctest.Test(t, func(t *testing.T) {
			server := &modelserver.Server{Respond: modelserver.Sequence(modelserver.Step{Text: "In Zürich.", Pieces: 5})}
			m, err := s.create(model.APIOptions{BaseURL: "http://models.example/v1", Model: "model-1", Timeout: time.Minute, Transport: slowTransport{server, pause}})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			response, err := m.Generate(t.Context(), question(), func(string) {})
			if want != "" {
				wantKind(t, err, want)
				return
			}
			if err != nil || response.Text != "In Zürich." || time.Since(began) < 2*time.Minute {
				t.Errorf("got %+v after %s, error %v", response, time.Since(began), err)
			}
		})
	}
}
