package gate

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
)

// pair returns the control planes that Pacemaker holds together.
func (f Facts) pair() []Host { return f.only(func(h Host) bool { return h.Pacemaker }) }

func pacemaker(f Facts) []finding {
	out := each(f.pair(), func(h Host) []finding {
		found := is(h.Name, h.Online, true, "whether Pacemaker has it as a member", "Pacemaker does not have it as a member", "Bring it back: `holdfast explain`")
		found = append(found, none(Block, h.Name, h.Marked, "marks of Pacemaker that somebody else set", "Take them away: `sudo pcs node unstandby`, `sudo pcs property set maintenance-mode=false`")...)
		return append(found, none(Block, h.Name, h.Failed, "failed actions of Pacemaker", "Mend the cause, then `sudo pcs resource cleanup`")...)
	})
	if len(f.pair()) > 0 {
		out = append(out, is("", f.Links, true, "whether all links of Corosync work", "a link of Corosync does not work", "Mend the link")...)
	}
	return out
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
	if to := f.target(); !slices.Equal(to.Stack, f.From.Stack) {
		out = append(out, block("", "Offer a release with the same packages; they are updated by themselves", "%s and %s have different packages below etcd", f.From.Name, to.Name))
	}
	return out
}

func fencing(f Facts) []finding {
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

func packages(f Facts) []finding {
	return each(f.pair(), func(h Host) []finding {
		if !h.Stack.Known {
			return []finding{unknown(h.Name, "which packages are below its etcd")}
		}
		out := none(Block, h.Name, h.Loose, "packages below etcd that are not held", "Hold them: `sudo apt-mark hold`, or `dnf versionlock`")
		if !slices.Equal(h.Stack.Value, f.From.Stack) {
			out = append(out, block(h.Name, "Bring them to the release's versions", "its packages below etcd are not those of %s: %s", f.From.Name, strings.Join(h.Stack.Value, ", ")))
		}
		return out
	})
}

// disk asks for half as much again as the release takes, above what kubelet needs.
func disk(f Facts) []finding {
	return each(f.present(), func(h Host) []finding {
		if !h.Disks.Known {
			return []finding{unknown(h.Name, "the free space of its file systems")}
		}
		var out []finding
		for _, d := range h.Disks.Value {
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

func clockKept(f Facts) []finding {
	return each(f.present(), func(h Host) []finding {
		out := is(h.Name, h.Synchronised, true, "whether something keeps its clock", "nothing keeps its clock", "Have its clock synchronised")
		switch {
		case !h.Offset.Known:
			out = append(out, unknown(h.Name, "how far its clock is off"))
		case h.Offset.Value.Abs() > clockOffset:
			out = append(out, block(h.Name, "Have its clock synchronised", "its clock is off by %s, and at most %s are allowed", h.Offset.Value.Abs(), clockOffset))
		}
		return out
	})
}

func edited(f Facts) []finding {
	return each(f.present(), func(h Host) []finding {
		return none(Block, h.Name, h.Edited, "files of the release that somebody changed", "Put them right, or say so in the configuration of the site")
	})
}
