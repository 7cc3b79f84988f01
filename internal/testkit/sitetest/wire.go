package sitetest

import (
	"fmt"
	"io"
	"net"
	"runtime/pprof"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// Unfinished is the end of what a client sends that ends in the middle of a
// request.
const Unfinished = "<EOF>"

// Wire sends bytes to the site as they are, and returns all that comes back.
func (s *Site) Wire(raw string) string {
	s.T.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		s.T.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
	raw, unfinished := strings.CutSuffix(raw, Unfinished)
	if _, err := io.WriteString(conn, raw); err != nil {
		s.T.Fatal(err)
	}
	if unfinished {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	answer, _ := io.ReadAll(conn) // a server that has enough closes the connection
	return string(answer)
}

// RawRequest is a request as it is on the wire.
func RawRequest(line, headers, body string) string {
	return fmt.Sprintf("%s\r\nHost: 127.0.0.1\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s", line, headers, len(body), body)
}

func InUTF16(text string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		b.Write([]byte{byte(unit), byte(unit >> 8)})
	}
	return b.String()
}

// Goroutines returns the stacks of all goroutines.
func Goroutines() string {
	var b strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	return b.String()
}
