package files

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/tools/request"
)

//go:embed form.html
var form []byte

const (
	maxForm     = 64 << 10 // bytes of a form beside its file
	octetStream = "application/octet-stream"
)

// Serve serves the URL with that secret. The file is that which was uploaded, or nil. The error is one of the store.
func (s *Store) Serve(w http.ResponseWriter, r *http.Request, secret string) (handle string, f *File, err error) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	key := keyOf(secret)
	f, err = s.serve(w, r, key)
	status, message := respond.BodyFailure(err)
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		status, message = refusal.Status, refusal.Message
	}
	switch {
	case err == nil:
		return path.Base(key), f, nil
	case status == 0 && r.Context().Err() != nil: // the client has disconnected
		return "", nil, nil //nolint:nilerr // the response reaches no client
	case status == 0:
		respond.WriteProblem(w, http.StatusServiceUnavailable, "No file", "the gateway cannot store or read the file; the reason is in its log")
		return "", nil, err
	}
	respond.WriteProblem(w, status, "No file", message)
	return "", nil, nil //nolint:nilerr // the client gets the refusal
}

func (s *Store) serve(w http.ResponseWriter, r *http.Request, key string) (*File, error) {
	to, err := s.load(r.Context(), key)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case err != nil:
		return nil, err
	case time.Now().Unix() >= to.Until || to.State != issued && to.State != linked:
		return nil, errGone
	case reads && to.State == issued:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(form)
		return nil, nil
	case reads:
		w.Header().Set("Content-Type", to.Type)
		w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": to.Name}))
		w.Header().Set("Content-Length", strconv.FormatInt(to.Size, 10))
		if r.Method == http.MethodGet && s.copy(r.Context(), w, key) != nil {
			panic(http.ErrAbortHandler) // the client sees that the body is not complete
		}
		return nil, nil
	case r.Method != http.MethodPut && r.Method != http.MethodPost || to.State == linked:
		return nil, &Refusal{http.StatusMethodNotAllowed, "upload a file with PUT, POST or a form"}
	}
	f, end, err := open(r, to)
	if err == nil {
		err = to.Check(f)
	}
	if err == nil && to.Size > 0 && f.Size > 0 && f.Size != to.Size {
		err = errSize
	}
	if err == nil {
		f, err = s.receive(r.Context(), key, f, r.Body, end, complete)
	}
	if err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "The file was uploaded. Go on in the conversation.\n")
	return &f, nil
}

// copy writes a content in chunks, so that requests for large files need little memory. It does not check the hash, which the client has.
func (s *Store) copy(ctx context.Context, to io.Writer, key string) error {
	st, err := s.Open(ctx)
	for from := int64(0); err == nil; from++ {
		var chunk [][]byte
		if chunk, err = st.Read(ctx, key, from, 1); len(chunk) == 0 {
			break
		}
		_, err = to.Write(chunk[0])
	}
	return err
}

// open returns what the headers of a request say of its file, and makes its body the content. End reads what comes after that.
func open(r *http.Request, to *record) (f File, end func() error, err error) {
	f, end = File{Name: to.Name, Size: max(r.ContentLength, 0)}, func() error { return nil }
	contentType := r.Header.Get("Content-Type")
	if httpheader.MediaType(contentType) == "multipart/form-data" {
		if err := to.Check(File{Size: f.Size - maxForm}); err != nil {
			return f, end, err
		}
		parts, err := r.MultipartReader()
		if err != nil {
			return f, end, badBody(err)
		}
		part, err := parts.NextPart()
		if err != nil || part.FileName() == "" {
			return f, end, badBody(err)
		}
		r.Body, f.Size, f.Name, contentType = part, 0, part.FileName(), part.Header.Get("Content-Type")
		end = func() error {
			if _, err := parts.NextPart(); !errors.Is(err, io.EOF) {
				return badBody(err)
			}
			return nil
		}
	}
	f.Name, f.Type = request.CleanFilename(f.Name), httpheader.MediaType(contentType)
	if f.Type == "" || f.Type == octetStream || f.Type == "application/x-www-form-urlencoded" { // what curl sends for any file
		f.Type = cmp.Or(to.Type, to.onlyType(), httpheader.MediaType(mime.TypeByExtension(path.Ext(f.Name))), octetStream)
	}
	if max(len(f.Name), len(f.Type)) > request.MaxFilename {
		err = &Refusal{http.StatusBadRequest, "the name or the type of the file is too long"}
	}
	return f, end, err
}

// badBody returns the refusal of a body, or the error if respond.BodyFailure knows it.
func badBody(err error) error {
	if status, _ := respond.BodyFailure(err); status != 0 {
		return err
	}
	return errBody
}

// isBroken reports whether a body ended early, so that its sender may send it again.
func isBroken(err error) bool {
	status, _ := respond.BodyFailure(err)
	return status != 0 || errors.Is(err, errBody) || errors.Is(err, context.Canceled)
}
