package notify

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// mailServer is a mail server for tests.
type mailServer struct {
	address   string
	config    *tls.Config
	roots     *x509.CertPool
	plain     bool              // it offers no STARTTLS
	implicit  bool              // it expects TLS from the beginning
	responses map[string]string // to a command, such as RCPT TO:<bob@example.com>; default: success
	hold      chan struct{}     // if set, the server does not respond before it is closed

	mu    sync.Mutex
	mails []string
	lines []string // commands
}

func newMailServer(t *testing.T, set func(*mailServer)) *mailServer {
	t.Helper()
	certificates := httptest.NewTLSServer(nil)
	certificates.Close()
	s := &mailServer{config: &tls.Config{Certificates: certificates.TLS.Certificates}, roots: x509.NewCertPool(), responses: make(map[string]string)}
	s.roots.AddCert(certificates.Certificate())
	set(s)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	var sessions sync.WaitGroup
	sessions.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		sessions.Wait()
	})
	return s
}

// serve serves one session.
func (s *mailServer) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	if s.hold != nil {
		<-s.hold
		return
	}
	if s.implicit {
		c = tls.Server(c, s.config)
	}
	r := bufio.NewReader(c)
	say := func(text string) { _, _ = io.WriteString(c, text+"\r\n") }
	say("220 ready")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		s.mu.Lock()
		s.lines = append(s.lines, line)
		response := s.responses[line]
		s.mu.Unlock()
		verb, _, _ := strings.Cut(line, " ")
		switch {
		case response != "":
			say(response)
		case verb == "EHLO":
			say("250-test")
			if _, isTLS := c.(*tls.Conn); !isTLS && !s.plain {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN")
		case verb == "STARTTLS":
			say("220 go")
			c = tls.Server(c, s.config)
			r = bufio.NewReader(c)
		case verb == "AUTH":
			say("235 ok")
		case verb == "DATA":
			say("354 go")
			var m strings.Builder
			for line, err := r.ReadString('\n'); err == nil && line != ".\r\n"; line, err = r.ReadString('\n') {
				m.WriteString(line)
			}
			s.mu.Lock()
			s.mails = append(s.mails, m.String())
			s.mu.Unlock()
			say("250 accepted")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (s *mailServer) received() (mails, lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails), slices.Clone(s.lines)
}

// notifier returns a notifier that sends to the server, and its log.
func (s *mailServer) notifier(t *testing.T, set func(*SMTP)) (*SMTP, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.WarnLevel)
	n := &SMTP{
		Server: s.address, From: "Fairway <fairway@example.com>", To: []string{"ann@example.com", "bob@example.com"}, roots: s.roots, logger: zap.New(core),
		Selection: Selection{Console: "https://gw.example.com/console/"},
	}
	set(n)
	if err := n.prepare(caddy.NewReplacer()); err != nil {
		t.Fatal(err)
	}
	n.isTLS = s.implicit
	return n, logs
}

func reviewNotice() *Notice {
	return &Notice{
		ID: "REV", Type: typePending, Reviewer: "boss", Agent: "clerk", User: "ada", Name: "create-booking", Side: "input",
		ExpiresAt: time.Date(2026, 3, 8, 10, 0, 0, 0, time.UTC),
	}
}

const mailPassword = "a-secret-password"

// TestSMTP_sends checks the mail, that the password is sent over TLS only, and which servers without TLS get mail.
func TestSMTP_sends(t *testing.T) {
	for name, c := range map[string]struct {
		server func(*mailServer)
		set    func(*SMTP)
		fails  string
	}{
		"STARTTLS":             {func(*mailServer) {}, func(n *SMTP) { n.User, n.Password = "fairway", mailPassword }, ""},
		"implicit TLS":         {func(s *mailServer) { s.implicit = true }, func(n *SMTP) { n.User, n.Password = "fairway", mailPassword }, ""},
		"no STARTTLS":          {func(s *mailServer) { s.plain = true }, func(*SMTP) {}, "allow_plaintext"},
		"no STARTTLS, allowed": {func(s *mailServer) { s.plain = true }, func(n *SMTP) { n.AllowPlaintext = true }, ""},
		"unknown certificate":  {func(*mailServer) {}, func(n *SMTP) { n.roots, n.AllowPlaintext = x509.NewCertPool(), true }, "certificate"},
		"rejected password":    {func(s *mailServer) { s.responses[authLine()] = "535 no " + mailPassword }, func(n *SMTP) { n.User, n.Password = "fairway", mailPassword }, "AUTH: the mail server responds with 535"},
		"password without TLS": {func(s *mailServer) { s.plain = true }, func(n *SMTP) {
			n.User, n.Password, n.AllowPlaintext = "fairway", mailPassword, true
			_, port, _ := net.SplitHostPort(n.Server)
			n.Server = net.JoinHostPort("::ffff:127.0.0.1", port) // the same server; only 127.0.0.1, ::1 and localhost count as this machine
		}, "unencrypted"},
		"invalid response": {func(s *mailServer) { s.responses["RCPT TO:<ann@example.com>"] = "bad " + mailPassword }, func(*SMTP) {}, "sends an invalid response"},
		"all recipients refused": {func(s *mailServer) {
			s.responses["RCPT TO:<ann@example.com>"], s.responses["RCPT TO:<bob@example.com>"] = "550 no", "451 later"
		}, func(*SMTP) {}, "451"},
		"endless response": {func(s *mailServer) {
			s.responses["EHLO example.com"] = strings.Repeat("250-x\r\n", maxSMTPRead/7+10) + "250 x"
		}, func(*SMTP) {}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newMailServer(t, c.server)
			n, logs := server.notifier(t, c.set)
			err := n.Notify(t.Context(), reviewNotice())
			mails, lines := server.received()
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), mailPassword) {
					t.Errorf("got the error %v, want %q without the password", err, c.fails)
				}
				if len(mails) > 0 {
					t.Errorf("got %d mails, want none", len(mails))
				}
				if logs.Len() > 0 { // each try would repeat it
					t.Errorf("log: %+v", logs.All())
				}
				if server.plain && slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "AUTH") }) {
					t.Errorf("without TLS, the server got %q", lines)
				}
				return
			}
			if err != nil || len(mails) != 1 {
				t.Fatalf("error %v, %d mails, %q", err, len(mails), lines)
			}
			if n.User != "" && !slices.Contains(lines, authLine()) {
				t.Errorf("the server got %q", lines)
			}
			checkMail(t, mails[0])
		})
	}
}

func authLine() string {
	return "AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00fairway\x00"+mailPassword))
}

func checkMail(t *testing.T, raw string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"From": `"Fairway" <fairway@example.com>`, "To": "<ann@example.com>, <bob@example.com>", "Subject": "A review is pending: clerk create-booking",
		"Message-Id": "<REV@example.com>", "Auto-Submitted": "auto-generated",
	} {
		if got := m.Header.Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if _, err := m.Header.Date(); err != nil {
		t.Error(err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Agent: clerk", "User: ada", "Reviewer: boss", "https://gw.example.com/console/reviews/REV"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the mail does not have %q: %s", want, body)
		}
	}
}

// TestSMTP_refused_recipient checks that the other recipients get the mail, and that the log has the one that the server refuses.
func TestSMTP_refused_recipient(t *testing.T) {
	for _, status := range []string{"550", "451"} {
		server := newMailServer(t, func(s *mailServer) { s.responses["RCPT TO:<bob@example.com>"] = status + " secret text" })
		n, logs := server.notifier(t, func(*SMTP) {})
		if err := n.Notify(t.Context(), reviewNotice()); err != nil {
			t.Fatal(err)
		}
		if mails, _ := server.received(); len(mails) != 1 {
			t.Errorf("%s: %d mails", status, len(mails))
		}
		all := logs.All()
		if len(all) != 1 || all[0].ContextMap()["recipient"] != "bob@example.com" || strings.Contains(all[0].ContextMap()["error"].(string), "secret") {
			t.Errorf("%s: log: %+v", status, all)
		}
	}
}

// TestSMTP_temporary_failure checks that a notice whose only recipient the server rejects temporarily is sent later, once.
func TestSMTP_temporary_failure(t *testing.T) {
	const recipient = "RCPT TO:<bob@example.com>"
	server := newMailServer(t, func(s *mailServer) { s.responses[recipient] = "451 later" })
	n, _ := server.notifier(t, func(n *SMTP) { n.To, n.Events = n.To[1:], []string{"run.*"} })
	st := openStore(t)
	core, logs := observer.New(zapcore.WarnLevel)
	startService(t, st, zap.New(core), n)
	put(t, st, "R", time.Now())
	testkit.Eventually(t, "two failures", func() bool { return logs.FilterMessage("sending a notice failed").Len() >= 2 })
	server.mu.Lock()
	server.responses[recipient] = ""
	server.mu.Unlock()
	testkit.Eventually(t, "the outbox to be empty", func() bool { return waiting(t, st) == 0 })
	if mails, _ := server.received(); len(mails) != 1 || !strings.Contains(mails[0], "A run is complete: desk") {
		t.Errorf("mails %q", mails)
	}
}

// TestSMTP_slow_server checks that a server that does not respond does not hold the notifier longer than its timeout.
func TestSMTP_slow_server(t *testing.T) {
	hold := make(chan struct{})
	server := newMailServer(t, func(s *mailServer) { s.hold = hold })
	defer close(hold)
	n, _ := server.notifier(t, func(n *SMTP) { n.Timeout = caddy.Duration(50 * time.Millisecond) })
	if err := n.Notify(context.Background(), reviewNotice()); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("error %v", err)
	}
}

// TestSMTP_no_injection checks that names cannot add headers or recipients, nor lines to the text.
func TestSMTP_no_injection(t *testing.T) {
	server := newMailServer(t, func(*mailServer) {})
	n, _ := server.notifier(t, func(*SMTP) {})
	hostile := "x\r\nBcc: eve@example.com\r\n\r\nLine: true\u2028ü"
	notice := reviewNotice()
	notice.Agent, notice.Name, notice.User = hostile, hostile, hostile
	if err := n.Notify(t.Context(), notice); err != nil {
		t.Fatal(err)
	}
	mails, lines := server.received()
	m, err := mail.ReadMessage(strings.NewReader(mails[0]))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Header) != 9 || m.Header.Get("Bcc") != "" {
		t.Errorf("headers %v", m.Header)
	}
	if subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil || !strings.Contains(subject, "Bcc: eve@example.com") {
		t.Errorf("subject %q, error %v", subject, err)
	}
	body, _ := io.ReadAll(quotedprintable.NewReader(m.Body))
	if strings.Contains(string(body), "\nLine:") || strings.Contains(string(body), "\nBcc:") {
		t.Errorf("body %s", body)
	}
	for _, line := range lines {
		if strings.Contains(line, "eve@") {
			t.Errorf("the server got %s", line)
		}
	}
}

// TestSMTP_config checks that invalid options are rejected, without the password.
func TestSMTP_config(t *testing.T) {
	for name, set := range map[string]func(*SMTP){
		"server":   func(n *SMTP) { n.Server = "" },
		"from":     func(n *SMTP) { n.From = "fairway" },
		"from CR":  func(n *SMTP) { n.From = "a@example.com\r\nBcc: b@example.com" },
		"to":       func(n *SMTP) { n.To = nil },
		"to bad":   func(n *SMTP) { n.To = []string{"x y"} },
		"password": func(n *SMTP) { n.User = "fairway" },
		"variable": func(n *SMTP) { n.User, n.Password = "fairway", "{env.FAIRWAY_NO_SUCH_VARIABLE}" },
		"timeout":  func(n *SMTP) { n.Timeout = caddy.Duration(time.Hour) },
		"no value": func(n *SMTP) { n.Console = "{env.FAIRWAY_NO_SUCH_VARIABLE}" },
		"console":  func(n *SMTP) { n.Console = "/console" },
		"events":   func(n *SMTP) { n.Events = []string{"run.done"} },
	} {
		n := &SMTP{Server: "mail.example.com", From: "fairway@example.com", To: []string{"ann@example.com"}}
		set(n)
		if err := n.prepare(caddy.NewReplacer()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestSMTP_target checks that the target is the same for the same server and addresses, and another one otherwise.
func TestSMTP_target(t *testing.T) {
	server := newMailServer(t, func(*mailServer) {})
	first, _ := server.notifier(t, func(*SMTP) {})
	same, _ := server.notifier(t, func(n *SMTP) { n.User, n.Password = "fairway", mailPassword })
	other, _ := server.notifier(t, func(n *SMTP) { n.To = n.To[:1] })
	if first.Target() != same.Target() || first.Target() == other.Target() {
		t.Errorf("targets %q, %q and %q", first.Target(), same.Target(), other.Target())
	}
}

// TestLines_of_runs checks the text about a run, and that placeholders in console are replaced.
func TestLines_of_runs(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_HOST", "gw.example.com")
	n := &Notice{ID: "R-1", Type: "run.failed", Agent: "desk", User: "ada", Run: &Run{ID: "R", Reason: "budget", Rule: "user ada"}}
	s := Selection{Console: "https://{env.FAIRWAY_TEST_HOST}/console"}
	if err := s.provision(caddy.NewReplacer()); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(n.lines(s.link(n)), "\n")
	for _, want := range []string{"A run has failed: desk", "Reason: budget user ada", "https://gw.example.com/console/engagements/R"} {
		if !strings.Contains(got, want) {
			t.Errorf("the text does not have %q: %s", want, got)
		}
	}
}
