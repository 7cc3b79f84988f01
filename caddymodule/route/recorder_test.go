package route

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/respond"
)

func testRecorder(method string, limit int64) (*Recorder, context.Context) {
	ctx, cancel := context.WithCancelCause(context.Background())
	return NewRecorder(method, limit, cancel), ctx
}

func TestRecorder(t *testing.T) {
	t.Run("the first final status counts", func(t *testing.T) {
		rec, _ := testRecorder("GET", 10)
		rec.WriteHeader(http.StatusEarlyHints)
		rec.WriteHeader(http.StatusCreated)
		rec.WriteHeader(http.StatusTeapot)
		if rec.Status != http.StatusCreated {
			t.Errorf("got %d", rec.Status)
		}
	})
	t.Run("writing implies 200", func(t *testing.T) {
		rec, _ := testRecorder("GET", 10)
		if _, err := rec.Write([]byte("x")); err != nil || rec.Status != 200 {
			t.Errorf("got %d, %v", rec.Status, err)
		}
	})
	t.Run("as much as the limit", func(t *testing.T) {
		rec, ctx := testRecorder("GET", 10)
		_, err := rec.ReadFrom(strings.NewReader("0123456789"))
		if err != nil || ctx.Err() != nil || string(rec.TakeBody().B) != "0123456789" {
			t.Errorf("got %v", err)
		}
	})
	for name, write := range map[string]func(rec *Recorder) error{
		"Write":       func(rec *Recorder) error { _, err := rec.Write([]byte("0123456789x")); return err },
		"WriteString": func(rec *Recorder) error { _, err := io.WriteString(rec, "0123456789x"); return err },
		"ReadFrom":    func(rec *Recorder) error { _, err := rec.ReadFrom(strings.NewReader("0123456789x")); return err },
		"Content-Length": func(rec *Recorder) error {
			rec.Header().Set("Content-Length", "11")
			_, err := rec.Write([]byte("0"))
			return err
		},
	} {
		t.Run("over the limit/"+name, func(t *testing.T) {
			rec, ctx := testRecorder("GET", 10)
			if err := write(rec); !errors.Is(err, errResponseTooLarge) {
				t.Errorf("got %v", err)
			}
			if !rec.TooLarge || rec.Body != nil || !errors.Is(context.Cause(ctx), errResponseTooLarge) {
				t.Error("the call goes on")
			}
			if _, err := rec.Write([]byte("x")); !errors.Is(err, errResponseTooLarge) {
				t.Errorf("writing on: %v", err)
			}
		})
	}
	for name, method := range map[string]string{"HEAD": "HEAD", "204": "GET"} {
		t.Run("no body/"+name, func(t *testing.T) {
			rec, ctx := testRecorder(method, 10)
			rec.Header().Set("Content-Length", "1000000")
			if name == "204" {
				rec.WriteHeader(http.StatusNoContent)
			}
			if n, err := io.Copy(rec, strings.NewReader(strings.Repeat("x", 100))); err != nil || n != 100 {
				t.Errorf("%d, %v", n, err)
			}
			if len(rec.Body.B) != 0 || ctx.Err() != nil {
				t.Error("a body was recorded")
			}
		})
	}
	t.Run("a late write changes nothing", func(t *testing.T) {
		rec, _ := testRecorder("GET", 10)
		_, _ = rec.Write([]byte("x"))
		body := rec.TakeBody()
		if _, err := rec.Write([]byte("y")); !errors.Is(err, respond.ErrEnded) {
			t.Errorf("got %v", err)
		}
		if string(body.B) != "x" {
			t.Errorf("got %q", body.B)
		}
	})
	t.Run("no way to the connection", func(t *testing.T) {
		rec, _ := testRecorder("GET", 10)
		control := http.NewResponseController(rec)
		if err := control.Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
		if _, _, err := control.Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("hijack: %v", err)
		}
	})
}
