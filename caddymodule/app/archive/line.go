package archive

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Types of entries.
const (
	TypeCall          = "call"          // a guarded call; Event is that of the Engagement's record
	TypeReview        = "review"        // a review was requested or decided
	TypeLogin         = "login"         // of a user
	TypeConnection    = "connection"    // a user's account at a third party
	TypeTools         = "tools"         // the lock file approves other tools
	TypeConfiguration = "configuration" // a configuration was started
	TypeArchive       = "archive"       // of the archive itself
)

// Entry is an event of the archive. It contains no inputs, outputs, tokens or secrets.
type Entry struct {
	At    time.Time `json:"at"`
	Type  string    `json:"type"`
	Event string    `json:"event"`

	User       string `json:"user,omitzero"`
	Agent      string `json:"agent,omitzero"`
	Engagement string `json:"engagement,omitzero"`    // key of the Engagement
	ID         string `json:"engagement_id,omitzero"` // of the Engagement, as the client sent it
	Position   int64  `json:"position,omitzero"`      // of the entry in the record of the Engagement, from 1
	Call       int64  `json:"call,omitzero"`          // number of the call in the Engagement, from 1
	Name       string `json:"name,omitzero"`          // the tool or agent that was called
	Status     int    `json:"status,omitzero"`        // HTTP status
	Kind       string `json:"kind,omitzero"`          // why the call was refused
	Rule       string `json:"rule,omitzero"`          // path in the agent's document
	Why        string `json:"why,omitzero"`
	Side       string `json:"side,omitzero"` // of a review: input or output
	Review     string `json:"review,omitzero"`
	Reviewer   string `json:"reviewer,omitzero"`
	Verdict    string `json:"verdict,omitzero"`
	Comment    string `json:"comment,omitzero"`
	DecidedBy  string `json:"decided_by,omitzero"`
	DecidedAs  string `json:"decided_as,omitzero"` // the id or group:NAME by which the user may decide

	Client   string   `json:"client,omitzero"`   // of a login
	Provider string   `json:"provider,omitzero"` // of a connection
	Toolset  string   `json:"toolset,omitzero"`
	Tools    []string `json:"tools,omitzero"`  // names of tools that were approved
	Digest   string   `json:"digest,omitzero"` // SHA-256 of the configuration or the lock file
	Count    int64    `json:"count,omitzero"`  // of dropped entries
}

// pseudonymize replaces names of users by keyed hashes, and removes texts that people have written.
func (e *Entry) pseudonymize(key []byte) {
	for _, name := range []*string{&e.User, &e.DecidedBy, &e.DecidedAs, &e.Reviewer, &e.Engagement, &e.ID} {
		if *name == "" || strings.HasPrefix(*name, "group:") || strings.HasPrefix(*name, "oagent://") {
			continue
		}
		*name = Pseudonym(key, *name)
	}
	e.Why, e.Comment = "", ""
}

// Pseudonym returns the keyed hash that replaces the name of a user.
func Pseudonym(key []byte, name string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(name))
	const size = 16 // bytes
	return "p-" + hex.EncodeToString(mac.Sum(nil)[:size])
}

// link is the end of a chain: the number and the hash of its latest line.
type link struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"` // hexadecimal; "" before the first line
}

// The last member of each line.
const hashMember = `,"hash":"`

// seal appends an entry to dst as the next line of a chain. The hash is that of the line before its member hash:
//
//	{"node":"a-x2f4","seq":7,"prev":"9c0e…","at":…,"hash":"51aa…"}
func (l *link) seal(dst []byte, node string, entry []byte) []byte {
	start := len(dst)
	dst = strictjson.AppendString(append(dst, `{"node":`...), node)
	dst = strconv.AppendInt(append(dst, `,"seq":`...), l.Seq+1, 10)
	dst = append(append(dst, `,"prev":"`...), l.Hash...)
	dst = append(append(dst, `",`...), entry[1:len(entry)-1]...)
	l.Seq, l.Hash = l.Seq+1, hashOf(dst[start:])
	return append(append(append(dst, hashMember...), l.Hash...), "\"}\n"...)
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// line is what the Verifier reads of a line.
type line struct {
	Node string `json:"node"`
	Seq  int64  `json:"seq"`
	Prev string `json:"prev"`
	Hash string `json:"hash"`
}

// parse reads a line and reports whether its hash is right.
func parse(text []byte) (l line, intact bool) {
	if json.Unmarshal(text, &l) != nil || l.Node == "" || l.Seq < 1 {
		return l, false
	}
	at := bytes.LastIndex(text, []byte(hashMember))
	return l, at > 0 && string(text[at:]) == hashMember+l.Hash+`"}` && hashOf(text[:at]) == l.Hash
}
