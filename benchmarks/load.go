package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// answerTimeout is the maximum time for one response. After it the run fails.
const answerTimeout = 10 * time.Second

// probe is a request to send repeatedly, and a check that its response is correct.
type probe struct {
	name    string
	address string // host:port
	request []byte // encoded as HTTP/1.1
	want    []byte // must be in the body of the response

	// others are sent in turn with request, so that no two consecutive requests are
	// equal.
	others [][]byte

	// serial is the offset in request of digits that are replaced with a new number in
	// each request; 0 for none.
	serial int
}

// serialDigits is the placeholder for a serial number in a request.
const serialDigits = "0000000000000000"

// serials is the last serial number.
var serials atomic.Uint64

// numbered returns the request with the next serial number. It reuses the memory of own.
func (p *probe) numbered(own []byte) []byte {
	own = append(own[:0], p.request...)
	digits := own[p.serial : p.serial+len(serialDigits)]
	for i, n := len(digits)-1, serials.Add(1); i >= 0 && n > 0; i, n = i-1, n/10 {
		digits[i] = byte('0' + n%10)
	}
	return own
}

// next returns the n-th request.
func (p *probe) next(n int) []byte {
	if n %= len(p.others) + 1; n > 0 {
		return p.others[n-1]
	}
	return p.request
}

// newProbe encodes a request with a JSON body, or without a body if body is "".
func newProbe(name, address, method, path, want, body string, header map[string]string) probe {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, address)
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	for name, value := range header {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	fmt.Fprintf(&b, "\r\n%s", body)
	p := probe{name: name, address: address, request: b.Bytes(), want: []byte(want)}
	p.serial = max(bytes.Index(p.request, []byte(serialDigits)), 0)
	return p
}

// load sends a probe on several open connections. Each connection sends the next request
// when the previous response has arrived.
type load struct {
	probe probe
	conns []*conn
}

// openLoad opens the connections and sends one request on each.
func openLoad(p probe, connections int) (*load, error) {
	l := &load{probe: p}
	for range connections {
		c, err := dial(p.address)
		if err != nil {
			l.close()
			return nil, err
		}
		l.conns = append(l.conns, c)
		if err := c.roundTrip(p); err != nil {
			l.close()
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return l, nil
}

func (l *load) close() {
	for _, c := range l.conns {
		c.Close()
	}
}

// run sends requests for about d. It returns the number of responses and the actual
// duration.
func (l *load) run(d time.Duration) (answers int, took time.Duration, err error) {
	counts := make([]int, len(l.conns))
	errs := make([]error, len(l.conns))
	start := time.Now()
	end := start.Add(d)
	var wg sync.WaitGroup
	for i, c := range l.conns {
		wg.Go(func() {
			for errs[i] == nil && time.Now().Before(end) {
				errs[i] = c.roundTrip(l.probe)
				counts[i]++
			}
		})
	}
	wg.Wait()
	took = time.Since(start)
	for _, n := range counts {
		answers += n
	}
	if err := errors.Join(errs...); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", l.probe.name, err)
	}
	return answers, took, nil
}

// conn is a keep-alive connection with its own read buffers, so that the load generator
// allocates nothing per request.
type conn struct {
	net.Conn
	r    *bufio.Reader
	body []byte
	own  []byte // the last request with a serial number
	sent int    // number of requests
}

func dial(address string) (*conn, error) {
	c, err := net.DialTimeout("tcp", address, answerTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, r: bufio.NewReaderSize(c, 64<<10)}, nil
}

// roundTrip sends the request and reads the response. The response must have a 2xx status
// and contain the expected bytes.
func (c *conn) roundTrip(p probe) error {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	request := p.next(c.sent)
	if p.serial > 0 {
		c.own = p.numbered(c.own)
		request = c.own
	}
	if _, err := c.Write(request); err != nil {
		return err
	}
	c.sent++
	status, err := c.readAnswer()
	if err != nil {
		return err
	}
	if status/100 != 2 || !bytes.Contains(c.body, p.want) {
		return fmt.Errorf("response %d without %q: %.300s", status, p.want, c.body)
	}
	return nil
}

// readAnswer reads one HTTP/1.1 response and leaves its body in c.body.
func (c *conn) readAnswer() (status int, err error) {
	line, err := c.readLine()
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, fmt.Errorf("not a status line: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("not a status line: %q", line)
	}
	length := -1
	for {
		if line, err = c.readLine(); err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		if value, ok := headerValue(line, "Content-Length"); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, fmt.Errorf("not a length: %q", line)
			}
		}
	}
	return status, c.readBody(status, length)
}

// readBody reads a body of the given length, or a chunked body if length is negative.
func (c *conn) readBody(status, length int) error {
	if length < 0 && status != http.StatusNoContent {
		var b bytes.Buffer
		_, err := io.Copy(&b, httputil.NewChunkedReader(c.r))
		if err != nil {
			return err
		}
		c.body = b.Bytes()
		_, err = c.readLine() // the end of the trailers
		return err
	}
	length = max(length, 0)
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	_, err := io.ReadFull(c.r, c.body)
	return err
}

// readLine returns the next line without its line end.
func (c *conn) readLine() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// headerValue returns the value of a header line if the header has the given name.
func headerValue(line []byte, name string) ([]byte, bool) {
	if len(line) <= len(name) || line[len(name)] != ':' || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name)+1:]), true
}
