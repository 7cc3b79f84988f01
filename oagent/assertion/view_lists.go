package assertion

import (
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/fairwayhq/fairway/internal/expr"
)

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
	return fields{callFields{calls[i]}}
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
	return types.NewRefValList(expr.Adapter{}, all)
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
