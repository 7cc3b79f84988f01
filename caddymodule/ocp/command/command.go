// Package command is the command `caddy ocp`: it encodes, decodes and validates OCP headers, without a running Caddy.
package command

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/commands"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/ocp"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "ocp",
		Usage: "encode|decode|validate",
		Short: "Encodes, decodes and validates Open Context Protocol headers",
		Long: `
Tools for debugging the headers of the Open Context Protocol (OCP 1.0).

The commands read their input from the argument, from --file, or from standard
input, up to 2 MiB. The input of decode and validate is the value of an OCP-Session
header, or headers as curl -v prints them, one per line. validate also accepts the
JSON of a context.
`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.AddCommand(
				ocpCommand("encode [--file <path>] [--strict]", "Prints the headers of a context", `
Reads a context as a JSON object and prints its OCP headers, one per line. Invalid
parts of the context are reported on stderr and omitted. Missing times are set to
now. Detail is removed until the session fits into 8 KiB.

With --strict the command fails if anything is invalid.
`, cobra.NoArgs, encodeOCP),
				ocpCommand("decode [<value>] [--file <path>]", "Prints the content of a session or of headers", `
For a session, prints its JSON unchanged. For headers, prints a JSON object with
the valid headers and the session. Ignored parts are reported on stderr with the
reason. A session over the limit of 8 KiB is decoded too.
`, cobra.MaximumNArgs(1), decodeOCP),
				ocpCommand("validate [<value>] [--file <path>] [--strict]", "Checks whether a session or headers are valid", `
Prints the verdict on a session (conforming, usable or ignored) or on headers, and
the reasons. The command fails if anything would be ignored: the session, a header,
or the whole context because a required header is missing.

--strict follows the context schema where it contradicts the text of the protocol.
`, cobra.MaximumNArgs(1), validateOCP),
			)
			commands.RequireSubcommand(cmd)
		},
	})
}

// maxOCPInput limits the input of the ocp commands, in bytes.
const maxOCPInput = 2 << 20

// ocpCommand returns one of the ocp commands. The command reads its input and passes it to run.
func ocpCommand(usage, short, long string, arguments cobra.PositionalArgs, run func(c *ocpConsole, input []byte) error) *cobra.Command {
	cmd := &cobra.Command{Use: usage, Short: short, Long: long, Args: arguments, DisableFlagsInUseLine: true}
	cmd.Flags().String("file", "", "File to read")
	if strings.Contains(usage, "--strict") {
		cmd.Flags().Bool("strict", false, "Follow the context schema exactly")
	}
	cmd.RunE = commands.RunE(func(flags caddycmd.Flags) error {
		input, err := readOCPInput(cmd, flags)
		if err != nil {
			return err
		}
		console := &ocpConsole{out: cmd.OutOrStdout(), messages: cmd.ErrOrStderr()}
		console.strict, _ = flags.GetBool("strict")
		return run(console, input)
	})
	return cmd
}

// ocpConsole has the outputs and flags of an ocp command.
type ocpConsole struct {
	out, messages io.Writer
	strict        bool
}

// note prints a remark that is not part of the result.
func (c *ocpConsole) note(format string, arguments ...any) {
	fmt.Fprintf(c.messages, format+"\n", arguments...)
}

// readOCPInput reads the input from the file, the argument or standard input.
func readOCPInput(cmd *cobra.Command, flags caddycmd.Flags) ([]byte, error) {
	path, argument := flags.String("file"), flags.Arg(0)
	switch {
	case path != "" && argument != "":
		return nil, errors.New("a value and --file are both given; remove one")
	case argument != "" && argument != "-":
		return []byte(argument), nil
	case path == "":
		return readBounded("stdin", cmd.InOrStdin())
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readBounded(path, file)
}

// readBounded reads at most maxOCPInput bytes.
func readBounded(name string, source io.Reader) ([]byte, error) {
	var content buffer.Buffer
	err := content.ReadAll(source, maxOCPInput)
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, fmt.Errorf("%s has more than %d bytes; an OCP-Session header has at most %d", name, maxOCPInput, ocp.MaxSession)
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", name, err)
	case len(bytes.TrimSpace(content.B)) == 0:
		return nil, fmt.Errorf("%s is empty", name)
	}
	return content.B, nil
}

// encodeOCP prints the OCP headers of a context.
func encodeOCP(c *ocpConsole, input []byte) error {
	session, err := sessionFromJSON(input, c.strict)
	if err != nil {
		return err
	}
	shared, judgement := session.Context()
	if shared == nil {
		return fmt.Errorf("the context cannot be encoded: %w", joinFaults(judgement.Faults))
	}
	context := shared.Clone()
	now := time.Now()
	for _, fault := range judgement.Faults {
		c.note("%s", fault.Error())
	}
	if context.CreatedAt.IsZero() {
		c.note("created_at is set to now")
		context.CreatedAt = now
	}
	if context.LastUpdated.IsZero() {
		c.note("last_updated is set to now")
		context.LastUpdated = now
	}
	header := make(http.Header)
	if err := context.SetHeaders(header); err != nil {
		return fmt.Errorf("the context cannot be encoded: %w", err)
	}
	if _, step := context.FitSession(ocp.MaxSession); step > 0 {
		c.note("the session was longer than %d bytes; detail was removed to make it fit (step %d of 8)", ocp.MaxSession, step)
	}
	for _, key := range ocpHeaders {
		if value := header[key]; len(value) > 0 {
			fmt.Fprintf(c.out, "%s: %s\n", ocp.HeaderName(key), value[0])
		}
	}
	return nil
}

// ocpHeaders are the OCP headers in the order in which they are printed.
var ocpHeaders = []string{
	ocp.HeaderContextID, ocp.HeaderAgentType, ocp.HeaderCurrentGoal, ocp.HeaderUser,
	ocp.HeaderWorkspace, ocp.HeaderVersion, ocp.HeaderSession,
}

// sessionFromJSON creates a session from the JSON of a context of any length.
func sessionFromJSON(context []byte, strict bool) (*ocp.Session, error) {
	encoded := base64.StdEncoding.EncodeToString(bytes.TrimSpace(context))
	session, err := ocp.NewSession(encoded, ocp.ReadOptions{Strict: strict, MaxSession: len(encoded)})
	if err != nil {
		var fault ocp.Fault
		if errors.As(err, &fault) && (fault.Reason == ocp.ReasonJSON || fault.Reason == ocp.ReasonObject) {
			return nil, errors.New("the input is not a context; it must be a JSON object")
		}
		return nil, err
	}
	return session, nil
}

// decodeOCP prints the content of a session or of headers.
func decodeOCP(c *ocpConsole, input []byte) error {
	header, isDump, err := parseHeaders(input)
	if err != nil {
		return err
	}
	long := ocp.ReadOptions{MaxSession: maxOCPInput}
	if !isDump {
		value := string(bytes.TrimSpace(input))
		c.noteLength(value)
		session, err := ocp.NewSession(value, long)
		if err != nil {
			return err
		}
		content, err := session.JSON()
		if content == nil {
			return err
		}
		if err != nil {
			c.note("ignored: %s", err)
		}
		return c.print(content)
	}
	in := ocp.ReadHeaders(header, long)
	for _, fault := range in.Faults {
		c.note("ignored: %s", fault.Error())
	}
	var content jsontext.Value
	if in.Session != nil {
		c.noteLength(in.Session.Encoded())
		if content, err = in.Session.JSON(); err != nil {
			c.note("ignored: %s", err)
		}
	}
	return c.print(headersJSON(header, &in, content))
}

// noteLength prints a remark if the session is longer than a header allows.
func (c *ocpConsole) noteLength(session string) {
	if len(session) > ocp.MaxSession {
		c.note("the session has %d bytes; an API ignores sessions of more than %d", len(session), ocp.MaxSession)
	}
}

// headersJSON returns the valid headers and the session as JSON.
func headersJSON(header http.Header, in *ocp.Headers, session jsontext.Value) jsontext.Value {
	text := []byte(`{"headers":{`)
	for _, key := range ocpHeaders {
		name := ocp.HeaderName(key)
		ignored := slices.ContainsFunc(in.Faults, func(f ocp.Fault) bool { return f.Field == name })
		if len(header[key]) == 0 || ignored || key == ocp.HeaderSession {
			continue
		}
		if text[len(text)-1] != '{' {
			text = append(text, ',')
		}
		text = append(strictjson.AppendString(text, name), ':')
		text = strictjson.AppendString(text, strings.TrimSpace(header[key][0]))
	}
	text = append(text, '}')
	if session != nil {
		text = append(append(text, `,"session":`...), session...)
	}
	return append(text, '}')
}

// print prints indented JSON.
func (c *ocpConsole) print(value jsontext.Value) error {
	value = value.Clone()
	if err := value.Indent(jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("the session is not JSON: %w", err)
	}
	_, err := fmt.Fprintf(c.out, "%s\n", value)
	return err
}

// validateOCP reports whether a session, a context or headers are valid.
func validateOCP(c *ocpConsole, input []byte) error {
	if text := bytes.TrimSpace(input); text[0] == '{' {
		session, err := sessionFromJSON(text, c.strict)
		if err != nil {
			return err
		}
		_, judgement := session.Context()
		if missing := missingRequired(judgement); len(missing) > 0 && judgement.Verdict != ocp.Ignored {
			return c.reject("context", missing, judgement)
		}
		return c.printVerdict("context", judgement)
	}
	header, isDump, err := parseHeaders(input)
	if err != nil {
		return err
	}
	if !isDump {
		header = http.Header{ocp.HeaderSession: {string(bytes.TrimSpace(input))}}
		return c.printVerdict("session", ocp.ReadIncoming(header, ocp.ReadOptions{Strict: c.strict}).Judge())
	}
	in := ocp.ReadIncoming(header, ocp.ReadOptions{Strict: c.strict})
	if in == nil {
		return errors.New("the input has no OCP header")
	}
	return c.printHeaderVerdicts(header, in)
}

// missingRequired returns the missing members of a context that the required headers
// OCP-Context-ID and OCP-Agent-Type are built from.
func missingRequired(judgement ocp.Judgement) (missing []string) {
	for _, fault := range judgement.Faults {
		if fault.Reason == ocp.ReasonMissing && (fault.Field == "context_id" || fault.Field == "agent_type") {
			missing = append(missing, fault.Field)
		}
	}
	return missing
}

// reject prints that a context cannot be sent because required members are missing.
func (c *ocpConsole) reject(what string, missing []string, judgement ocp.Judgement) error {
	fmt.Fprintf(c.out, "%s: %s\n", what, ocp.Ignored)
	for _, fault := range judgement.Faults {
		fmt.Fprintf(c.out, "  %s\n", fault.Error())
	}
	return fmt.Errorf("the %s would be ignored: %s must be set, because the required headers OCP-Context-ID and OCP-Agent-Type need them",
		what, strings.Join(missing, " and "))
}

// printVerdict prints a judgement and returns an error if the message would be ignored.
func (c *ocpConsole) printVerdict(what string, judgement ocp.Judgement) error {
	fmt.Fprintf(c.out, "%s: %s\n", what, judgement.Verdict)
	for _, fault := range judgement.Faults {
		fmt.Fprintf(c.out, "  %s\n", fault.Error())
	}
	if judgement.Verdict == ocp.Ignored {
		return fmt.Errorf("the %s would be ignored", what)
	}
	return nil
}

// printHeaderVerdicts prints the judgement about headers.
func (c *ocpConsole) printHeaderVerdicts(header http.Header, in *ocp.Incoming) error {
	judgement := in.Judge()
	ignored := len(in.Faults) > 0
	for _, key := range ocpHeaders {
		name := ocp.HeaderName(key)
		at := slices.IndexFunc(in.Faults, func(f ocp.Fault) bool { return f.Field == name })
		switch {
		case at >= 0:
			fmt.Fprintf(c.out, "%s: ignored\n  %s\n", name, in.Faults[at].Error())
		case key == ocp.HeaderSession && judgement.Verdict != "":
			ignored = c.printVerdict(name, judgement) != nil || ignored
		case len(header[key]) > 0:
			fmt.Fprintf(c.out, "%s: valid\n", name)
		case key == ocp.HeaderContextID || key == ocp.HeaderAgentType:
			fmt.Fprintf(c.out, "%s: missing\n", name)
		}
	}
	switch {
	case !in.Valid():
		return errors.New("there is no valid context: OCP-Context-ID and OCP-Agent-Type must both be valid")
	case ignored:
		return errors.New("some headers would be ignored")
	}
	return nil
}

// parseHeaders reads headers as tools such as curl print them: one per line, possibly after ">
// " or "< ". Other lines are skipped. IsDump reports whether there is an OCP header. Otherwise
// the input may be the value of one.
func parseHeaders(input []byte) (header http.Header, isDump bool, err error) {
	header = make(http.Header)
	lines := bufio.NewScanner(bytes.NewReader(input))
	lines.Buffer(nil, maxOCPInput+1)
	for lines.Scan() {
		line := strings.TrimLeft(lines.Text(), " \t<>*")
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.ContainsAny(name, " \t") {
			continue
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		header[key] = append(header[key], strings.TrimSpace(value))
		isDump = isDump || slices.Contains(ocpHeaders, key)
	}
	if err := lines.Err(); err != nil {
		return nil, false, err
	}
	if !isDump && bytes.ContainsRune(bytes.TrimSpace(input), '\n') {
		return nil, false, errors.New("the input is neither an OCP-Session value on one line nor headers with a name that begins with OCP-")
	}
	return header, isDump, nil
}

// joinFaults returns one error for all faults.
func joinFaults(faults []ocp.Fault) error {
	texts := make([]string, 0, len(faults))
	for _, fault := range faults {
		texts = append(texts, fault.Error())
	}
	return errors.New(strings.Join(texts, "; "))
}
