package replacement

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The files of a plan by which three control planes become two (docs/adr/0102). The command writes the
// wish and the target, the agents of both hosts that stay write the others, each on its own host.
const (
	NarrowWishPath  = "/var/lib/holdfast/replace/narrow-wish.json"
	NarrowPlanPath  = "/var/lib/holdfast/replace/narrow-plan.json"
	NarrowDoingPath = "/run/holdfast/replace/narrow-doing.json"

	// NarrowTargetPath has what this host is to become, with the accounts of both BMCs. The command
	// writes it on the host that carries the plan, the agent on the other one; the agents remove it.
	NarrowTargetPath = "/var/lib/holdfast/replace/narrow-target.json"
	// NarrowTracePath says what this host and the cluster have of two control planes, where nothing else
	// shows it.
	NarrowTracePath = "/var/lib/holdfast/replace/narrow-trace.json"
)

// NarrowDoing is the last decision of this host's agent about such a plan, for the command.
type NarrowDoing struct {
	Step, Rule, Words, Way string
	Act                    narrow.Act
	// Wish is the ID of the wish that the decision is about. Gates has all of its gates before
	// anything has begun.
	Wish  string         `json:",omitempty"`
	Gates []replace.Gate `json:",omitempty"`
	// Problem is the error of the last act, empty if the act succeeded.
	Problem string `json:",omitempty"`
}

// NarrowTarget is the site of two control planes that a host becomes part of. It holds secrets.
type NarrowTarget struct {
	// Plan is the ID of the plan, or of the wish for one, that the target is of.
	Plan string
	// Site has the accounts of both BMCs in its configuration.
	Site *site.Site
	// Devices are those of both hosts, with the identity of each machine.
	Devices []state.FencingDevice
}

// narrowTarget is the form of a target in a file. A site has an encoder of its own.
type narrowTarget struct {
	Plan    string                `json:"plan"`
	Site    json.RawMessage       `json:"site"`
	Devices []state.FencingDevice `json:"devices"`
}

// Marshal returns the target as JSON. It holds secrets.
func (t NarrowTarget) Marshal() ([]byte, error) {
	text, err := t.Site.Marshal()
	if err != nil {
		return nil, err
	}
	return json.Marshal(narrowTarget{Plan: t.Plan, Site: text, Devices: t.Devices})
}

// UnmarshalNarrowTarget reads the form that Marshal writes. Its errors quote no secret.
func UnmarshalNarrowTarget(data []byte) (*NarrowTarget, error) {
	var t narrowTarget
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("the site of two control planes is damaged: no JSON of %d bytes", len(data))
	}
	s, err := site.Unmarshal(t.Site)
	if err != nil {
		return nil, err
	}
	return &NarrowTarget{Plan: t.Plan, Site: s, Devices: t.Devices}, nil
}

// NarrowTrace is what a host, and by it the cluster, has of two control planes.
type NarrowTrace struct {
	// Began is true from before the first file of two is written until the last one is gone. Equipped is
	// true once all packages, units and files are there.
	Began    bool `json:"began,omitempty"`
	Equipped bool `json:"equipped,omitempty"`
	// Dressing is true on the host that carries the plan from before the first object of the cluster
	// changes until all are those of three again.
	Dressing bool `json:"dressing,omitempty"`
}

// NarrowWish returns the command's last wish for two control planes, nil for none.
func (s Store) NarrowWish() (*narrow.Wish, error) { return load[narrow.Wish](s, NarrowWishPath) }

// PutNarrowWish writes a wish.
func (s Store) PutNarrowWish(w narrow.Wish) error { return s.put(NarrowWishPath, w) }

// DropNarrowWish removes the wish.
func (s Store) DropNarrowWish() error { return s.drop(NarrowWishPath) }

// ClearNarrowWish removes the wish that was read, as ClearOrder does.
func (s Store) ClearNarrowWish(read *narrow.Wish) (newer bool, err error) {
	return clearFile(s, NarrowWishPath, read)
}

// NarrowPlan returns the plan, or this host's copy of it, nil for none. It may have a higher format
// number than this release reads; the caller must compare it.
func (s Store) NarrowPlan() (*narrow.Plan, error) { return load[narrow.Plan](s, NarrowPlanPath) }

// PutNarrowPlan writes the plan.
func (s Store) PutNarrowPlan(p narrow.Plan) error { return s.put(NarrowPlanPath, p) }

// NarrowDoing returns the last decision of this boot, nil for none.
func (s Store) NarrowDoing() (*NarrowDoing, error) { return load[NarrowDoing](s, NarrowDoingPath) }

// PutNarrowDoing writes the last decision.
func (s Store) PutNarrowDoing(d NarrowDoing) error { return s.put(NarrowDoingPath, d) }

// NarrowTarget returns what this host is to become, nil if that is not written down.
func (s Store) NarrowTarget() (*NarrowTarget, error) {
	data, err := load[json.RawMessage](s, NarrowTargetPath)
	if err != nil || data == nil {
		return nil, err
	}
	t, err := UnmarshalNarrowTarget(*data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", NarrowTargetPath, err)
	}
	return t, nil
}

// PutNarrowTarget writes down what this host is to become.
func (s Store) PutNarrowTarget(t NarrowTarget) error {
	data, err := t.Marshal()
	if err != nil {
		return err
	}
	return s.Write(s.Path(NarrowTargetPath), data, state.SecretFileMode)
}

// DropNarrowTarget removes it, with the accounts in it.
func (s Store) DropNarrowTarget() error { return s.drop(NarrowTargetPath) }

// NarrowTrace returns what this host has of two control planes, empty for nothing.
func (s Store) NarrowTrace() (NarrowTrace, error) {
	t, err := load[NarrowTrace](s, NarrowTracePath)
	if err != nil || t == nil {
		return NarrowTrace{}, err
	}
	return *t, nil
}

// PutNarrowTrace writes what this host has of two control planes. Without anything the file goes.
func (s Store) PutNarrowTrace(t NarrowTrace) error {
	if t == (NarrowTrace{}) {
		return s.drop(NarrowTracePath)
	}
	return s.put(NarrowTracePath, t)
}
