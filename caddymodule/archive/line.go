package archive

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// pseudonymize replaces names of users by keyed hashes, and removes texts that people have written.
func pseudonymize(e *audit.Entry, key []byte) {
	for _, name := range []*string{&e.User, &e.DecidedBy, &e.DecidedAs, &e.Reviewer, &e.Engagement, &e.ID} {
		if *name == "" || strings.HasPrefix(*name, "group:") || strings.HasPrefix(*name, "oagent://") {
			continue
		}
		*name = pseudonym(key, *name)
	}
	e.Why, e.Would.Why, e.Comment = "", "", ""
}

// pseudonym returns the keyed hash that replaces the name of a user.
func pseudonym(key []byte, name string) string {
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
