// Command upstream is the REST API of ../openapi.yaml, against which the MCP
// conformance suite is run through a gateway. It knows HTTP and, in a few places,
// the results of MCP that an API may answer with; it keeps nothing between
// requests.
//
// plain.go has what any API answers with: text, images, sounds, errors. What
// streams is in stream.go, what asks the client back in ask.go, what lasts in
// jobs.go, and change.go rewrites the files that the gateway watches, so that lists change.
//
//	go run ./testdata/conformance/upstream -listen 127.0.0.1:8081 -openapi openapi.yaml -prompts prompts.yaml
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"time"
)

// readTimeout is how long a client may take to send the head of a request.
const readTimeout = 10 * time.Second

func main() {
	listen := flag.String("listen", "127.0.0.1:8081", "`address` to serve at")
	document := flag.String("openapi", "", "OpenAPI `file` to change on demand")
	prompts := flag.String("prompts", "", "`file` of prompts to change on demand")
	flag.Parse()

	mux := http.NewServeMux()
	handlePlain(mux)
	handleStreams(mux)
	handleAsks(mux)
	handleJobs(mux)
	if err := handleChanges(mux, *document, *prompts); err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: *listen, Handler: mux, ReadHeaderTimeout: readTimeout}
	log.Fatal(server.ListenAndServe())
}

// object is a JSON object that is written out by hand.
type object map[string]any

// text is a content block.
func text(s string) object {
	return object{"type": "text", "text": s}
}

// native answers with a result of MCP.
func native(w http.ResponseWriter, result object) {
	encode(w, "application/vnd.mcp.result+json", result)
}

// encode answers with JSON of a media type.
func encode(w http.ResponseWriter, mediaType string, value object) {
	w.Header().Set("Content-Type", mediaType)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		log.Print(err)
	}
}

// content answers with a tool result of these blocks.
func content(w http.ResponseWriter, blocks ...object) {
	native(w, object{"content": blocks})
}
