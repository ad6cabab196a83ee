package client

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Check returns every violation of the cluster's guarantees, joined.
func Check(h History) error {
	return errors.Join(
		checkLinearizable(h),
		checkRevisions(h),
		checkWatches(h),
		checkFinal(h),
	)
}

// maxReported bounds the number of reported violations of one kind.
const maxReported = 5

type violations struct {
	errs []error
	more int
}

func (v *violations) add(format string, args ...any) {
	if len(v.errs) == maxReported {
		v.more++
		return
	}
	v.errs = append(v.errs, fmt.Errorf(format, args...))
}

func (v *violations) err() error {
	if v.more > 0 {
		v.errs = append(v.errs, fmt.Errorf("... and %d more of these", v.more))
	}
	return errors.Join(v.errs...)
}

// register is porcupine's input for one operation.
type register struct {
	write bool
	key   string
	value string
}

// model is one register for each key. A key that was never written reads as
// the empty value.
var model = porcupine.Model{
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range ops {
			in, _ := o.Input.(register)
			byKey[in.key] = append(byKey[in.key], o)
		}
		var out [][]porcupine.Operation
		for _, list := range byKey {
			out = append(out, list)
		}
		return out
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		in, _ := input.(register)
		if in.write {
			return true, in.value
		}
		return output == state, state
	},
	DescribeOperation: func(input, output any) string {
		in, _ := input.(register)
		if in.write {
			return fmt.Sprintf("%s := %s", in.key, in.value)
		}
		return fmt.Sprintf("%s = %v", in.key, output)
	},
}

// operations translates a history for porcupine. A write of unknown outcome may
// take effect at any later time, or at the very end, which means never. A write
// of unknown outcome whose value nobody ever read needs no place in the order,
// because values are unique.
func operations(h History) []porcupine.Operation {
	read := map[string]bool{}
	for _, o := range h.Ops {
		if o.Kind == Read && o.Outcome == OK {
			read[o.Value] = true
		}
	}
	var out []porcupine.Operation
	for _, o := range h.Ops {
		op := porcupine.Operation{
			ClientId: o.Client, Input: register{o.Kind == Write, o.Key, o.Value}, Output: o.Value,
			Call: int64(o.Start), Return: int64(o.End),
		}
		switch {
		case o.Outcome == OK:
		case o.Outcome == Unknown && o.Kind == Write && read[o.Value]:
			op.Return = math.MaxInt64
		default:
			continue
		}
		out = append(out, op)
	}
	return out
}

// patience bounds the search for an order. The histories of these clients, with
// few clients for each key, take milliseconds.
const patience = time.Minute

func checkLinearizable(h History) error {
	result := porcupine.CheckOperationsTimeout(model, operations(h), patience)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("linearizability: no answer within %s", patience)
	default:
		return errors.New("not linearizable: no order of the operations explains what was read (see history.html)")
	}
}

// checkRevisions checks that no revision was used twice, and that none went
// back: an operation that begins after another has ended must not have an older
// revision.
func checkRevisions(h History) error {
	var v violations
	writers := map[int64]Op{}
	var byEnd []Op
	for _, o := range h.Ops {
		if o.Outcome != OK || o.Revision == 0 {
			continue
		}
		if first, twice := writers[o.Revision]; twice && o.Kind == Write {
			v.add("revision %d was given out twice: to %s=%s and to %s=%s", o.Revision, first.Key, first.Value, o.Key, o.Value)
		}
		if o.Kind == Write {
			writers[o.Revision] = o
		}
		byEnd = append(byEnd, o)
	}
	slices.SortStableFunc(byEnd, func(a, b Op) int { return cmp.Compare(a.End, b.End) })
	newest, next := Op{}, 0
	for _, o := range byStart(byEnd) {
		for ; next < len(byEnd) && byEnd[next].End < o.Start; next++ {
			if byEnd[next].Revision > newest.Revision {
				newest = byEnd[next]
			}
		}
		if o.Revision < newest.Revision || (o.Kind == Write && o.Revision == newest.Revision) {
			v.add("revision went back: %s of %s at %s through %s is at %d, but %d was answered through %s at %s before",
				o.Kind, o.Key, o.Start, o.Endpoint, o.Revision, newest.Revision, newest.Endpoint, newest.End)
		}
	}
	return v.err()
}

// checkWatches checks each watch: its revisions rise, it saw every acknowledged
// write, and it saw nothing that nobody wrote.
func checkWatches(h History) error {
	var v violations
	written := map[string]bool{}
	for _, o := range h.Ops {
		if o.Kind == Write {
			written[o.Value] = true
		}
	}
	for name, list := range byWatch(h) {
		seen := map[string]int64{}
		last := int64(0)
		for _, e := range list {
			if e.Revision <= last {
				v.add("watch %s: revision %d came after %d", name, e.Revision, last)
			}
			last = e.Revision
			if !written[e.Value] {
				v.add("watch %s: %s=%s at revision %d was never written", name, e.Key, e.Value, e.Revision)
			}
			seen[e.Value] = e.Revision
		}
		for _, o := range h.Ops {
			if o.Kind != Write || o.Outcome != OK || o.Revision == 0 {
				continue
			}
			if at, ok := seen[o.Value]; !ok && skipped(h.Skipped[name], o.Revision) {
				continue
			} else if !ok {
				v.add("watch %s: the write of %s=%s at revision %d is missing", name, o.Key, o.Value, o.Revision)
			} else if at != o.Revision {
				v.add("watch %s: %s=%s came at revision %d, acknowledged was %d", name, o.Key, o.Value, at, o.Revision)
			}
		}
	}
	return v.err()
}

// byWatch returns the events of each watch. Each endpoint that served has one, also if that never
// saw anything.
func byWatch(h History) map[string][]Event {
	out := map[string][]Event{}
	for _, e := range h.Events {
		out[e.Watch] = append(out[e.Watch], e)
	}
	for _, o := range h.Ops {
		if _, saw := out[o.Endpoint]; !saw && o.Endpoint != "" && o.Outcome == OK {
			out[o.Endpoint] = nil
		}
	}
	return out
}

func skipped(spans []Span, revision int64) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.From <= revision && revision <= s.Until })
}

// checkFinal checks that each key holds the newest acknowledged write in the
// end, or one that may have happened later.
func checkFinal(h History) error {
	if h.Final == nil {
		return nil
	}
	var v violations
	newest := map[string]Op{}
	for _, o := range h.Ops {
		if o.Kind == Write && o.Outcome == OK && o.Revision > newest[o.Key].Revision {
			newest[o.Key] = o
		}
	}
	for key, want := range newest {
		if got := h.Final[key]; got != want.Value && !mayBeNewer(h, key, got, want) {
			v.add("%s holds %q in the end; the newest acknowledged write is %q at revision %d", key, got, want.Value, want.Revision)
		}
	}
	return v.err()
}

// mayBeNewer reports whether an operation of unknown outcome wrote a value
// other than that of an operation: it may have taken effect later.
func mayBeNewer(h History, key, value string, than Op) bool {
	return slices.ContainsFunc(h.Ops, func(o Op) bool {
		return o.Kind == Write && o.Key == key && o.Value == value && o.Outcome == Unknown
	}) && value != than.Value
}
