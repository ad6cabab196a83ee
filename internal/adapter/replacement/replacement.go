// Package replacement reads and writes the files that `holdfast host replace` and the agent of
// the host that stays exchange (docs/adr/0083). It decides nothing: that is decide/replace,
// and agent/replace acts.
package replacement

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The files of a replacement. The command writes the wish and the two sites, the agent all
// others. Files below /run are gone after a boot.
const (
	WishPath     = "/var/lib/holdfast/replace/wish.json"
	PlanPath     = "/var/lib/holdfast/replace/plan.json"
	SecretsPath  = "/var/lib/holdfast/replace/secrets.json"
	NewcomerPath = "/run/holdfast/replace/newcomer.json"
	DoingPath    = "/run/holdfast/replace/doing.json"

	// LoneSitePath keeps the site.json of a lone control plane while its site grows
	// (docs/adr/0092), with the secrets in it. `holdfast topology apply` writes it, and the
	// agent removes it once the plan is whole.
	LoneSitePath = "/var/lib/holdfast/replace/lone-site.json"

	// TargetSitePath is the site.json that this host gets once its site has shrunk to one control
	// plane (docs/adr/0096), with the secrets in it. The command writes it, and the agent removes it.
	TargetSitePath = "/var/lib/holdfast/replace/target-site.json"

	// OustedPath is there once this host found that another machine has its place. It lies
	// on the old host's disk.
	OustedPath = "/var/lib/holdfast/replace/ousted.json"
)

// Order is written by the command: the wish, and the accounts that the wish needs.
type Order struct {
	Wish replace.Wish `json:"wish"`
	// Device is the fencing device of the new host. Own has the new account of this host's
	// own BMC, empty if the account is kept.
	Device state.FencingDevice `json:"device"`
	Own    Account             `json:"own,omitzero"`
}

// Account is an account of a BMC.
type Account struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// Secrets are those that the agent makes once for a plan.
type Secrets struct {
	Plan    string `json:"plan"`
	Token   string `json:"token"`
	JoinKey []byte `json:"joinKey"`
	// FormerJoinKey is the key of join secrets that was in force when the old host was retired: the old
	// host may have it. Plans of earlier releases lack it.
	FormerJoinKey []byte `json:"formerJoinKey,omitempty"`
}

// Doing is the last decision of the agent, for the command.
type Doing struct {
	Step, Rule, Words, Way string
	Act                    replace.Act
	// Wish is the ID of the wish that the decision is about. Gates has all of its gates
	// before anything has begun.
	Wish  string         `json:",omitempty"`
	Gates []replace.Gate `json:",omitempty"`
	// Problem is the error of the last act, empty if the act succeeded.
	Problem string `json:",omitempty"`
}

// Store reads and writes the files of one host.
type Store struct {
	Root string
	// Write replaces a file durably.
	Write func(path string, data []byte, mode fs.FileMode) error
}

// ThisStore returns the store of this host.
func ThisStore() Store { return Store{Write: host.WriteFileAtomic} }

// Path returns the path of a file of the host.
func (s Store) Path(name string) string { return filepath.Join("/", s.Root, name) }

// Order returns the command's last order, nil for none.
func (s Store) Order() (*Order, error) { return load[Order](s, WishPath) }

// PutOrder writes an order.
func (s Store) PutOrder(o Order) error { return s.put(WishPath, o) }

// DropOrder removes the order, with the accounts in it.
func (s Store) DropOrder() error { return s.drop(WishPath) }

// DropSecrets removes the secrets of a plan that is over.
func (s Store) DropSecrets() error { return s.drop(SecretsPath) }

// DropLoneSite removes the site of a lone control plane whose growth is whole.
func (s Store) DropLoneSite() error { return s.drop(LoneSitePath) }

// DropTargetSite removes the site that a host gets, once it has it or the plan was taken back.
func (s Store) DropTargetSite() error { return s.drop(TargetSitePath) }

// HasSecrets reports whether there are secrets of any plan. It is true if that is unknown.
func (s Store) HasSecrets() bool { return s.has(SecretsPath) }

// HasLoneSite reports whether there is a lone site. It is true if that is unknown.
func (s Store) HasLoneSite() bool { return s.has(LoneSitePath) }

// HasTargetSite reports whether the site is there that this host is to get. It is false if that is
// unknown.
func (s Store) HasTargetSite() bool {
	_, err := os.Lstat(s.Path(TargetSitePath))
	return err == nil
}

func (s Store) has(path string) bool {
	_, err := os.Lstat(s.Path(path))
	return !errors.Is(err, fs.ErrNotExist)
}

func (s Store) drop(path string) error { return host.RemoveFile(s.Path(path)) }

// ClearOrder removes the order that was read, and reports whether the command has written another
// one since then, which stays.
func (s Store) ClearOrder(read *Order) (newer bool, err error) { return clearFile(s, WishPath, read) }

// ClearAbort takes out of the order that was read that the plan is to be taken back. An order without
// accounts goes: nothing is left of it. One that the command has written since then stays as it is.
func (s Store) ClearAbort(read *Order) error {
	now, err := s.Order()
	switch {
	case err != nil || read == nil || !reflect.DeepEqual(now, read):
		return err
	case read.Device.Address == "" && read.Own == (Account{}):
		return s.DropOrder()
	}
	kept := *read
	kept.Wish.Abort = false
	return s.PutOrder(kept)
}

// clearFile removes a file that has what was read from it, nil for no file. It reports whether it
// has something else by now: then it stays.
func clearFile[T any](s Store, path string, read *T) (newer bool, err error) {
	now, err := load[T](s, path)
	switch {
	case err != nil || now == nil:
		return false, err
	case read == nil || !reflect.DeepEqual(*now, *read):
		return true, nil
	}
	return false, s.drop(path)
}

// Plan returns the plan, nil for none. The plan may have a higher format number than this
// release reads; the caller must compare it.
func (s Store) Plan() (*replace.Plan, error) { return load[replace.Plan](s, PlanPath) }

// Doing returns the last decision of this boot, nil for none.
func (s Store) Doing() (*Doing, error) { return load[Doing](s, DoingPath) }

// PutPlan writes the plan.
func (s Store) PutPlan(p replace.Plan) error { return s.put(PlanPath, p) }

// PutDoing writes the last decision.
func (s Store) PutDoing(d Doing) error { return s.put(DoingPath, d) }

// PutSecrets writes the secrets of a plan.
func (s Store) PutSecrets(v Secrets) error { return s.put(SecretsPath, v) }

// Request is the request of a newcomer that asks to enter.
type Request struct {
	Machine state.Machine `json:"machine"`
	Address string        `json:"address"`
	Arch    string        `json:"arch"`
	At      time.Time     `json:"at"`
	// Installation is that of replace.Newcomer.
	Installation string `json:"installation,omitempty"`
}

// Installed returns the newcomer with its installation, for a plan that tells a machine that was
// installed anew.
func (r Request) Installed() replace.Newcomer {
	return replace.Newcomer{Machine: r.Machine, Address: r.Address, Installation: r.Installation}
}

// PutRequest writes the last request of a newcomer.
func (s Store) PutRequest(r Request) error { return s.put(NewcomerPath, r) }

// Request returns the last request of a newcomer in this boot, nil for none.
func (s Store) Request() (*Request, error) { return load[Request](s, NewcomerPath) }

// Secrets returns the secrets of a plan, zero if there are none.
func (s Store) Secrets(plan string) (Secrets, error) {
	have, err := load[Secrets](s, SecretsPath)
	if err != nil || have == nil || have.Plan != plan {
		return Secrets{}, err
	}
	return *have, nil
}

// ousted is what a host writes down about its own place.
type ousted struct {
	Why string `json:"why"`
}

// Ousted returns why this host is out of the cluster, as its agent wrote it down; empty if it did
// not. A damaged file counts, as it does for the agent.
func (s Store) Ousted() (string, error) {
	had, err := load[ousted](s, OustedPath)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", err
	case err == nil && had == nil:
		return "", nil
	case err != nil || had.Why == "":
		return "another machine has the place of this host", nil //nolint:nilerr // the file says so by being there
	}
	return had.Why, nil
}

// PutOusted writes down why this host is out.
func (s Store) PutOusted(why string) error { return s.put(OustedPath, ousted{why}) }

func (s Store) put(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.Write(s.Path(path), data, state.SecretFileMode)
}

// load reads a file. It returns nil if there is none, and an error if it cannot be read.
func load[T any](s Store, path string) (*T, error) {
	data, err := os.ReadFile(s.Path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value := new(T)
	if err := json.Unmarshal(data, value); err != nil {
		return nil, fmt.Errorf("read %s: it is damaged: %w", path, err)
	}
	return value, nil
}
