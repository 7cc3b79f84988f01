package hosted

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/remote"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/tools"
)

// maxCertificates is the maximum size of a file of certificates, in bytes.
const maxCertificates = 1 << 20

// RemoteServers configures servers whose agents may be capabilities.
type RemoteServers struct {
	// The host names of the servers, with a port unless it is 443. Each name must match exactly.
	// Required. Default: none.
	Hosts []string `json:"hosts,omitempty"`

	// The credentials to send to the servers. They are the operator's, so all users of the agents
	// act with them. Default: none.
	Credentials []json.RawMessage `json:"credentials,omitempty" caddy:"namespace=agents.credentials inline_key=in"`

	// How the servers are called.
	remote.HostOptions

	// Files with the certificates, in PEM form, of the authorities that the servers' certificates
	// may be from. Placeholders such as {env.NAME} are replaced. Default: the authorities of the
	// system.
	TrustedCA []string `json:"trusted_ca,omitempty"`

	// How long a call of an agent may take. Default: 5m.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

// newRemoteClient returns a client for the configured servers.
func newRemoteClient(ctx caddy.Context, configured []*RemoteServers, logger *zap.Logger) (*remote.Client, error) {
	options := remote.Options{Report: func(reference string, err error) {
		logger.Warn("calling an agent of another server failed", zap.String("agent", reference), zap.Error(err))
	}}
	for _, s := range configured {
		hosts, err := s.hosts(ctx, logger)
		if err != nil {
			return nil, fmt.Errorf("remote_agents: %w", err)
		}
		options.Hosts = append(options.Hosts, hosts...)
	}
	client, err := remote.New(options)
	if err != nil {
		return nil, fmt.Errorf("remote_agents: %w", err)
	}
	return client, nil
}

func (s *RemoteServers) hosts(ctx caddy.Context, logger *zap.Logger) ([]remote.Host, error) {
	if s == nil || len(s.Hosts) == 0 {
		return nil, errors.New("no hosts: name the servers whose agents may be called")
	}
	if err := directive.NotNegative("timeout", int64(s.Timeout)); err != nil {
		return nil, err
	}
	options := s.HostOptions
	options.Timeout = time.Duration(s.Timeout)
	credentials, err := credential.Load(ctx, s.Credentials, logger)
	if err != nil {
		return nil, err
	}
	options.Authorize = credentials.Apply
	if options.Roots, err = readCertificates(s.TrustedCA); err != nil {
		return nil, err
	}
	hosts := make([]remote.Host, len(s.Hosts))
	for i, name := range s.Hosts {
		hosts[i] = remote.Host{Name: name, HostOptions: options}
	}
	return hosts, nil
}

// readCertificates returns the certificates of the files, nil if there are no files.
func readCertificates(files []string) (*x509.CertPool, error) {
	if len(files) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	for _, path := range files {
		path = caddy.NewReplacer().ReplaceAll(path, "")
		pem, err := buffer.ReadFile(path, maxCertificates)
		if err != nil {
			return nil, fmt.Errorf("trusted_ca: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("trusted_ca: %s has no certificate in PEM form", path)
		}
	}
	return pool, nil
}

// unmarshalRemote parses the subdirective remote_agents at the current token. Syntax:
//
//	remote_agents <hosts...> {
//		header_up  <header> <value>
//		credential header | query <name> <value>
//		credential basic <user> <password>
//		forward_caller
//		allow_private_addresses
//		trusted_ca <files...>
//		timeout    <duration>
//	}
//
// where header_up, which is credential header, credential and trusted_ca may be repeated.
func unmarshalRemote(outer *directive.Block) (*RemoteServers, error) {
	s := &RemoteServers{Hosts: outer.RemainingArgs()}
	if len(s.Hosts) == 0 {
		return nil, outer.Err("remote_agents needs the servers whose agents may be called, as in: remote_agents agents.example.com")
	}
	for _, host := range s.Hosts {
		if _, err := remote.NormalizeHost(host); err != nil {
			return nil, outer.WrapErr(err)
		}
	}
	b := directive.NewBlock(outer.Dispenser)
	return s, b.Read("remote_agents", directive.Options{
		"header_up":               func() error { return credential.ReadHeader(b, "header_up", &s.Credentials) },
		"credential":              func() error { return credential.Read(b, &s.Credentials) },
		"forward_caller":          directive.To(b.Flag, &s.ForwardCaller),
		"allow_private_addresses": directive.To(b.Flag, &s.AllowPrivateAddresses),
		"trusted_ca":              directive.To(b.List, &s.TrustedCA),
		"timeout":                 directive.To(b.Period, &s.Timeout),
	})
}

// definitionTime is how long a run waits for the definition of an agent of another server.
const definitionTime = 2 * time.Second

// describeRemote describes an agent of another server as a tool. Its effects are not known, so a call
// is not repeated.
func (h agentTools) describeRemote(reference oagent.Reference) run.Tool {
	ctx, cancel := context.WithTimeout(h.running, definitionTime)
	defer cancel()
	description := "An agent of another server. Its description is not available at the moment."
	if d, err := h.options.Remote.Description(ctx, reference); err == nil {
		description = d
	}
	return run.Tool{
		Tool:  model.Tool{Name: reference.Name, Description: description, Schema: jsontext.Value(agentSchema)},
		Agent: true,
	}
}

// callRemote calls an agent of another server, under the control of the Guard.
func (h agentTools) callRemote(ctx context.Context, set *agentset.Set, i *run.Invocation, c *capability, o *origin, s *session) run.Result {
	g, err := h.options.Handler.OpenGuard(ctx)
	if err != nil {
		return failed(err)
	}
	identity := o.identity(c.Capability, i.User.ID != "")
	call := &remote.Call{Reference: c.Reference, Input: strictjson.Text(strictjson.MemberOf(i.Inputs, "input")), Chain: o.Chain}
	switch {
	case call.Input == "":
		return run.Notice("the call was not made: input must be a string that is not empty")
	case c.UserIdentity && !identity.User && identity.Static == "":
		return h.refuseIdentity(ctx, g, i, c)
	case identity.Static != "":
		call.Static = h.options.Handler.StaticIdentity(identity.Static)
	case identity.User && s != nil:
		call.Caller = s.header
	case identity.User && o.Identified && h.options.Remote.ForwardsCaller(c.Reference):
		return needCredentials(i)
	}
	d := new(guard.AgentCall)
	began := time.Now()
	r := run.Guarded(ctx, g, set.Names, i, func(ctx context.Context, own *run.Invocation, _ *oagent.Capability) (jsontext.Value, int, error) {
		ctx, span := calltrace.BeginAgent(ctx, c.Reference.Name)
		call.Started, call.MayAsk = own.Note, own.MayAsk
		call.Kept = func() bool { return continues(context.WithoutCancel(ctx), h.Host, i.Engagement) }
		call.Location, call.Question, _ = strings.Cut(own.Noted, " ")
		if own.Waited != nil {
			call.Answer = own.Waited.Answer
		}
		outputs, status, err := h.options.Remote.Run(ctx, call)
		d.Status = status
		asked, asks := errors.AsType[*remote.AskedError](err)
		switch {
		case asks:
			span.Finish("")
			if err = own.Note(asked.Location + " " + asked.ID); err == nil {
				err = &run.AskError{ID: asked.ID, Question: asked.Text}
			}
		case err != nil:
			d.Note = "the agent did not answer"
			span.Finish(string(tools.Failed))
		case status >= http.StatusBadRequest:
			span.Finish(strconv.Itoa(status))
		default:
			span.Finish("")
		}
		return outputs, status, err
	})
	d.Took, d.Would = time.Since(began), r.Would
	if r.Refusal != nil {
		d.Err = r.Refusal
	}
	if d.Err != nil || d.Note != "" || r.Outputs != nil {
		h.decided(ctx, i, d)
	}
	return r
}

// continues reports whether a run has not ended. It has if its user has canceled it.
func continues(ctx context.Context, h *Host, id string) bool {
	runner, err := h.Runner(ctx)
	if err != nil {
		return false
	}
	st, err := runner.Get(ctx, id)
	return err == nil && !st.Status.IsFinal()
}

// refuseIdentity refuses a call that needs the identity of the user, of an agent that was called
// without one.
func (h agentTools) refuseIdentity(ctx context.Context, g *oagent.Guard, i *run.Invocation, c *capability) run.Result {
	r := &engagement.Refusal{Kind: guard.KindIdentity, Rule: c.Rule() + ".user_identity", Agent: i.Agent.Name, Engagement: i.Engagement, Name: i.Name, Message: "the call of " + i.Name +
		" was not made: it needs the identity of a user, and the agent was called without one; continue without this call"}
	if err := g.Refuse(ctx, i.Binding, r, i.Inputs, ""); err != nil {
		h.report(i.Engagement, err)
	}
	h.decided(ctx, i, &guard.AgentCall{Err: r})
	return run.Result{Refusal: r}
}

// needCredentials returns the result of a call that waits for the user's credentials.
func needCredentials(i *run.Invocation) run.Result {
	return run.Result{Wait: &run.Wait{Kind: run.WaitCredentials, Message: "the call of " + i.Name +
		" needs your credentials, which this server does not store: send any request to this Engagement with them"}}
}
