package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"time"
)

// pause is what the suite wants between two events.
const pause = 50 * time.Millisecond

// handleStreams serves what answers bit by bit: two operations with server-sent
// events, two with lines of JSON.
func handleStreams(mux *http.ServeMux) {
	mux.HandleFunc("POST /progress", func(w http.ResponseWriter, r *http.Request) {
		s := streamTo(w, r, "text/event-stream")
		for _, progress := range []int{0, 50, 100} {
			s.event("progress", object{"progress": progress, "total": 100, "message": fmt.Sprintf("%d of 100", progress)})
			s.pause()
		}
		s.event("result", "Tool with progress executed.")
	})
	mux.HandleFunc("POST /logging", func(w http.ResponseWriter, r *http.Request) {
		s := streamTo(w, r, "text/event-stream")
		for _, line := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			s.event("log", object{"level": "info", "logger": "conformance", "data": line})
			s.pause()
		}
		s.event("result", "Tool with logging executed.")
	})
	mux.HandleFunc("POST /diagnostics/logging", func(w http.ResponseWriter, r *http.Request) {
		s := streamTo(w, r, "application/x-ndjson")
		s.line(object{"type": "log", "level": "info", "data": "Only who asks for logs reads this."})
		s.line(object{"type": "result", "result": "Logging tool executed."})
	})
	mux.HandleFunc("POST /reconnection", func(w http.ResponseWriter, r *http.Request) {
		s := streamTo(w, r, "application/x-ndjson")
		s.line(object{"type": "progress", "progress": 1, "total": 2})
		s.pause()
		s.pause()
		s.line(object{"type": "result", "result": "Still there."})
	})
}

// A stream is an answer that is sent in pieces.
type stream struct {
	w http.ResponseWriter
	r *http.Request
}

func streamTo(w http.ResponseWriter, r *http.Request, mediaType string) stream {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Cache-Control", "no-store")
	return stream{w, r}
}

// event sends one server-sent event.
func (s stream) event(name string, data any) {
	s.send("event: "+name+"\ndata: ", data, "\n\n")
}

// line sends one line of JSON.
func (s stream) line(data any) {
	s.send("", data, "\n")
}

func (s stream) send(before string, data any, after string) {
	encoded, err := json.Marshal(data)
	if err != nil {
		log.Fatal(err)
	}
	if _, err = fmt.Fprint(s.w, before, string(encoded), after); err == nil {
		err = http.NewResponseController(s.w).Flush()
	}
	if err != nil {
		log.Print(err) // the reader is gone
	}
}

// pause waits, unless the client stopped reading.
func (s stream) pause() {
	select {
	case <-time.After(pause):
	case <-s.r.Context().Done():
	}
}
