package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

func init() {
	caddy.RegisterModule(new(SMTP))
}

// Limits of SMTP.
const (
	smtpTimeout    = 30 * time.Second // default of SMTP.Timeout
	maxSMTPRead    = 256 << 10        // bytes that a server may send in one session
	submissionPort = "587"
	implicitPort   = "465" // with TLS from the beginning (RFC 8314)
)

// SMTP sends notices as mail. The connection uses TLS: from the beginning at port 465, otherwise with STARTTLS.
type SMTP struct {
	// The address of the mail server, as mail.example.com or mail.example.com:465. Default of the port: 587. Required.
	Server string `json:"server,omitempty"`

	// The sender, as fairway@example.com or "Fairway <fairway@example.com>". Required.
	From string `json:"from,omitempty"`

	// The recipients. Required.
	To []string `json:"to,omitempty"`

	// The user for AUTH PLAIN. Placeholders such as {env.NAME} are replaced. Default: no authentication.
	User string `json:"user,omitempty"`

	// The password of the user. Placeholders such as {env.NAME} and {file.PATH} are replaced. Default: none; required with user.
	Password string `json:"password,omitempty"`

	// Sends mail also if the server offers no STARTTLS. The password is not sent then, unless the server is on this machine.
	// Default: false.
	AllowPlaintext bool `json:"allow_plaintext,omitempty"`

	// The timeout of one mail, at most 1m. Default: 30s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	Selection

	host, port string
	isTLS      bool // from the beginning
	from       *mail.Address
	to         []*mail.Address
	auth       smtp.Auth      // nil for none
	roots      *x509.CertPool // nil for those of the system
	logger     *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*SMTP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "oagent.notifiers.smtp", New: func() caddy.Module { return new(SMTP) }}
}

// Provision checks the options.
func (s *SMTP) Provision(ctx caddy.Context) error {
	s.logger = ctx.Logger()
	if err := s.prepare(caddy.NewReplacer()); err != nil {
		return fmt.Errorf("smtp: %w", err)
	}
	return nil
}

func (s *SMTP) prepare(repl *caddy.Replacer) (err error) {
	server := repl.ReplaceAll(s.Server, "")
	if s.host, s.port, err = net.SplitHostPort(server); err != nil {
		s.host, s.port = strings.Trim(server, "[]"), submissionPort
	}
	s.isTLS = s.port == implicitPort
	if s.host == "" {
		return errors.New("server: the host is missing, as in: notify smtp mail.example.com")
	}
	if s.from, err = mail.ParseAddress(repl.ReplaceAll(s.From, "")); err != nil {
		return errors.New("from: not an address of mail, as in: from fairway@example.com")
	}
	if len(s.To) == 0 {
		return errors.New("to: the recipients are missing, as in: to team@example.com")
	}
	for _, to := range s.To {
		address, err := mail.ParseAddress(repl.ReplaceAll(to, ""))
		if err != nil {
			return errors.New("to: not an address of mail, as in: to team@example.com")
		}
		s.to = append(s.to, address)
	}
	user, password := repl.ReplaceAll(s.User, ""), repl.ReplaceAll(s.Password, "")
	switch {
	case (s.User != "" || s.Password != "") && (user == "" || password == ""):
		return errors.New("auth needs a user and a password, as in: auth fairway {env.SMTP_PASSWORD}")
	case user != "":
		s.auth = smtp.PlainAuth("", user, password, s.host)
	}
	if s.Timeout = cmp.Or(s.Timeout, caddy.Duration(smtpTimeout)); s.Timeout < 0 || time.Duration(s.Timeout) > timeout {
		return fmt.Errorf("timeout %s: must be more than 0 and at most %s", time.Duration(s.Timeout), timeout)
	}
	return s.provision(repl)
}

// Target implements Notifier.
func (s *SMTP) Target() string { return fmt.Sprint("smtp ", s.host, s.port, s.from, s.to) }

// MaxDuration implements Notifier.
func (s *SMTP) MaxDuration() time.Duration { return time.Duration(s.Timeout) }

// Notify implements Notifier.
func (s *SMTP) Notify(ctx context.Context, notice *Notice) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.Timeout))
	defer cancel()
	message, err := s.message(notice, time.Now())
	if err != nil {
		return err
	}
	if err = s.send(ctx, message); err != nil && ctx.Err() != nil {
		return errors.New("the mail was not accepted before the timeout")
	}
	return err
}

// send sends a message to the recipients that the server accepts.
func (s *SMTP) send(ctx context.Context, message []byte) error {
	dialed, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(s.host, s.port))
	if err != nil {
		return err
	}
	defer dialed.Close()
	defer context.AfterFunc(ctx, func() { _ = dialed.Close() })()
	var connection net.Conn = &limitedConnection{dialed, maxSMTPRead}
	config := &tls.Config{ServerName: s.host, RootCAs: s.roots, MinVersion: tls.VersionTLS12}
	if s.isTLS {
		connection = tls.Client(connection, config)
	}
	c, err := smtp.NewClient(connection, s.host)
	if err != nil {
		return stepError("connecting", err)
	}
	defer c.Close()
	_, domain, _ := strings.Cut(s.from.Address, "@")
	if err := c.Hello(domain); err != nil {
		return stepError("EHLO", err)
	}
	if !s.isTLS {
		if err := s.startTLS(c, config); err != nil {
			return err
		}
	}
	if s.auth != nil {
		if err := c.Auth(s.auth); err != nil {
			return stepError("AUTH", err)
		}
	}
	return s.deliver(c, message)
}

// startTLS begins TLS if the server offers it, or must.
func (s *SMTP) startTLS(c *smtp.Client, config *tls.Config) error {
	if offered, _ := c.Extension("STARTTLS"); !offered {
		if s.AllowPlaintext {
			return nil
		}
		return errors.New("the server offers no STARTTLS; use port 465, or permit mail without TLS with allow_plaintext")
	}
	return stepError("STARTTLS", c.StartTLS(config))
}

// deliver sends the message to the recipients that the server accepts, and logs the others. If it accepts none, that is an error, and
// the notice is sent again later.
func (s *SMTP) deliver(c *smtp.Client, message []byte) error {
	if err := c.Mail(s.from.Address); err != nil {
		return stepError("MAIL", err)
	}
	refusals, refused := make([]error, len(s.to)), 0
	for i, to := range s.to {
		if err := c.Rcpt(to.Address); err != nil {
			refusals[i] = stepError(fmt.Sprintf("recipient %d", i+1), err)
			refused++
			if _, ok := errors.AsType[*textproto.Error](err); !ok || refused == len(s.to) {
				return refusals[i]
			}
		}
	}
	w, err := c.Data()
	if err != nil {
		return stepError("DATA", err)
	}
	if _, err := w.Write(message); err != nil {
		return stepError("DATA", err)
	}
	if err := w.Close(); err != nil {
		return stepError("DATA", err)
	}
	for i, refusal := range refusals {
		if refusal != nil {
			s.logger.Warn("the mail server refuses a recipient of notices", zap.String("recipient", s.to[i].Address), zap.Error(refusal))
		}
	}
	_ = c.Quit() // the server has the mail
	return nil
}

// stepError returns an error for the log: of a response of the server at most the status, since its text may contain anything.
func stepError(step string, err error) error {
	if err == nil {
		return nil
	}
	if answer, ok := errors.AsType[*textproto.Error](err); ok {
		return fmt.Errorf("%s: the mail server responds with %d", step, answer.Code)
	}
	if _, ok := errors.AsType[textproto.ProtocolError](err); ok { // it quotes the line
		return fmt.Errorf("%s: the mail server sends an invalid response", step)
	}
	return fmt.Errorf("%s: %w", step, err)
}

// message returns the mail about a notice.
func (s *SMTP) message(n *Notice, now time.Time) ([]byte, error) {
	_, domain, _ := strings.Cut(s.from.Address, "@")
	recipients := make([]string, len(s.to))
	for i, to := range s.to {
		recipients[i] = to.String()
	}
	var m bytes.Buffer
	for _, header := range [][2]string{
		{"From", s.from.String()},
		{"To", strings.Join(recipients, ",\r\n ")},
		{"Subject", mime.QEncoding.Encode("utf-8", n.subject())},
		{"Date", now.Format(time.RFC1123Z)},
		{"Message-ID", "<" + n.Key() + "@" + domain + ">"},
		{"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
	} {
		m.WriteString(header[0] + ": " + header[1] + "\r\n")
	}
	m.WriteString("\r\n")
	body := quotedprintable.NewWriter(&m)
	if _, err := io.WriteString(body, strings.Join(n.lines(s.link(n)), "\r\n")+"\r\n"); err != nil {
		return nil, err
	}
	return m.Bytes(), body.Close()
}

// limitedConnection is a connection of which at most a number of bytes are read.
type limitedConnection struct {
	net.Conn
	left int
}

func (c *limitedConnection) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("the mail server sends more than %d bytes", maxSMTPRead)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// UnmarshalCaddyfile parses the options of smtp. Syntax:
//
//	smtp <host>[:<port>] {
//		from    <address>
//		to      <addresses...>
//		auth    <user> <password>
//		allow_plaintext
//		events  <types...>
//		console <url>
//		timeout <duration>
//	}
func (s *SMTP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the notifier
	if !d.AllArgs(&s.Server) {
		return d.Err("smtp needs the address of the mail server, as in: notify smtp mail.example.com")
	}
	b := directive.NewBlock(d)
	return b.Read("notify smtp", s.options(b, directive.Options{
		"from": directive.To(b.Text, &s.From),
		"to":   directive.To(b.List, &s.To),
		"auth": func() error {
			if err := b.Once(); err != nil {
				return err
			}
			if !b.AllArgs(&s.User, &s.Password) {
				return b.Err("auth needs a user and a password, as in: auth fairway {env.SMTP_PASSWORD}")
			}
			if err := directive.CheckVariable(s.Password); err != nil {
				return b.Errf("auth: %v", err)
			}
			return nil
		},
		"allow_plaintext": directive.To(b.Flag, &s.AllowPlaintext),
		"timeout":         directive.To(b.Period, &s.Timeout),
	}))
}

// Interface guards
var (
	_ Notifier              = (*SMTP)(nil)
	_ selector              = (*SMTP)(nil)
	_ caddy.Provisioner     = (*SMTP)(nil)
	_ caddyfile.Unmarshaler = (*SMTP)(nil)
)
