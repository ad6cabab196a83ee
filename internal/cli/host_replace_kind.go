package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	decide "github.com/holdfast/holdfast/internal/decide/replace"
)

// replaceHere is what a host knows of the host that is to be replaced.
type replaceHere struct {
	root bool
	// plan is the last plan on this host, nil for none.
	plan *decide.Plan
	// pair are the two control planes of the site, empty if it has another number, or if this host
	// does not know.
	pair []string
}

func thisReplaceHere(store replacement.Store) (replaceHere, error) {
	out := replaceHere{root: os.Geteuid() == 0}
	if !out.root {
		return out, nil // it may read neither the plan nor the site
	}
	var err error
	if out.plan, err = store.Plan(); err != nil {
		return out, err
	}
	// A host without a site, or without keys, is none of two control planes.
	if s, _, err := ownSite(store.Path("/")); err == nil && s.Topology().Fencing {
		out.pair = decide.HostNames(s.Config)
	}
	return out, nil
}

// pairFlags returns the flags that were used and that only a lost control plane of two has.
func (f *replaceFlags) pairFlags() []string {
	return usedFlags(map[string]bool{
		"--bmc-address": f.bmc.address != "", "--bmc-username": f.bmc.username != "", "--bmc-password-file": f.bmc.passwordFile != "", "--bmc-fingerprint": f.bmc.fingerprint != "",
		"--uuid": f.uuid != "", "--own-bmc-username": f.ownUser != "", "--own-bmc-password-file": f.ownPassword != "", "--keep-bmc-account": f.keepAccount,
		"--abort": f.abort,
	})
}

// ofPair reports whether the host is one of two control planes, whose replacement is carried out by
// this host. If not, it is a worker, or a control plane that the cluster's gates refuse.
func (f *replaceFlags) ofPair(name string, here replaceHere) (bool, error) {
	flags := f.pairFlags()
	// A plan that is over says nothing of a site that has other control planes than two by now.
	planned := here.plan != nil && here.plan.Old.Name == name && (!here.plan.Stage.Over() || len(here.pair) > 0)
	known := planned || slices.Contains(here.pair, name)
	switch {
	case known && f.dir != "":
		return false, &UsageError{Err: errors.New("--dir: a lost control plane is replaced by the host that stays, which has the keys: leave the flag out")}
	case known:
		return true, nil
	case len(flags) == 0:
		return false, nil
	case !here.root:
		return false, &UsageError{Err: errors.New("host replace of a control plane works on this host's own files: run it with sudo on the control plane that stays")}
	case len(here.pair) > 0:
		return false, &UsageError{Err: fmt.Errorf("%s: %s is none of the two control planes (%s), and the replacement of a worker has no such thing: leave it out. "+
			"The removal of a worker is taken back, until its Node is deleted, by: holdfast host uncordon %[2]s", strings.Join(flags, ", "), name, strings.Join(here.pair, ", "))}
	}
	return true, nil // the agent's gates say what is missing
}
