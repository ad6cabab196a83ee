package twonode_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/twonode/evidence"
)

// Bounds of lasting faults. The targets are 5 s for an unreachable host and 30
// s for one on which something hangs. A shared machine gets four times and
// twice as much.
var (
	heldFor   = flag.Duration("held", 75*time.Second, "how long a grey failure lasts before it is mended")
	reachGate = flag.Duration("reach-gate", 20*time.Second, "how long clients on the switch may be unable to write at the API VIP while one host cannot be reached")
	greyGate  = flag.Duration("grey-gate", 60*time.Second, "the same while something of one host hangs, is filtered or has died")
)

// held is a fault that lasts for a while.
type held struct {
	// sick is the host that has the fault. No other host may be fenced. It is
	// empty if nobody can tell which host is sick.
	sick string
	// goesOn is the host that must go on; empty means either.
	goesOn string
	within time.Duration
	// least and most bound the number of fences.
	least, most int
}

// hold breaks something and leaves it broken for a while. It checks whether
// clients outside the hosts could write meanwhile, and which hosts were fenced.
// Then it mends the fault.
func (tr *trial) hold(h held, harm, mend func()) {
	tr.Helper()
	tr.forgetStalls()
	tr.survivor = h.goesOn
	tr.result.Sick, tr.result.Hold = h.sick, evidence.In(*heldFor)
	tr.now()
	harm()
	pause(tr.Context(), time.Until(tr.at.Add(*heldFor)))
	tr.couldWrite(h.within)
	tr.ended = time.Now()
	mend()
	tr.healthyAgain()
	tr.fencedOnly(h)
}

// forgetStalls makes both etcd keepers begin as on a pair that has not stalled
// in this boot. After a second stall a learner waits two minutes for its
// promotion, after a third ten (etcdmember.Quarantine), so a play would measure
// the plays before it.
func (tr *trial) forgetStalls() {
	tr.Helper()
	const memory = "/run/holdfast/etcd/memory.json"
	forgot := false
	for _, h := range tr.hosts() {
		out, err := tr.Sh(tr.Context(), h, `grep -q '"stalls":[1-9]' `+memory+` || exit 0
systemctl stop podman-etcd && sed -i 's/"stalls":[0-9]*/"stalls":0/' `+memory+` && systemctl start podman-etcd && echo forgot`)
		if err != nil {
			tr.Fatal(err)
		}
		forgot = forgot || out == "forgot"
	}
	if forgot {
		tr.eventually(wholeWithin, "whole with keepers that forgot stalls", func() error { return tr.whole(tr.Context()) })
	}
}

// couldWrite checks the longest time until now in which nobody outside could
// write at the API's virtual address, and records the same for all ways into
// the API.
func (tr *trial) couldWrite(within time.Duration) {
	tr.Helper()
	now := time.Now()
	history := tr.apiRec.Copy()
	atVIP := history.Gap(apiVIP, tr.apiRec.At(tr.at), tr.apiRec.At(now))
	anywhere := history.Gap("", tr.apiRec.At(tr.at), tr.apiRec.At(now))
	tr.result.Held, tr.result.HeldAny = new(evidence.In(atVIP.Length)), new(evidence.In(anywhere.Length))
	tr.Logf("while it was held: no write at the VIP for %.1f s (from %.1f s after the fault), by no way for %.1f s",
		atVIP.Length.Seconds(), (atVIP.From - tr.apiRec.At(tr.at)).Seconds(), anywhere.Length.Seconds())
	switch {
	case atVIP.Length > within && atVIP.Open:
		tr.Errorf("nobody could write at the VIP for the last %s of the fault, want at most %s", atVIP.Length, within)
	case atVIP.Length > within:
		tr.Errorf("nobody could write at the VIP for %s, want at most %s", atVIP.Length, within)
	}
}

// fencedOnly checks which hosts were fenced, and how often.
func (tr *trial) fencedOnly(h held) {
	tr.Helper()
	list, err := tr.fences(tr.Context(), tr.began)
	if err != nil {
		tr.Error(err)
	}
	tr.result.Fenced = nil
	for _, r := range list {
		tr.result.Fenced = append(tr.result.Fenced, r.Target)
	}
	if len(list) < h.least || len(list) > h.most {
		tr.Errorf("%d fences, want %d to %d: %+v", len(list), h.least, h.most, list)
	}
	if h.sick != "" && slices.ContainsFunc(tr.result.Fenced, func(target string) bool { return target != h.sick }) {
		tr.Errorf("fenced were %v, and sick is %s", tr.result.Fenced, h.sick)
	}
	if cuts, err := tr.Resets(tr.log, labsite.ForceOff); err != nil || len(cuts) > h.most {
		tr.Errorf("BMCs were asked to cut the power %d times, want at most %d: %v (%v)", len(cuts), h.most, cuts, err)
	}
}

// holdFaults holds faults of the lab that begin at the same moment.
func (tr *trial) holdFaults(h held, list ...lab.Fault) {
	tr.Helper()
	tr.hold(h, func() {
		for _, f := range list {
			if err := tr.Power.Inject(tr.Context(), f); err != nil {
				tr.Fatal(err)
			}
		}
	}, func() {
		if _, err := tr.Power.Clear(tr.Context(), lab.ClearRequest{}); err != nil {
			tr.Fatal(err)
		}
	})
}

// lead moves the leadership of etcd to a host.
func (tr *trial) lead(host string) {
	tr.Helper()
	tr.eventually(time.Minute, host+" leads etcd", func() error {
		if now, err := tr.leader(tr.Context()); err != nil || now == host {
			tr.leads = host
			return err
		}
		st, err := tr.etcdStatus(tr.Context(), host)
		if err != nil {
			return err
		}
		err = tr.member(tr.Context(), tr.other(host), func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.MoveLeader(ctx, st.Header.MemberId)
			return err
		})
		return errors.Join(err, errors.New("asked for it"))
	})
}

// part is the part that a host has in etcd.
type part string

const (
	leading   part = "leading"
	following part = "following"
)

// each plays a scenario on each host, leading or following. Each combination is
// a test of its own, so that some can be selected.
func each(t *testing.T, name string, parts []part, play func(tr *trial, sick string)) {
	for _, sick := range []string{"cp-1", "cp-2"} {
		for _, p := range parts {
			full := name + ", " + sick
			if len(parts) > 1 {
				full += " " + string(p)
			}
			unseen(t, full, func(tr *trial) {
				leader := sick
				if p == following {
					leader = tr.other(sick)
				}
				tr.lead(leader)
				play(tr, sick)
			})
		}
	}
}

// either is for scenarios in which the leader does not matter: the sick host
// leads.
var either = []part{leading}

// unseen plays a scenario without a check of what people are told, because
// nobody has approved a text for it yet.
func unseen(t *testing.T, name string, play func(tr *trial)) {
	t.Run(slug(name), func(t *testing.T) {
		s := open(t)
		for i := range max(*repeat, 1) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				tr := newTrial(t, s, name, i)
				tr.blindfold = true
				tr.play(play)
			})
			if t.Failed() {
				s.recover(t)
			}
		}
	})
}

// recover repairs the lab after a failed scenario, so that the next one makes
// sense: it clears the faults and switches on the hosts that are off.
func (s *site) recover(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), wholeWithin)
	defer cancel()
	if _, err := s.Power.Clear(ctx, lab.ClearRequest{}); err != nil {
		t.Log(err)
	}
	for _, h := range s.hosts() {
		if st, err := s.PowerOf(ctx, h); err == nil && st.Power == lab.PowerOff {
			if err := s.Power.Power(ctx, lab.PowerRequest{Host: h, Action: lab.ActionOn}); err != nil {
				t.Log(err)
			}
		}
	}
	for s.whole(ctx) != nil && ctx.Err() == nil {
		pause(ctx, 2*time.Second)
	}
	if err := s.whole(context.WithoutCancel(ctx)); err != nil {
		t.Logf("the cluster is not whole %s after a failure: %v", wholeWithin, err)
	}
}
