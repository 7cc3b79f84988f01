package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// lasting is how long the short jobs take: longer than the gateway waits before it makes a task.
const lasting = time.Second

// handleJobs serves what lasts.
func handleJobs(mux *http.ServeMux) {
	mux.HandleFunc("GET /greetings", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "Hello, %s!", r.URL.Query().Get("name"))
	})
	work := new(computations)
	mux.HandleFunc("POST /computations", work.start)
	mux.HandleFunc("GET /computations/{id}", work.report)
	mux.HandleFunc("POST /jobs/failing", slowly(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"title":"Internal Server Error","status":500,"detail":"This job always fails"}`)
	}))
	mux.HandleFunc("POST /jobs/protocol-error", slowly(func(w http.ResponseWriter, _ *http.Request) {
		native(w, object{"error": object{"code": -32603, "message": "this job breaks the protocol"}})
	}))
	mux.HandleFunc("POST /jobs/delete", slowly(rounds(func(c *call) {
		if _, ok := c.responses["confirm"]; !ok {
			c.ask("", object{"confirm": elicitation("Delete the file?", one("confirm", "boolean"), "confirm")})
			return
		}
		c.done("Deleted.")
	})))
	mux.HandleFunc("POST /jobs/multiple", slowly(rounds(func(c *call) {
		if len(c.responses) < 2 {
			c.ask("", object{
				"first":  elicitation("What is the first name?", one("name", "string"), "name"),
				"second": elicitation("What is the second name?", one("name", "string"), "name"),
			})
			return
		}
		c.done("%s and %s", c.responses["first"].form("name"), c.responses["second"].form("name"))
	})))
	mux.HandleFunc("POST /jobs/greeting", rounds(func(c *call) {
		name := c.responses["user_name"].form("name")
		if name == "" {
			c.ask("", object{"user_name": elicitation("What is your name?", one("name", "string"), "name")})
			return
		}
		time.Sleep(lasting)
		c.done("Hello, %s!", name)
	}))
}

// slowly serves a request when a while has passed.
func slowly(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(lasting):
			serve(w, r)
		case <-r.Context().Done():
		}
	}
}

// computations are jobs that a client polls: 202 while they run, and their result after that.
type computations struct {
	mu   sync.Mutex
	ends []time.Time
}

func (c *computations) start(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Seconds float64 `json:"seconds"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if body.Seconds == 0 {
		computed(w)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, time.Now().Add(time.Duration(body.Seconds*float64(time.Second))))
	accepted(w, "/computations/"+strconv.Itoa(len(c.ends)-1))
}

func (c *computations) report(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil || id < 0 || id >= len(c.ends):
		http.NotFound(w, r)
	case time.Now().Before(c.ends[id]):
		accepted(w, r.URL.Path)
	default:
		computed(w)
	}
}

func accepted(w http.ResponseWriter, location string) {
	w.Header().Set("Location", location)
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusAccepted)
}

func computed(w http.ResponseWriter) {
	encode(w, "application/json", object{"computed": true})
}
