package assertion

import (
	"fmt"
	"reflect"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// View is the Engagement as expressions see it (OpenAgentSpec v1, Engagement). It is a
// cel.Activation. It builds only the values that an expression reads. If a value is not in
// memory, View adds it to Unread; the caller returns an engagement.UnreadError, which loads it
// from the log, and evaluates the expression again.
//
// A call is visible as follows:
//
//   - While it is being decided, recent.<its name> already has its inputs. After it was made,
//     it also has its outputs.
//   - It is in history and in recent._name only after it passed. So history._total < 100
//     allows 100 calls.
//
// Absent values:
//
//   - user.email is absent if it is not known.
//   - user.groups and user.claims are those of the caller now, and errors if they are not known.
//   - recent._name is "" before the first call.
//   - outputs is null until the call has ended (an error for a call of the same message, see Running), if outputs are not collected (collect_results:
//     false), and if they were withheld.
type View struct {
	Tx       *engagement.Tx
	Pending  *Pending          // nil if no call is being decided
	Running  []string          // names of calls of the same message without a result: their outputs cannot be read
	Unread   engagement.Unread // what an evaluation did not find in memory
	Identity *identity.User    // of user.groups and user.claims; nil if they are unknown

	Slots *Slots      // for evaluations that take long; nil for no limit
	Owner share.Owner // whose share of the slots they use

	recent, history, pending fields // storage for values of expressions
}

// Pending is the call that is being decided. Expressions see its inputs and outputs in full,
// even if they are too large for the record.
type Pending struct {
	Name string
	Nth  int64 // number among the calls of the same name, from 1; 0 if it was not made
	engagement.Payloads
}

func (v *View) unreadLatest(name string) ref.Val {
	if !slices.Contains(v.Unread.Latest, name) {
		v.Unread.Latest = append(v.Unread.Latest, name)
	}
	return notRead
}

func (v *View) unreadHistory(name string) ref.Val {
	if !slices.Contains(v.Unread.History, name) {
		v.Unread.History = append(v.Unread.History, name)
	}
	return notRead
}

// notRead is the value of a field that was not loaded yet. The evaluation is repeated after
// loading.
var notRead = types.NewErr("the record has not been read")

// ResolveName implements cel.Activation.
func (v *View) ResolveName(name string) (any, bool) {
	switch name {
	case "started_at":
		return types.Timestamp{Time: engagement.Milliseconds(v.Tx.State.Started)}, true
	case "user":
		known := v.Identity
		if known == nil {
			known = identity.Unknown(v.Tx.State.User.ID)
		}
		user := known.Fields()
		user["id"] = v.Tx.State.User.ID
		if v.Tx.State.User.Email != "" {
			user["email"] = v.Tx.State.User.Email
		}
		return types.NewStringInterfaceMap(celenv.Adapter{}, user), true
	case "recent":
		v.recent = fields{recentFields{v}}
		return &v.recent, true
	case "history":
		v.history = fields{historyFields{v}}
		return &v.history, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (v *View) Parent() cel.Activation { return nil }

// value converts inputs or outputs to a CEL value.
func value(p jsontext.Value) ref.Val {
	switch {
	case p == nil:
		return types.NullValue
	case engagement.IsOmitted(p):
		return types.WrapErr(engagement.OmissionOf(p))
	}
	return (&celenv.Node{Raw: p, Exact: true}).Force()
}

// source provides the fields of a map.
type source interface {
	find(name string) (ref.Val, bool)
	has(name string) bool
	names() []string
}

// recentFields are the fields of recent.
type recentFields struct{ *View }

const nameField = "_name"

func (v recentFields) find(name string) (ref.Val, bool) {
	switch {
	case name == nameField:
		if v.Tx.State.Total == 0 {
			return types.String(""), true
		}
		return types.String(v.Tx.State.Names[v.Tx.State.Recent].Name), true
	case v.Pending != nil && v.Pending.Name == name:
		v.pending = fields{callFields{&v.Pending.Payloads}}
		return &v.pending, true
	}
	if v.Tx.State.Find(name) < 0 {
		return nil, false
	}
	call := v.Tx.Latest(name)
	if call == nil {
		return v.unreadLatest(name), true
	}
	return v.made(name, call), true
}

func (v recentFields) has(name string) bool {
	return name == nameField || v.Pending != nil && v.Pending.Name == name || v.Tx.State.Find(name) >= 0
}

func (v recentFields) names() []string {
	names := []string{nameField}
	for i := range v.Tx.State.Names {
		names = append(names, v.Tx.State.Names[i].Name)
	}
	if v.Pending != nil && v.Tx.State.Find(v.Pending.Name) < 0 {
		names = append(names, v.Pending.Name)
	}
	return names
}

// historyFields are the fields of history.
type historyFields struct{ *View }

func (v historyFields) find(name string) (ref.Val, bool) {
	switch name {
	case "_total":
		return types.Int(v.Tx.State.Total), true
	case "_list":
		return items{nameItems{v.View}}, true
	}
	i := v.Tx.State.Find(name)
	if i < 0 {
		return nil, false
	}
	return items{callItems{v.View, name, v.Tx.State.Names[i].Count}}, true
}

func (v historyFields) has(name string) bool {
	return name == "_total" || name == "_list" || v.Tx.State.Find(name) >= 0
}

func (v historyFields) names() []string {
	names := append(make([]string, 0, 2+len(v.Tx.State.Names)), "_list", "_total")
	for i := range v.Tx.State.Names {
		names = append(names, v.Tx.State.Names[i].Name)
	}
	return names
}

// running is the value of the outputs of a call in View.Running.
var running = engagement.Omitted{Why: engagement.OmittedRunning}.JSON()

// made returns a call that was made.
func (v *View) made(name string, call *engagement.Payloads) fields {
	if call.Outputs == nil && slices.Contains(v.Running, name) {
		call = &engagement.Payloads{Inputs: call.Inputs, Outputs: running}
	}
	return fields{callFields{call}}
}

// callFields are the fields of one call.
type callFields struct{ *engagement.Payloads }

func (c callFields) find(name string) (ref.Val, bool) {
	switch name {
	case "inputs":
		return value(c.Inputs), true
	case "outputs":
		return value(c.Outputs), true
	}
	return nil, false
}

func (c callFields) has(name string) bool { return name == "inputs" || name == "outputs" }
func (c callFields) names() []string      { return []string{"inputs", "outputs"} }

// fields adapts a source to a CEL map.
type fields struct{ source }

// Find implements traits.Mapper.
func (f fields) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	return f.find(string(name))
}

// Get implements traits.Indexer.
func (f fields) Get(key ref.Val) ref.Val {
	if v, ok := f.Find(key); ok {
		return v
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements traits.Container.
func (f fields) Contains(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	return types.Bool(ok && f.has(string(name)))
}

// Size implements traits.Sizer.
func (f fields) Size() ref.Val { return types.Int(len(f.names())) }

// Iterator implements traits.Iterable.
func (f fields) Iterator() traits.Iterator {
	return types.NewStringList(celenv.Adapter{}, f.names()).Iterator()
}

// Type implements ref.Val.
func (f fields) Type() ref.Type { return types.MapType }

// Equal implements ref.Val.
func (f fields) Equal(other ref.Val) ref.Val { return f.full().Equal(other) }

// ConvertToNative implements ref.Val.
func (f fields) ConvertToNative(t reflect.Type) (any, error) { return f.full().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (f fields) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return types.MapType
	}
	return f.full().ConvertToType(t)
}

// Value implements ref.Val.
func (f fields) Value() any { return f.full().Value() }

// full copies the fields to a map of CEL's own, for the rarely used methods.
func (f fields) full() traits.Mapper {
	all := make(map[string]any)
	for _, name := range f.names() {
		all[name], _ = f.find(name)
	}
	return types.NewStringInterfaceMap(celenv.Adapter{}, all)
}

// String is used in messages, which must not contain values.
func (f fields) String() string { return fmt.Sprintf("%d fields", len(f.names())) }

// sequence provides the items of a list. Its length is known without reading the log.
type sequence interface {
	size() int64
	item(i int64) ref.Val
	holds(item ref.Val) (holds, known bool) // known is false if each item must be compared
}

// nameItems are the items of history._list.
type nameItems struct{ view *View }

func (n nameItems) size() int64 { return n.view.Tx.State.Total }

func (n nameItems) item(i int64) ref.Val {
	order, ok := n.view.Tx.Order()
	if !ok {
		n.view.Unread.List = true
		return notRead
	}
	return types.String(n.view.Tx.State.Names[order[i]].Name)
}

func (n nameItems) holds(item ref.Val) (holds, known bool) {
	name, ok := item.(types.String)
	return ok && n.view.Tx.State.Find(string(name)) >= 0, true
}

// callItems are the items of history.<name>.
type callItems struct {
	view  *View
	name  string
	count int64
}

func (c callItems) size() int64 { return c.count }

func (c callItems) item(i int64) ref.Val {
	if p := c.view.Pending; p != nil && p.Name == c.name && p.Nth == i+1 {
		return fields{callFields{&p.Payloads}}
	}
	calls, ok := c.view.Tx.Calls(c.name)
	if !ok {
		return c.view.unreadHistory(c.name)
	}
	return c.view.made(c.name, calls[i])
}

func (c callItems) holds(ref.Val) (holds, known bool) { return false, false }

// items adapts a sequence to a CEL list.
type items struct{ sequence }

// Get implements traits.Indexer.
func (l items) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return types.WrapErr(err)
	}
	if i < 0 || int64(i) >= l.size() {
		return types.NewErr("index out of bounds: %d", i)
	}
	return l.item(int64(i))
}

// Contains implements traits.Container.
func (l items) Contains(item ref.Val) ref.Val {
	if holds, known := l.holds(item); known {
		return types.Bool(holds)
	}
	return l.full().Contains(item)
}

// Size implements traits.Sizer.
func (l items) Size() ref.Val { return types.Int(l.size()) }

// Iterator implements traits.Iterable. If the items were not loaded yet, it yields only the
// first, because the evaluation is repeated anyway.
func (l items) Iterator() traits.Iterator {
	end := l.size()
	if end > 0 && l.item(end-1) == notRead {
		end = 1
	}
	return &iterator{items: l, end: end}
}

// Add implements traits.Adder.
func (l items) Add(other ref.Val) ref.Val { return l.full().Add(other) }

// Type implements ref.Val.
func (l items) Type() ref.Type { return types.ListType }

// Equal implements ref.Val.
func (l items) Equal(other ref.Val) ref.Val { return l.full().Equal(other) }

// ConvertToNative implements ref.Val.
func (l items) ConvertToNative(t reflect.Type) (any, error) { return l.full().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (l items) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return types.ListType
	}
	return l.full().ConvertToType(t)
}

// Value implements ref.Val.
func (l items) Value() any { return l.full().Value() }

// full copies the items to a list of CEL's own, for the rarely used methods.
func (l items) full() traits.Lister {
	all := make([]ref.Val, l.size())
	for i := range all {
		all[i] = l.item(int64(i))
	}
	return types.NewRefValList(celenv.Adapter{}, all)
}

// iterator iterates over items.
type iterator struct {
	traits.Iterator // the other methods are never called
	items           items
	next, end       int64
}

// HasNext implements traits.Iterator.
func (i *iterator) HasNext() ref.Val { return types.Bool(i.next < i.end) }

// Next implements traits.Iterator.
func (i *iterator) Next() ref.Val {
	if i.next >= i.end {
		return nil
	}
	i.next++
	return i.items.item(i.next - 1)
}
