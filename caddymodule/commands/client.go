package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// maxAdminResponse is the maximum size of a response of the admin endpoint, in bytes.
const maxAdminResponse = 64 << 20

// addressFlag adds the flag --address, the admin endpoint of a running Caddy.
func addressFlag(cmd *cobra.Command) {
	cmd.Flags().String("address", "", "Address of the admin endpoint (default: Caddy's)")
}

// adminFlags adds the flags of commands that print what the admin endpoint of a running Caddy has.
func adminFlags(cmd *cobra.Command) {
	addressFlag(cmd)
	jsonFlag(cmd)
	cmd.DisableFlagsInUseLine = true
}

// Admin reads a JSON response of the admin endpoint of a running Caddy. Sent is the body of the request, nil for a GET.
func Admin(cmd *cobra.Command, path string, query url.Values, sent, received any) error {
	method, body := http.MethodGet, io.Reader(nil)
	if sent != nil {
		encoded, err := json.Marshal(sent)
		if err != nil {
			return err
		}
		method, body = http.MethodPost, bytes.NewReader(encoded)
	}
	response, err := adminRequest(cmd.Context(), cmd.Flag("address").Value.String(), method, path+"?"+query.Encode(), body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAdminResponse)).Decode(received); err != nil {
		return fmt.Errorf("the admin endpoint sent an unexpected response: %w", err)
	}
	return nil
}

// adminRequest sends a request to the admin endpoint. Its error is a sentence for the user.
func adminRequest(ctx context.Context, address, method, uri string, body io.Reader) (*http.Response, error) {
	address, err := caddycmd.DetermineAdminAPIAddress(address, nil, "", "")
	if err != nil {
		return nil, err
	}
	type result struct {
		response *http.Response
		err      error
	}
	ended := make(chan result, 1)
	go func() {
		response, err := caddycmd.AdminAPIRequest(address, method, uri, nil, body) //nolint:bodyclose // the caller closes it
		ended <- result{response, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-ended:
		if r.err == nil {
			return r.response, nil
		}
		if _, problem, refused := strings.Cut(r.err.Error(), "responded with error: "); refused {
			return nil, refusal(problem)
		}
		return nil, fmt.Errorf("the admin endpoint of Caddy at %s cannot be reached: %w; is Caddy running, and is this its address?", address, r.err)
	}
}

// refusal returns the message in an error response of Caddy, such as HTTP 400: {"error":"…"}.
func refusal(problem string) error {
	status, body, _ := strings.Cut(problem, ": ")
	var message struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &message); err == nil && message.Error != "" {
		return errors.New(message.Error)
	}
	return fmt.Errorf("the admin endpoint responded with %s; is it a Caddy with Fairway, of this version?", status)
}
