package ocp

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/testkit"
)

// clientVectors is what the known clients send, and make of what they are sent.
type clientVectors struct {
	Session []struct {
		Name, Client string
		Compress     bool
		JSON         string
		Headers      map[string]string
	}
	Decode []struct {
		Name    string
		Session string `json:"ocp_session"`
		JS      *string
		Python  *string `json:"python311"`
	}
}

func readVectors(t testing.TB) (v clientVectors) {
	t.Helper()
	if err := json.Unmarshal(testkit.ReadDocument(t, "vectors/ocp-clients.json"), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestVectors_clients_to_us: what clients sent is read as they meant it.
func TestVectors_clients_to_us(t *testing.T) {
	for _, v := range readVectors(t).Session {
		t.Run(v.Client+"/"+v.Name, func(t *testing.T) {
			in := ReadIncoming(headerOf(v.Headers), ReadOptions{Strict: true})
			if len(in.Faults) > 0 {
				t.Fatal(in.Faults)
			}
			text, err := in.Session.JSON()
			if err != nil || string(text) != v.JSON {
				t.Fatalf("got %s, %v; want %s", text, err, v.JSON)
			}
			if judgement := in.Judge(); judgement.Verdict != Conforming {
				t.Errorf("not conforming: %v", judgement)
			}
			if got := in.Context().ContextID; got != v.Headers["OCP-Context-ID"] {
				t.Errorf("context_id %s", got)
			}
			// and again as this client would send it
			session, err := in.Context().EncodeSession()
			if err != nil {
				t.Fatal(err)
			}
			if again := readSession(t, session); again.judgement.Verdict != Conforming || !reflect.DeepEqual(again.context, in.Context()) {
				t.Errorf("written again it is %+v", again)
			}
		})
	}
}

// TestVectors_us_to_clients: what each client reads, we read; what one of them
// does not read or breaks on, we never write.
func TestVectors_us_to_clients(t *testing.T) {
	want := map[string]struct {
		verdict Verdict
		reason  Reason
	}{
		"spec minimal plain":                   {Conforming, ""},
		"gzip no prefix (magic 1f8b)":          {Conforming, ""},
		"unpadded base64":                      {Conforming, ""},
		"invalid base64 (invalid-base64-data)": {Ignored, ReasonJSON},
		"json null":                            {Ignored, ReasonObject},
		"json string":                          {Ignored, ReasonObject},
		"missing created_at":                   {Usable, ReasonMissing},
		"bad timestamp":                        {Ignored, ReasonTimestamp},
		"null recent_changes":                  {Usable, ReasonType},
	}
	vectors := readVectors(t).Decode
	if len(vectors) != len(want) {
		t.Errorf("%d vectors, %d expectations", len(vectors), len(want))
	}
	for _, v := range vectors {
		in := ReadIncoming(headerOf(map[string]string{
			"OCP-Context-ID": "ocp-a1b2c3d4", "OCP-Agent-Type": "cli_tool", "OCP-Session": v.Session,
		}), ReadOptions{})
		judgement := in.Judge()
		var reason Reason
		if len(judgement.Faults) > 0 {
			reason = judgement.Faults[0].Reason
		}
		if w := want[v.Name]; judgement.Verdict != w.verdict || reason != w.reason {
			t.Errorf("%s: got %v, want %v", v.Name, judgement, w)
		}
		if in.Context() == nil {
			t.Errorf("%s: the headers alone do not count", v.Name)
		}
		written, err := in.Context().EncodeSession()
		if err != nil {
			t.Fatal(err)
		}
		if again := readSession(t, written); again.judgement.Verdict == Ignored {
			t.Errorf("%s: written again it is %v", v.Name, again.judgement)
		}
	}
}

func TestSessionForms(t *testing.T) {
	url := strings.NewReplacer("+", "-", "/", "_")
	text := strings.Replace(minimal, "{", `{"context_summary":"??>>~~ÿ","user":"ü",`, 1)
	plain, zipped := encoded(text), encodedBytes(zip(text))
	for name, form := range map[string]string{
		"plain":                    plain,
		"plain unpadded":           strings.TrimRight(plain, "="),
		"plain URL-safe":           url.Replace(plain),
		"plain URL-safe, unpadded": url.Replace(strings.TrimRight(plain, "=")),
		"gzip:":                    "gzip:" + zipped,
		"gzip: unpadded":           "gzip:" + strings.TrimRight(zipped, "="),
		"gzip: URL-safe":           "gzip:" + url.Replace(zipped),
		"bare gzip":                zipped,
		"bare gzip URL-safe":       url.Replace(strings.TrimRight(zipped, "=")),
		"space around the JSON":    encoded("\r\n " + text + "\n"),
	} {
		s, err := NewSession(form, ReadOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := s.JSON()
		if err != nil || string(got) != text {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
		if s.Encoded() != form {
			t.Errorf("%s: the form changed", name)
		}
	}
}

func TestSessionFaults(t *testing.T) {
	good := zip(minimal)
	cut := func(n int) []byte { return good[:len(good)-n] }
	flipped := bytes.Clone(good)
	flipped[len(flipped)-8] ^= 1 // of the CRC
	lying := bytes.Clone(good)
	binary.LittleEndian.PutUint32(lying[len(lying)-4:], uint32(len(minimal)-1))
	boasting := bytes.Clone(good)
	binary.LittleEndian.PutUint32(boasting[len(boasting)-4:], 1<<31)
	for _, test := range []struct {
		name, session string
		want          Reason
	}{
		{"not base64 further on", encoded(minimal)[:40] + "!!!!", ReasonBase64},
		{"two alphabets", "eyJ-" + "+" + encoded(minimal)[8:], ReasonBase64},
		{"line break", encoded(minimal)[:40] + "\r\n" + encoded(minimal)[40:], ReasonBase64},
		{"padding in the middle", encoded(minimal)[:40] + "==" + encoded(minimal)[40:], ReasonBase64},
		{"gzip cut", "gzip:" + encodedBytes(cut(9)), ReasonGzip},
		{"gzip without trailer", "gzip:" + encodedBytes(cut(8)), ReasonGzip},
		{"gzip header alone", "gzip:" + encodedBytes(good[:10]), ReasonGzip},
		{"wrong CRC", "gzip:" + encodedBytes(flipped), ReasonGzip},
		{"more than it owns up to", "gzip:" + encodedBytes(lying), ReasonGzip},
		{"more than deflate can hold", "gzip:" + encodedBytes(boasting), ReasonGzip},
		{"second member", "gzip:" + encodedBytes(append(bytes.Clone(good), good...)), ReasonGzip},
		{"trailing byte", "gzip:" + encodedBytes(append(bytes.Clone(good), 0)), ReasonGzip},
		{"trailing newline", "gzip:" + encodedBytes(append(bytes.Clone(good), '\n')), ReasonGzip},
		{"over the limit", "gzip:" + encodedBytes(zip("{"+strings.Repeat(" ", maxInflated))), ReasonInflated},
		{"unfinished JSON", encoded(minimal[:40]), ReasonJSON},
		{"two values", encoded(minimal + minimal), ReasonJSON},
		{"field twice", encoded(`{"user":"alice","user":"bob"}`), ReasonJSON},
		{"field twice, once escaped", encoded(`{"user":"alice","\u0075ser":"bob"}`), ReasonJSON},
		{"not UTF-8", encoded("{\"user\":\"\xff\"}"), ReasonJSON},
		{"too deep", encoded(`{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`), ReasonDepth},
		{"too many values", "gzip:" + encodedBytes(zip("{"+strings.Repeat("{},", maxValues/2))), ReasonTooMany},
		{"much too deep", "gzip:" + encodedBytes(zip(`{"a":`+strings.Repeat("[", 60_000))), ReasonDepth},
		{"list in gzip", "gzip:" + encodedBytes(zip("[]")), ReasonObject},
	} {
		s, err := NewSession(test.session, ReadOptions{})
		if err != nil {
			t.Errorf("%s: already %v", test.name, err)
			continue
		}
		_, err = s.JSON()
		if fault, ok := errors.AsType[Fault](err); !ok || fault.Reason != test.want || fault.Field != "OCP-Session" {
			t.Errorf("%s: got %v, want %s", test.name, err, test.want)
		}
		if c, judgement := s.Context(); c != nil || judgement.Verdict != Ignored {
			t.Errorf("%s: not ignored: %v", test.name, judgement)
		}
		if s.Field("user") != nil || s.Text("user") != "" {
			t.Errorf("%s: has fields", test.name)
		}
	}
}

func TestSessionFields(t *testing.T) {
	s, err := NewSession(encoded(`{"user":"al\u0069ce","workspace":null,"recent_changes":[1, 2],"session":{"interaction_count":3},"x_team":"blue","y\u002d":true}`), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"user": "alice", "workspace": "", "recent_changes": "[1, 2]", "session": `{"interaction_count":3}`,
		"x_team": "blue", "y-": "true", "absent": "", "history": "",
	} {
		if got := s.Text(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if s.decoded.context != nil {
		t.Error("a field decodes the whole context")
	}
}

func TestSession_concurrent(t *testing.T) {
	s, err := NewSession(bigSession(t), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if s.Text("current_goal") == "" {
				t.Error("no goal")
			}
			if c, judgement := s.Context(); c == nil || judgement.Verdict != Conforming {
				t.Error(judgement)
			}
		})
	}
	all.Wait()
}

func TestReadContext(t *testing.T) {
	text := []byte(minimal)
	c, judgement := ReadContext(text, ReadOptions{Strict: true})
	clear(text)
	if judgement.Verdict != Conforming || c.ContextID != "ocp-a1b2c3d4" {
		t.Errorf("%+v, %v", c, judgement)
	}
	for text, want := range map[string]Reason{`[]`: ReasonObject, `{`: ReasonJSON, strings.Repeat(" ", 200): ReasonInflated} {
		c, judgement := ReadContext([]byte(text), ReadOptions{MaxInflated: 100})
		if c != nil || judgement.Verdict != Ignored || judgement.Faults[0].Reason != want {
			t.Errorf("%s: %v", text, judgement)
		}
	}
}

// TestBomb holds what a session of 8 KB can cost: in bytes produced, never more
// than the limit, and in bytes allocated little more than that.
func TestBomb(t *testing.T) {
	spaces := func(size int) []byte { return zip("{" + strings.Repeat(" ", size-2) + "}") }
	lying := spaces(5 << 20)
	binary.LittleEndian.PutUint32(lying[len(lying)-4:], 1000)
	const many = maxValues - 10
	pad := strings.Repeat(" ", maxInflated/2)
	members := "{" + strings.Repeat(`"":0,`, many) + `"a":0}` + pad
	entries := `{"history":[` + strings.Repeat(`{},`, many/2) + `{}]}` + pad
	specs := `{"api_specs":{` + strings.Repeat(`"a":"b:c",`, many) + `"a":"b:c"}}`
	changes := `{"recent_changes":[` + strings.Repeat(`"",`, many) + `""]}` + pad
	inner := strings.Repeat(`"":0,`, many) + `"a":0}`
	text := `{"context_summary":"` + strings.Repeat("a", maxInflated-100) + `"}`
	for _, test := range []struct {
		name       string
		compressed []byte
		most       uint64 // bytes allocated
	}{
		{"owns up to 5 MB", spaces(5 << 20), 64 << 10},
		{"says it is 1,000 bytes", lying, 64 << 10},
		{"just under the limit", spaces(maxInflated), maxInflated + 64<<10},
		{"too many values", zip("[" + strings.Repeat("{},", maxInflated/3-1) + "0]"), maxInflated + 64<<10},
		{"65,000 members", zip(members), maxInflated + 256<<10},
		{"32,000 history entries", zip(entries), maxInflated + 512<<10},
		{"65,000 changes", zip(changes), maxInflated + 256<<10},
		{"65,000 members of session", zip(`{"session":{` + inner + "}"), maxInflated + 256<<10},
		{"65,000 members of metadata", zip(`{"history":[{"metadata":{` + inner + "}]}"), maxInflated + 256<<10},
		{"1 MB of text", zip(text), 2*maxInflated + 64<<10},
		{"65,000 specifications", zip(specs), maxInflated + 256<<10},
	} {
		t.Run(test.name, func(t *testing.T) {
			session := "gzip:" + encodedBytes(test.compressed)
			if len(session) > MaxSession {
				t.Fatalf("the bomb has %d bytes", len(session))
			}
			readSession(t, session) // fills the pools
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			const rounds = 4
			for range rounds {
				readSession(t, session)
			}
			runtime.ReadMemStats(&after)
			if got := (after.TotalAlloc - before.TotalAlloc) / rounds; got > test.most {
				t.Errorf("%d bytes allocated, at most %d allowed", got, test.most)
			}
		})
	}
}

// FuzzSession: whatever comes is ignored for a reason or gives a context that
// survives being written again.
func FuzzSession(f *testing.F) {
	f.Add(encoded(minimal))
	f.Add("gzip:" + encodedBytes(zip(minimal)))
	f.Add(encodedBytes(zip(minimal)))
	f.Add(encoded(`{"history":[{"metadata":{"operation":1,"x":[]}}],"session":{"a":1},"api_specs":{"a b":1,"c":"d:e"},"created_at":"2025-01-01 00:00:00"}`))
	f.Add(encoded(`{"recent_changes":["1","2","3","4","5","6","7","8","9","10","11"],"session":{"interaction_count":1e2}}`))
	f.Fuzz(func(t *testing.T, session string) {
		checkAgain(t, session)
		checkAgain(t, encoded(session))
		checkAgain(t, "gzip:"+encodedBytes(zip(session)))
	})
}

// checkAgain decodes, encodes and decodes a session.
func checkAgain(t *testing.T, session string) {
	t.Helper()
	if len(session) > MaxSession {
		return
	}
	s, err := NewSession(session, ReadOptions{})
	if err != nil {
		return
	}
	c, judgement := s.Context()
	if (c == nil) != (judgement.Verdict == Ignored) || (len(judgement.Faults) == 0) != (judgement.Verdict == Conforming) {
		t.Fatalf("verdict %v, context %v", judgement, c)
	}
	if c == nil || c.ContextID == "" || c.CreatedAt.IsZero() || c.LastUpdated.IsZero() {
		return
	}
	text := c.AppendJSON(nil)
	again := readSession(t, "gzip:"+encodedBytes(zip(string(text))))
	if again.context == nil || string(again.context.AppendJSON(nil)) != string(text) {
		t.Fatalf("%s becomes %+v", text, again)
	}
}

type readResult struct {
	context   *Context
	judgement Judgement
}

func readSession(t testing.TB, session string) readResult {
	t.Helper()
	s, err := NewSession(session, ReadOptions{MaxSession: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, judgement := s.Context()
	return readResult{c, judgement}
}

func headerOf(values map[string]string) map[string][]string {
	header := make(map[string][]string)
	for name, value := range values {
		for _, h := range headerNames {
			if h.name == name {
				header[h.key] = []string{value}
			}
		}
	}
	return header
}

func zip(text string) []byte {
	b := &buffer.Buffer{}
	w, _ := gzip.NewWriterLevel(b, gzip.BestCompression)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	if crc := binary.LittleEndian.Uint32(b.B[len(b.B)-8:]); crc != crc32.ChecksumIEEE([]byte(text)) {
		panic("gzip does not end with its CRC and size")
	}
	return b.B
}

func encodedBytes(b []byte) string {
	return base64.StdEncoding.EncodeToString(b)
}

// bigSession returns a session of about 1.7 KB, of 42 history entries.
func bigSession(t testing.TB) string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	c := exampleContext()
	for i := range 42 {
		c.History = append(c.History, CallEntry(c.CreatedAt.AddDate(0, 0, i), fmt.Sprintf("https://api.example.com/repos/%x/issues", random.Uint64()), "list_issues", "github.list_issues", 200))
	}
	session, err := c.EncodeSession()
	if err != nil || len(session) < 1500 || len(session) > 2200 {
		t.Fatalf("the session has %d bytes: %v", len(session), err)
	}
	return session
}

// repetitiveSession returns a session of at most 7 KB in its header whose JSON has about
// size bytes: the history of an agent that calls one operation all the time.
func repetitiveSession(t testing.TB, size int) string {
	t.Helper()
	c := exampleContext()
	c.History = nil
	const entrySize = 170 // bytes, about
	text := []byte(`{"history":[`)
	for i := 0; len(text) < size-entrySize-2000; i++ {
		if i > 0 {
			text = append(text, ',')
		}
		entry := CallEntry(c.CreatedAt, "https://api.example.com/repos/issues", "list_issues", "github.list_issues", 200)
		text = entry.append(text)
	}
	text = append(text, ']', ',')
	text = append(text, c.AppendJSON(nil)[1:]...)
	session := "gzip:" + encodedBytes(zip(string(text)))
	if len(session) > 7000 || len(text) > size {
		t.Fatalf("%d bytes of JSON in a header of %d bytes", len(text), len(session))
	}
	return session
}
