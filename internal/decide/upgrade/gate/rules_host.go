package gate

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// pair returns the control planes that Pacemaker holds together.
func (f Facts) pair() []Host { return f.only(func(h Host) bool { return h.Pacemaker }) }

func pacemaker(f Facts) []finding {
	return each(f.pair(), func(h Host) []finding {
		found := is(h.Name, h.Online, true, "whether Pacemaker has it as a member", "Pacemaker does not have it as a member", "Bring it back: `holdfast explain`")
		found = append(found, none(Block, h.Name, h.Marked, "marks of Pacemaker that somebody else set", "Take them away: `sudo pcs node unstandby`, `sudo pcs property set maintenance-mode=false`")...)
		found = append(found, none(Block, h.Name, h.Failed, "failed actions of Pacemaker", "Mend the cause, then `sudo pcs resource cleanup`")...)
		if len(f.pair()) < 2 { // its links lead nowhere
			return found
		}
		return append(found, is(h.Name, h.Links, true, "whether all links of Corosync work", "a link of its Corosync does not reach the other host", "Mend the link: `sudo corosync-cfgtool -s` says which one")...)
	})
}

// featureSet refuses a mix of feature sets: once the last host with the older one is
// lost, it can no longer come back.
func featureSet(f Facts) []finding {
	out := each(f.pair(), func(h Host) []finding {
		if !h.Features.Known {
			return []finding{unknown(h.Name, "the feature set of its Pacemaker")}
		}
		return nil
	})
	if pair := f.pair(); len(out) == 0 && len(pair) > 1 && slices.ContainsFunc(pair, func(h Host) bool { return h.Features.Value != pair[0].Features.Value }) {
		var have []string
		for _, h := range pair {
			have = append(have, h.Name+" "+h.Features.Value)
		}
		out = append(out, block("", "Bring Pacemaker to one version first; that step has no way back", "feature sets of Pacemaker differ: %s", strings.Join(have, ", ")))
	}
	// The distribution brings these packages, so a release names none as a rule.
	if to := f.target(); len(to.Stack) > 0 && len(f.From.Stack) > 0 && !slices.Equal(to.Stack, f.From.Stack) {
		out = append(out, block("", "Offer a release with the same packages; they are updated by themselves", "%s and %s have different packages below etcd", f.From.Name, to.Name))
	}
	return out
}

// fencing asks nothing of a host that is left alone: nobody would fence it, and it nobody.
func fencing(f Facts) []finding {
	if len(f.pair()) < 2 {
		return nil
	}
	return each(f.pair(), func(h Host) []finding {
		out := is(h.Name, h.Fencing, true, "whether fencing is enabled", "fencing is not enabled", "Enable it: `holdfast status` says how")
		way := "Rehearse it: `holdfast fencing verify`"
		switch age := f.Now.Sub(h.Fenced.Value); {
		case !h.Fenced.Known:
			out = append(out, unknown(h.Name, "when its BMC last answered"))
		case h.Fenced.Value.IsZero():
			out = append(out, block(h.Name, way, "nothing shows that its BMC would switch it off"))
		case age > proofAge:
			out = append(out, block(h.Name, way, "its BMC last answered %s ago, and at most %s are allowed", page.Duration(age), page.Duration(proofAge)))
		case age < 0:
			out = append(out, block(h.Name, way, "its BMC answered at a time that is not yet: a clock is wrong"))
		}
		return out
	})
}

// packages asks that hosts have the same below etcd, and keep it: what a release was tried
// with is what the hosts have.
func packages(f Facts) []finding {
	out := each(f.pair(), func(h Host) []finding {
		if !h.Stack.Known {
			return []finding{unknown(h.Name, "which packages are below its etcd")}
		}
		names := strings.Join(h.Loose.Value, " ")
		return none(Block, h.Name, h.Loose, "packages below etcd that automatic updates may change", "Hold them there: `sudo apt-mark hold "+names+"`, on RHEL `sudo dnf versionlock add "+names+"`")
	})
	return append(out, f.differentPackages()...)
}

func (f Facts) differentPackages() []finding {
	pair := f.pair()
	var names []string
	for _, h := range pair {
		if !h.Stack.Known {
			return nil
		}
		for _, p := range h.Stack.Value {
			name, _, _ := strings.Cut(p, "=")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var differ []string
	for _, name := range slices.Compact(names) {
		var have []string
		for _, h := range pair {
			have = append(have, h.version(name))
		}
		if slices.ContainsFunc(have, func(v string) bool { return v != have[0] }) {
			for i, h := range pair {
				have[i] = h.Name + " has " + have[i]
			}
			differ = append(differ, name+" ("+strings.Join(have, ", ")+")")
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return []finding{block("", "Have the same on all of them, one host after the other: `sudo apt-get install NAME=VERSION`, on RHEL `sudo dnf install NAME-VERSION`", "packages below etcd differ: %s", strings.Join(differ, ", "))}
}

// version returns which version of a package lies below etcd of a host.
func (h Host) version(name string) string {
	for _, p := range h.Stack.Value {
		if version, is := strings.CutPrefix(p, name+"="); is {
			return version
		}
	}
	return "none"
}

// disk asks for half as much again as the release takes, above what kubelet needs. A host
// that has the release whole needs no more.
func disk(f Facts) []finding {
	return each(f.present(), func(h Host) []finding {
		if !h.Disks.Known {
			return []finding{unknown(h.Name, "the free space of its file systems")}
		}
		var out []finding
		has := f.To != nil && h.Whole.Known && slices.Contains(h.Whole.Value, f.To.Digest)
		for _, d := range h.Disks.Value {
			if has {
				d.Need = 0
			}
			if want := d.Line + d.Need + d.Need/2; d.Free < want {
				out = append(out, block(h.Name, "Free or add space", "%s has %d MiB free, and %d MiB are needed", d.Path, d.Free>>20, want>>20))
			}
		}
		return out
	})
}

// fetched asks that each host has both releases: the new one to go to, and the old
// one to return to.
func fetched(f Facts) []finding {
	if f.To == nil {
		return nil
	}
	return each(f.present(), func(h Host) []finding {
		if !h.Whole.Known {
			return []finding{unknown(h.Name, "which releases lie there whole")}
		}
		var out []finding
		for _, r := range []Release{f.From, f.target()} {
			if !slices.Contains(h.Whole.Value, r.Digest) {
				out = append(out, finding{Wait, h.Name, r.Name + " does not lie there whole", "It is fetched by itself; `holdfast status` says if that fails"})
			}
		}
		return out
	})
}

// ends finds certificates that end before a moment.
func ends(f Facts, after, before time.Time, why, way string) []finding {
	return each(f.controlPlanes(), func(h Host) []finding {
		if !h.Certificates.Known {
			return []finding{unknown(h.Name, "when its certificates end")}
		}
		var out []finding
		for _, c := range h.Certificates.Value {
			if c.Ends.Before(before) && !c.Ends.Before(after) {
				out = append(out, block(h.Name, way, "%s ends at %s, %s", c.Name, c.Ends.UTC().Format(time.RFC3339), why))
			}
		}
		return out
	})
}

// done is when the upgrade is committed at the latest, if nothing holds it.
func (f Facts) done() time.Time { return f.Now.Add(f.Soak + work) }

func certificatesLast(f Facts) []finding {
	return ends(f, time.Time{}, f.done(), "before the way back is closed", "Renew first, and upgrade then")
}

func certificatesMargin(f Facts) []finding {
	return ends(f, f.done(), f.done().Add(margin), "within "+page.Duration(margin)+" after the commit", "Renew first, and upgrade then")
}

// clockRight asks for a clock that is known to be wrong. How far a clock is off is known
// only while something keeps it; clockSource asks for that.
func clockRight(f Facts) []finding {
	way := "Set its clock right: `timedatectl`, `chronyc tracking` there"
	return each(f.present(), func(h Host) []finding {
		var out []finding
		switch {
		case !h.Synchronised.Known:
			out = append(out, unknown(h.Name, "whether something keeps its clock"))
		case !h.Synchronised.Value: // clockSource
		case !h.Offset.Known:
			out = append(out, unknown(h.Name, "how far its clock is off"))
		case h.Offset.Value.Abs() > clockOffset:
			out = append(out, block(h.Name, way, "its clock is off by %s, and at most %s are allowed", h.Offset.Value.Abs(), clockOffset))
		}
		if h.Ahead > clockAhead {
			out = append(out, block(h.Name, way, "its clock is at least %s ahead of the operator's, and at most %s are allowed", h.Ahead.Round(time.Second), clockAhead))
		}
		return out
	})
}

// clockSource asks for something that keeps the clocks. Sites without any exist, so an
// administrator may say that the clocks are right.
func clockSource(f Facts) []finding {
	return each(f.present(), func(h Host) []finding {
		if !state.Is(h.Synchronised, false) {
			return nil
		}
		return []finding{block(h.Name, "Have it synchronised there: `sudo systemctl enable --now chrony`; without a time server compare the clocks of all hosts", "nothing keeps its clock, so nobody knows that it is right")}
	})
}

func edited(f Facts) []finding {
	return each(f.present(), func(h Host) []finding {
		return none(Block, h.Name, h.Edited, "files of the release that somebody changed", "Put them right, or say so in the configuration of the site")
	})
}
