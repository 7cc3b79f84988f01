package files

import (
	"net/http"

	"github.com/fairwayhq/fairway/internal/fetch"
)

// FetchBy makes a transport fetch the files of ChatGPT: that of the product refuses loopback addresses.
func (s *Section) FetchBy(t http.RoundTripper) {
	s.fetcher = fetch.New(fetch.Options{MaxSize: s.store.MaxSize, Timeout: fetchTime, Transport: t})
}
