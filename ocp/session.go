package ocp

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/gzip"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// maxInflated is the maximum size of a session's JSON, in bytes.
const maxInflated = 1 << 20

// gzipPrefix is the prefix that clients write before the Base64 of a gzip stream.
const gzipPrefix = "gzip:"

// A Session is the value of an OCP-Session header. It is decoded at most once, when a
// method first needs its content. It is safe for concurrent use. Callers must not change
// what its methods return.
type Session struct {
	encoded string
	options ReadOptions

	contextID, agentType string // of the headers, which the session must not contradict; "" if absent

	once    sync.Once
	decoded *decodedSession
	opened  atomic.Bool // decoded is set
}

// decodedSession is the content of a session. Sessions with the same value can share one
// (SessionCache).
type decodedSession struct {
	fields fields
	fault  *Fault // why it cannot be decoded

	read      sync.Once
	context   *Context
	judgement Judgement

	readBrief sync.Once
	brief     *Context
}

// NewSession returns the session of a header's value. The error is a Fault if the value
// is too long, or if its first characters cannot begin a session. Screen and the methods
// that decode the session find everything else.
func NewSession(encoded string, options ReadOptions) (*Session, error) {
	if reason := checkSession(encoded, options); reason != "" {
		return nil, Fault{Field: HeaderName(HeaderSession), Reason: reason}
	}
	return &Session{encoded: encoded, options: options}, nil
}

// Encoded returns the header's value.
func (s *Session) Encoded() string {
	return s.encoded
}

// Screen checks the session without decompressing it. The error is a Fault. For an
// uncompressed session it checks everything, like JSON. For a compressed session it checks
// the Base64, the gzip header and the size in the gzip trailer, but not the content.
func (s *Session) Screen() error {
	if !s.isCompressed() {
		_, err := s.JSON()
		return err
	}
	if fault := screenCompressed(s.encoded, s.options.maxInflated()); fault != nil {
		fault.Field = HeaderName(HeaderSession)
		return *fault
	}
	return nil
}

// Err returns the known fault of the session without decoding it. It is nil if the session
// has not been decoded yet or has no fault. The error is a Fault.
func (s *Session) Err() error {
	if !s.opened.Load() || s.decoded.fault == nil {
		return nil
	}
	return *s.decoded.fault
}

// isCheap reports whether a field can be read without decompression: the session is
// uncompressed or already decoded.
func (s *Session) isCheap() bool {
	return s.opened.Load() || !s.isCompressed()
}

// isCompressed reports whether the value begins like the Base64 of a gzip stream.
func (s *Session) isCompressed() bool {
	if strings.HasPrefix(s.encoded, gzipPrefix) {
		return true
	}
	const magic = "H4s" // Base64 of 0x1f 0x8b and the compression method 8
	return strings.HasPrefix(s.encoded, magic)
}

// JSON returns the decoded JSON object as the client wrote it, including fields that the
// schema does not define. The error is a Fault. If the JSON can be read but breaks the text of the protocol, JSON returns
// both.
func (s *Session) JSON() (jsontext.Value, error) {
	d := s.open()
	if d.fault != nil {
		return d.fields.all, *d.fault
	}
	return d.fields.all, nil
}

// Field returns one field of the session without decoding the others. It returns nil if
// the field is absent or null, or if the session cannot be decoded.
func (s *Session) Field(name string) jsontext.Value {
	d := s.open()
	if d.fault != nil {
		return nil
	}
	value := d.fields.get(name)
	if value.Kind() == 'n' {
		return nil
	}
	return value
}

// Text returns one field as text. A string is unquoted; any other value is returned as
// JSON. Text returns "" if the field is absent or null, or if the session cannot be
// decoded.
func (s *Session) Text(name string) string {
	value := s.Field(name)
	if value.Kind() != '"' {
		return string(value)
	}
	text, _ := unquote(value)
	return text
}

// Context returns the session's context and its judgement. The context is nil if the
// verdict is Ignored. It is not compared with the headers; Incoming does that.
func (s *Session) Context() (*Context, Judgement) {
	d := s.open()
	d.read.Do(func() {
		if d.fault != nil {
			d.judgement = Judgement{Ignored, []Fault{*d.fault}}
			return
		}
		d.context, d.judgement = judgeContext(&d.fields, s.options.Strict)
	})
	return d.context, d.judgement
}

// briefly returns the session's context without its history, session metadata and API
// specifications, or nil if the session cannot be decoded.
func (s *Session) briefly() *Context {
	d := s.open()
	d.readBrief.Do(func() {
		if d.fault == nil {
			d.brief = new(decoder).brief(&d.fields)
		}
	})
	return d.brief
}

// ReadContext reads a context from plain JSON, as Session.Context does from a header. It
// copies text, so the caller may change text afterwards.
func ReadContext(text []byte, options ReadOptions) (*Context, Judgement) {
	fault := &Fault{Reason: ReasonInflated}
	var f fields
	if len(text) <= options.maxInflated() {
		fault = f.split(append([]byte(nil), text...))
	}
	if fault != nil {
		fault.Field = "context"
	} else {
		fault = f.violation()
	}
	if fault != nil {
		return nil, Judgement{Ignored, []Fault{*fault}}
	}
	return judgeContext(&f, options.Strict)
}

// judgeContext decodes and validates the fields. The context is nil if the verdict is
// Ignored.
func judgeContext(f *fields, strict bool) (*Context, Judgement) {
	context, faults := decodeContext(f)
	faults = append(faults, context.Validate(strict)...)
	switch {
	case len(faults) == 0:
		return context, Judgement{Verdict: Conforming}
	case strict:
		return nil, Judgement{Ignored, faults}
	}
	return context, Judgement{Usable, faults}
}

// open decodes the session into its fields.
func (s *Session) open() *decodedSession {
	s.once.Do(func() {
		if cache := s.options.Cache; cache != nil {
			s.decoded = cache.open(s.encoded, s.options)
		} else {
			s.decoded = openSession(s.encoded, s.options)
		}
		f := &s.decoded.fields
		if fault := cmp.Or(f.contradiction("context_id", s.contextID), f.contradiction("agent_type", s.agentType)); fault != nil {
			s.decoded = &decodedSession{fields: *f, fault: fault}
		}
		s.opened.Store(true)
	})
	return s.decoded
}

func openSession(encoded string, options ReadOptions) *decodedSession {
	d := &decodedSession{}
	content, fault := decodeSession(encoded, options)
	if fault == nil {
		fault = d.fields.split(content)
	}
	if fault != nil {
		fault.Field = HeaderName(HeaderSession)
		*d = decodedSession{fault: fault}
	} else {
		d.fault = d.fields.violation()
	}
	return d
}

// checkSession makes cheap checks: the length and the first characters. These show the
// encoding of the session and reveal most values that are not sessions.
func checkSession(encoded string, options ReadOptions) Reason {
	switch {
	case encoded == "":
		return ReasonEmpty
	case len(encoded) > options.maxSession():
		return ReasonTooLong
	}
	const group = 4 // characters that hold three bytes
	text, gzipped := strings.CutPrefix(encoded, gzipPrefix)
	text = strings.TrimRight(text[:min(len(text), group)], "=")
	var head [3]byte
	n, err := encodingOf(text).Decode(head[:], []byte(text))
	if err != nil || n < 2 {
		return ReasonBase64
	}
	decoded := head[:n]
	if isGzip(decoded) {
		return ""
	}
	if gzipped {
		return ReasonGzip
	}
	return beginsObject(decoded)
}

// beginsObject returns "" if head can be the beginning of a JSON object, and the reason
// otherwise.
func beginsObject(head []byte) Reason {
	for _, c := range head {
		switch c {
		case ' ', '\t', '\r', '\n':
		case '{':
			return ""
		case '[', '"', 'n', 't', 'f', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			return ReasonObject
		default:
			return ReasonJSON
		}
	}
	return ""
}

func isGzip(head []byte) bool {
	return len(head) >= 2 && head[0] == 0x1f && head[1] == 0x8b
}

// encodingOf returns the Base64 alphabet that the text uses, without padding.
func encodingOf(text string) *base64.Encoding {
	if strings.ContainsAny(text, "-_") {
		return base64.RawURLEncoding
	}
	return base64.RawStdEncoding
}

// appendBinary appends the decoded Base64 of a session. Gzipped reports whether the value
// has the prefix of a compressed session.
func appendBinary(dst []byte, encoded string) (decoded []byte, gzipped bool, fault *Fault) {
	text, gzipped := strings.CutPrefix(encoded, gzipPrefix)
	text = strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	if strings.ContainsAny(text, "\r\n") { // package base64 ignores line breaks
		return dst, gzipped, &Fault{Reason: ReasonBase64}
	}
	decoded, err := encodingOf(text).AppendDecode(dst, []byte(text))
	if err != nil {
		return dst, gzipped, base64Fault(err)
	}
	return decoded, gzipped, nil
}

// decodeSession decodes Base64 and gzip. The content does not share memory with encoded.
func decodeSession(encoded string, options ReadOptions) ([]byte, *Fault) {
	limit := options.maxInflated()
	buffered := buffer.Get()
	defer buffer.Put(buffered)
	decoded, gzipped, fault := appendBinary(buffered.B, encoded)
	buffered.B = decoded
	switch {
	case fault != nil:
		return nil, fault
	case isGzip(decoded):
		size, fault := declaredSize(decoded, limit)
		if fault != nil {
			return nil, fault
		}
		if options.Cache != nil {
			options.Cache.inflations.Add(1)
		}
		return inflate(decoded, size)
	case gzipped:
		return nil, &Fault{Reason: ReasonGzip}
	case len(decoded) > limit:
		return nil, &Fault{Reason: ReasonInflated}
	}
	return append([]byte(nil), decoded...), nil
}

// screenCompressed checks a compressed session without decompressing it.
func screenCompressed(encoded string, limit int) *Fault {
	buffered := buffer.Get()
	defer buffer.Put(buffered)
	decoded, _, fault := appendBinary(buffered.B, encoded)
	buffered.B = decoded
	if fault != nil {
		return fault
	}
	if !isGzip(decoded) {
		return &Fault{Reason: ReasonGzip}
	}
	_, fault = declaredSize(decoded, limit)
	return fault
}

func base64Fault(err error) *Fault {
	fault := &Fault{Reason: ReasonBase64}
	if corrupt, ok := errors.AsType[base64.CorruptInputError](err); ok {
		fault.Detail = "at character " + strconv.FormatInt(int64(corrupt), 10)
	}
	return fault
}

// inflater is a pooled gzip reader and the bytes it reads.
type inflater struct {
	gzip.Reader
	source bytes.Reader
}

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

// maxRatio is the maximum compression ratio of DEFLATE.
const maxRatio = 1032

// declaredSize returns the uncompressed size that the trailer of a gzip stream declares
// (RFC 1952, section 2.3.1). It rejects a malformed stream, and one that declares more
// than the limit, before anything is decompressed.
func declaredSize(compressed []byte, limit int) (size int, fault *Fault) {
	const (
		shortest      = 18 // bytes of a header and a trailer
		deflate       = 8  // the only compression method
		reservedFlags = 0xe0
	)
	if len(compressed) < shortest || compressed[2] != deflate || compressed[3]&reservedFlags != 0 {
		return 0, &Fault{Reason: ReasonGzip}
	}
	declared := int64(binary.LittleEndian.Uint32(compressed[len(compressed)-4:]))
	switch {
	case declared > int64(len(compressed))*maxRatio:
		return 0, &Fault{Reason: ReasonGzip}
	case declared > int64(limit):
		return 0, &Fault{Reason: ReasonInflated}
	}
	return int(declared), nil
}

// inflate decompresses one gzip member of size bytes. No data may follow it. If the stream
// contains more than it declares, inflate stops at the declared size, which limits the
// cost of a decompression bomb.
func inflate(compressed []byte, size int) ([]byte, *Fault) {
	z := inflaters.Get().(*inflater)
	defer func() {
		z.source.Reset(nil)
		inflaters.Put(z)
	}()
	z.source.Reset(compressed)
	if err := z.Reset(&z.source); err != nil {
		return nil, &Fault{Reason: ReasonGzip}
	}
	z.Multistream(false)
	content := make([]byte, size)
	if _, err := io.ReadFull(z, content); err != nil {
		return nil, &Fault{Reason: ReasonGzip}
	}
	var more [1]byte
	n, err := z.Read(more[:]) // checks the CRC at the end of the stream
	if n != 0 || err != io.EOF || z.source.Len() != 0 {
		return nil, &Fault{Reason: ReasonGzip}
	}
	return content, nil
}

// unquote decodes a JSON string.
func unquote(value jsontext.Value) (string, bool) {
	if value.Kind() != '"' {
		return "", false
	}
	// Few strings have escapes. A string without escapes needs only one copy.
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') >= 0 {
		text, err := jsontext.AppendUnquote(nil, value)
		return string(text), err == nil
	}
	switch string(inner) { // the values of most history entries need no allocation
	case ActionAPICall:
		return ActionAPICall, true
	case resultSuccess:
		return resultSuccess, true
	}
	return string(inner), true
}

// maxValues is the approximate maximum number of values in a session. 1 MiB of history has
// about this many. 1 MiB of "{},{},{}" has far more and would take long to parse.
const maxValues = 1 << 16

// checkExtent returns a fault if content has too many values or is nested too deeply.
func checkExtent(content []byte) *Fault {
	values := bytes.Count(content, []byte(",")) + bytes.Count(content, []byte("{")) + bytes.Count(content, []byte("["))
	if values > maxValues {
		return &Fault{Reason: ReasonTooMany}
	}
	if strictjson.CheckDepth(content, strictjson.MaxDepth) != nil {
		return &Fault{Reason: ReasonDepth}
	}
	return nil
}

// jsonFault converts an error of strictjson.Split to a fault.
func jsonFault(err error) *Fault {
	if errors.Is(err, strictjson.ErrNotObject) {
		return &Fault{Reason: ReasonObject}
	}
	fault := &Fault{Reason: ReasonJSON}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		fault.Detail = "at byte " + strconv.FormatInt(syntax.ByteOffset, 10)
	}
	return fault
}
