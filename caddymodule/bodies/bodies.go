// Package bodies bounds the memory of the bodies of requests, and their speed.
package bodies

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/share"
)

const (
	// minBodies and bodiesPart are the default of Section.MaxBodies: that part of the memory limit, but at least minBodies.
	minBodies  = 64 << 20
	bodiesPart = 8

	// FreeBody is the size up to which a body does not count.
	FreeBody = 16 << 10

	// A body must arrive with BodyRate bytes a second, measured from BodyGrace after the reading has begun. So that a client
	// cannot send much and then wait for long, the measurement begins anew after each paceStep bytes of a large body.
	BodyRate  = 1 << 10
	BodyGrace = 10 * time.Second
	paceStep  = 16 << 10
)

// bodyBound returns the bound of the memory of request bodies. Without an option and a memory limit (GOMEMLIMIT, which
// Caddy sets from the cgroup or the system), it is minBodies.
func bodyBound(limit int64) *share.Bound {
	if limit == 0 {
		limit = minBodies
		if memory := debug.SetMemoryLimit(-1); memory != math.MaxInt64 { // a negative limit only reads it
			limit = max(limit, memory/bodiesPart)
		}
	}
	return share.NewBound(share.Options{Name: "request bodies", Limit: limit, Warn: site.WarnUse})
}

func init() {
	site.Register(func() site.Section { return new(Section) })
}

// Section is the part of the app `agents` that bounds the bodies of requests.
type Section struct {
	// The largest total size of the request bodies in memory, in bytes. Above three quarters of it, users and networks have
	// shares of the rest. Bodies of up to 16 KiB do not count. Default: an eighth of the memory limit, at least 64 MiB.
	MaxBodies int64 `json:"max_bodies,omitempty"`

	key   string
	bound *share.Bound
}

// bounds has the bound of each configuration. Successive ones with the same limit share it.
var bounds = caddy.NewUsagePool()

// exportedBound is a share.Bound whose use is exported.
type exportedBound struct {
	*share.Bound
	remove func()
}

// Destruct implements caddy.Destructor.
func (b exportedBound) Destruct() error {
	b.remove()
	return nil
}

// Options implements site.Section.
func (s *Section) Options(b *directive.Block) directive.Options {
	return directive.Options{"max_bodies": directive.To(b.Size, &s.MaxBodies)}
}

// Provision checks the limit.
func (s *Section) Provision(caddy.Context, *site.App) error {
	if err := directive.NotNegative("max_bodies", s.MaxBodies); err != nil {
		return err
	}
	s.key = strconv.FormatInt(s.MaxBodies, 10)
	value, _, err := bounds.LoadOrNew(s.key, func() (caddy.Destructor, error) {
		b := exportedBound{Bound: bodyBound(s.MaxBodies)}
		b.remove = metrics.All.ExportUse(func() []share.Usage { return []share.Usage{b.Usage()} })
		return b, nil
	})
	if err == nil {
		s.bound = value.(exportedBound).Bound
	}
	return err
}

// Usage returns how much of the limit is in use.
func (s *Section) Usage() []share.Usage { return []share.Usage{s.bound.Usage()} }

// Cleanup releases the bound.
func (s *Section) Cleanup() error {
	_, err := bounds.Delete(s.key)
	return err
}

// Bound limits the body of a request that is about to be read as a whole. The body must arrive with a minimum speed, and
// the memory for it counts as the owner's. Otherwise reading fails with an error that respond.BodyFailure knows. If release
// is not nil, it must be called when the body is no longer needed.
func (s *Section) Bound(r *http.Request, owner func(*http.Request) share.Owner) (release func()) {
	if r.ContentLength == 0 || r.Body == nil {
		return nil
	}
	pace, _ := caddyhttp.IdleTimeoutsFromContext(r.Context())
	if pace != nil && pace.Deadline.MinRate == 0 {
		setPace(pace)
	} else {
		pace = nil // the operator has chosen another speed, or none
	}
	if r.ContentLength > 0 && r.ContentLength <= FreeBody {
		return nil
	}
	counted := &countedBody{ReadCloser: r.Body, bound: s.bound, owner: owner(r), declared: r.ContentLength, pace: pace}
	r.Body = counted
	return counted.release
}

// Hold counts n bytes of the body of a tool call as the owner's until ctx ends. The error is a *share.FullError.
func (s *Section) Hold(ctx context.Context, owner share.Owner, n int64) error {
	err := s.bound.Take(owner, n)
	if err == nil {
		context.AfterFunc(ctx, func() { s.bound.Give(owner, n) })
	}
	return err
}

// setPace makes a reader measure the speed from now on.
func setPace(to *caddyhttp.IdleTimeoutReader) {
	to.Deadline = caddyhttp.IdleDeadline{
		Start: time.Now(), Timeout: min(to.Deadline.Timeout, BodyGrace), MinRate: BodyRate, HardDeadline: to.Deadline.HardDeadline,
	}
}

// countedBody counts the memory of a body that its reader keeps.
type countedBody struct {
	io.ReadCloser
	bound                *share.Bound
	owner                share.Owner
	declared             int64 // Content-Length; -1 if unknown
	read, measured, took int64
	pace                 *caddyhttp.IdleTimeoutReader // nil if the speed is not measured
}

// Read takes units before it reads: those of the whole body, or, if its length is unknown, of the room that the reader has
// made for it.
func (b *countedBody) Read(p []byte) (int, error) {
	need := b.declared
	if need < 0 {
		need = b.read + int64(len(p))
	}
	if need > max(b.took, FreeBody) {
		if err := b.bound.Take(b.owner, need-b.took); err != nil {
			return 0, err
		}
		b.took = need
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if b.pace != nil && b.read-b.measured >= paceStep {
		b.measured = b.read
		setPace(b.pace)
	}
	return n, err
}

func (b *countedBody) release() {
	b.bound.Give(b.owner, b.took)
	b.took = 0
}

// Keep implements mcpadapter.KeptBody.
func (b *countedBody) Keep() (release func()) {
	kept := *b
	b.took = 0
	return kept.release
}

// ReadAhead reads up to limit bytes of a body into memory and puts them back, for code that reads the body in a way that
// cannot report the errors of Bound. The error is for Caddy.
func (s *Section) ReadAhead(w http.ResponseWriter, r *http.Request, limit int64, owner func(*http.Request) share.Owner) (release func(), err error) {
	if release = s.Bound(r, owner); release == nil {
		release = func() {}
	}
	if r.ContentLength == 0 || r.Body == nil {
		return release, nil
	}
	body, err := buffer.ReadLimited(io.LimitReader(r.Body, limit), limit)
	if err != nil {
		release()
		status, _ := respond.BodyFailure(err)
		if status != 0 {
			w.Header().Set("Retry-After", respond.BodyRetry)
		}
		return nil, caddyhttp.Error(cmp.Or(status, http.StatusBadRequest), err)
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	return release, nil
}
