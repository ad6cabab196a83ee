package replacement

import (
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/widen"
)

// The files of a plan by which two control planes become three (docs/adr/0097). The command writes
// the wish, the agents of both hosts write the others, each on its own host. The third host's request
// lies at NewcomerPath on the host that carries the plan.
const (
	WidenWishPath  = "/var/lib/holdfast/replace/widen-wish.json"
	WidenPlanPath  = "/var/lib/holdfast/replace/widen-plan.json"
	WidenDoingPath = "/run/holdfast/replace/widen-doing.json"
)

// WidenDoing is the last decision of this host's agent about such a plan, for the command.
type WidenDoing struct {
	Step, Rule, Words, Way string
	Act                    widen.Act
	// Wish is the ID of the wish that the decision is about. Gates has all of its gates before
	// anything has begun.
	Wish  string         `json:",omitempty"`
	Gates []replace.Gate `json:",omitempty"`
	// Problem is the error of the last act, empty if the act succeeded.
	Problem string `json:",omitempty"`
}

// WidenWish returns the command's last wish for a third control plane, nil for none.
func (s Store) WidenWish() (*widen.Wish, error) { return load[widen.Wish](s, WidenWishPath) }

// PutWidenWish writes a wish.
func (s Store) PutWidenWish(w widen.Wish) error { return s.put(WidenWishPath, w) }

// DropWidenWish removes the wish.
func (s Store) DropWidenWish() error { return s.drop(WidenWishPath) }

// ClearWidenWish removes the wish that was read, as ClearOrder does.
func (s Store) ClearWidenWish(read *widen.Wish) (newer bool, err error) {
	return clearFile(s, WidenWishPath, read)
}

// WidenPlan returns the plan, or this host's copy of it, nil for none. It may have a higher format
// number than this release reads; the caller must compare it.
func (s Store) WidenPlan() (*widen.Plan, error) { return load[widen.Plan](s, WidenPlanPath) }

// PutWidenPlan writes the plan.
func (s Store) PutWidenPlan(p widen.Plan) error { return s.put(WidenPlanPath, p) }

// WidenDoing returns the last decision of this boot, nil for none.
func (s Store) WidenDoing() (*WidenDoing, error) { return load[WidenDoing](s, WidenDoingPath) }

// PutWidenDoing writes the last decision.
func (s Store) PutWidenDoing(d WidenDoing) error { return s.put(WidenDoingPath, d) }

// Busy reports whether a plan changes the control planes, as far as this host's disk says. It is true
// if that is unknown.
func (s Store) Busy() bool {
	p, err := s.Plan()
	w, unread := s.WidenPlan()
	n, unknown := s.NarrowPlan()
	return err != nil || unread != nil || unknown != nil || p != nil && !p.Stage.Over() || w != nil && !w.Stage.Over() || n != nil && !n.Stage.Over()
}
