package space

import (
	"context"
	"errors"
	"io/fs"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// quietEvery is the least time between two writes of what nobody waits for.
	quietEvery = 10 * time.Minute
	// removedAfter is the time in which the watch has brought what this host wrote.
	removedAfter = time.Minute
	// tells bounds a write: an API that hangs must not delay the next look. beginTells bounds the
	// one before a defragmentation.
	tells      = 5 * time.Second
	beginTells = time.Second
)

// API is the part of the API that the loop needs.
type API interface {
	Annotate(ctx context.Context, node, name, value string) error
}

// Nodes takes in the nodes of the API. A new wish of a person wakes the loop.
func (a *Agent) Nodes(list []state.Node) {
	name := a.View().Host.NodeName
	a.mu.Lock()
	before, now := own(a.nodes, name), own(list, name)
	a.nodes = list
	a.mu.Unlock()
	if before[decide.WantedOf] != now[decide.WantedOf] {
		a.wake.Kick()
	}
}

// own returns the annotations of a node; nil if it is not in the list.
func own(list []state.Node, name string) map[string]string {
	for _, n := range list {
		if n.Name == name && name != "" {
			if n.Annotations == nil {
				return map[string]string{}
			}
			return n.Annotations
		}
	}
	return nil
}

// annotations returns what stands at the node of this host; nil if that is not known.
func (a *Agent) annotations() map[string]string {
	name := a.View().Host.NodeName
	a.mu.Lock()
	defer a.mu.Unlock()
	return own(a.nodes, name)
}

// hear returns the wish at the node of this host that has no answer yet. One that does not
// count is answered. A host that has booted finds its last answer at the node.
func (a *Agent) hear() string {
	stands := a.annotations()
	wish := decide.ReadWish(stands[decide.WantedOf])
	if told, err := decide.ReadSummary(stands[decide.Annotation]); err == nil && a.journal.Asked == "" {
		a.journal = a.journal.Answers(told.Asked, told.Answer)
	}
	if wish.Text == "" || wish.Text == a.journal.Asked {
		return ""
	}
	if why := wish.Refused(a.Now()); why != "" {
		if wish.Text == a.wish && a.waits != "" {
			why = "it waited too long: " + a.waits
		}
		a.journal = a.journal.Answers(wish.Text, decide.Answer{Refused: why})
		return ""
	}
	return wish.Text
}

// publish writes the summary to the node if it is news. While the alarm is raised the API takes
// no writes. What etcd of this host does not say is no news either, but for a wish.
func (a *Agent) publish(ctx context.Context, s decide.Summary) error {
	a.mu.Lock()
	a.summary = s
	a.mu.Unlock()
	stands := a.annotations()
	if a.told.At.IsZero() { // of before this process
		a.told, _ = decide.ReadSummary(stands[decide.Annotation])
	}
	if stands == nil || len(s.NoSpace) > 0 || s.Quota == 0 && s.Wish == "" && s.Asked == a.told.Asked {
		return nil
	}
	since := a.Now().Sub(a.told.At).Abs()
	removed := stands[decide.Annotation] == "" && since > removedAfter
	switch news := s.News(a.told); {
	case removed, news == decide.Loud:
	case news == decide.Quiet && since >= quietEvery:
	default:
		return nil
	}
	return a.write(ctx, s)
}

func (a *Agent) write(ctx context.Context, s decide.Summary) error {
	s.At = a.Now().UTC().Round(0)
	text, err := s.Text()
	if err != nil {
		return err
	}
	api, err := a.Open()
	if errors.Is(err, fs.ErrNotExist) { // no access to the API yet
		return nil
	}
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, tells)
	defer stop()
	if err := api.Annotate(ctx, a.View().Host.NodeName, decide.Annotation, text); err != nil {
		return err
	}
	a.told = s
	return nil
}
