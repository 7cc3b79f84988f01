package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/adminapi"
	"github.com/fairwayhq/fairway/caddymodule/site"
)

func init() { adminapi.Register("agents_events", adminapi.Get("/agents/events", listEvents)) }

// listEvents returns the events of a source, without their bodies: GET /agents/events?source=shop&name=paid.
func listEvents(r *http.Request) (any, error) {
	agents, err := adminapi.Running[*app.App]()
	if err != nil {
		return nil, err
	}
	log, ok, err := site.Find[interface {
		Overview(ctx context.Context, at *site.Site, query url.Values, show func([]byte) jsontext.Value) (any, error)
	}](agents.Site)
	var found any
	if err == nil && ok {
		found, err = log.Overview(r.Context(), nil, r.URL.Query(), func([]byte) jsontext.Value { return nil })
	}
	if err == nil && found == nil {
		err = adminapi.Error(http.StatusNotFound, "there is no such source of events")
	}
	return found, err
}

// EventsCommand returns the command `caddy agents events`.
func EventsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events [--source <toolset>] [--name <name>] [--refused] [--json]",
		Short: "Lists the events that agent_events has received or refused",
		Long: `
Prints the newest 100 events that the API of a toolset has sent to a running Caddy, each
on one line: time, name, size in bytes, id. --refused prints why this node has refused
requests, since it has loaded the configuration: time of the latest one, reason, number.
In a pipe, or with --json, each is a JSON object on one line.
`,
		Example: "  caddy agents events --source shop --name invoice.",
		Args:    cobra.NoArgs,
	}
	adminFlags(cmd)
	cmd.Flags().String("source", "", "The toolset (default: the first one that has events)")
	cmd.Flags().String("name", "", "Only events whose name begins with this")
	cmd.Flags().Bool("refused", false, "Print refused requests")
	cmd.RunE = RunE(func(flags caddycmd.Flags) error {
		var page struct{ Events, Refused []json.RawMessage }
		if err := Admin(cmd, "/agents/events", url.Values{"source": {flags.String("source")}, "name": {flags.String("name")}}, nil, &page); err != nil {
			return err
		}
		if flags.Bool("refused") {
			page.Events = page.Refused
		}
		if len(page.Events) == 0 {
			cmd.PrintErrln("There are none.")
		}
		t := NewTerminal(cmd)
		return printLines(t, "event", page.Events, t.eventLine)
	})
	return cmd
}

// receivedEvent is an event, or the requests that were refused for a reason.
type receivedEvent struct {
	Received, Latest time.Time
	Name, Reason, ID string
	Size, Count      int64
}

// eventLine returns an event as one line.
func (t Terminal) eventLine(e *receivedEvent) string {
	at := cmp.Or(e.Received, e.Latest).Local()
	return t.Line(cell{Text: at.Format(timeLayout(at, time.Now())), Width: len(dateAndTime)}, cell{Text: e.Name + e.Reason, Width: idWidth},
		cell{Text: strconv.FormatInt(e.Size+e.Count, 10), Width: durationWidth, Right: true}, cell{Text: e.ID})
}
