package confirm

import (
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Rule is one line of the table in the form for people.
type Rule struct {
	ID   string
	When string
	Need Need
	Why  string
}

type rule struct {
	id   string
	says string // describes when the rule applies
	need Need
	why  func(*view) string
	when func(*view) bool
}

// Decide returns what must be given before a confirmation may be written.
func Decide(s Situation) Decision {
	v := look(s)
	for i := range table {
		if r := &table[i]; r.when(v) {
			return v.decision(r)
		}
	}
	return Decision{Need: Refuse, Rule: "nothing-fits", Reason: "no rule fits: please report this"}
}

// Rules returns the table in its order.
func Rules() []Rule {
	unnamed := &view{Situation: Situation{Replaced: "WHY"}, peer: "PEER"}
	out := make([]Rule, 0, len(table))
	for _, r := range table {
		out = append(out, Rule{r.id, r.says, r.need, r.why(unnamed)})
	}
	return out
}

// decision completes the rule's answer with the parts that depend on the record.
func (v *view) decision(r *rule) Decision {
	d := Decision{Need: r.need, Rule: r.id, Reason: r.why(v)}
	if r.need != Confirm && r.need != Phrase {
		return d
	}
	d.PowerOff, d.Force = v.on, v.effect == Forced
	d.Risks, d.Then = v.risks(), v.then.Reason
	if v.blind || d.Force || v.there {
		d.Need, d.Phrase = Phrase, v.phrase()
	}
	return d
}

func (v *view) verdict() string { return v.Report.Verdict.Reason }

// table lists the rules in the order in which they are tried; the first that
// fits decides. Rules that find a confirmation useless or dangerous come before
// those that say what it needs.
var table = []rule{
	{
		"replaced", "another machine has the place of this host", Refuse,
		func(v *view) string {
			return "this host is out of the cluster: " + v.Replaced + ". Its data are of before, and a confirmation would make a second cluster: switch it off, wipe its disk, then install it anew"
		},
		func(v *view) bool { return v.Replaced != "" },
	},
	{
		"no-agent", "the etcd keeper on this host does not answer", Refuse,
		say("the etcd keeper on this host does not answer, and nothing else would use a confirmation: systemctl start podman-etcd"),
		func(v *view) bool { return !v.Agent },
	},
	{
		"no-peer", "the etcd keeper does not know its peer", Refuse,
		say("the etcd keeper does not know which host is the peer: is this one of two control planes?"),
		func(v *view) bool { return v.peer == "" },
	},
	{
		"leaving", "Pacemaker stops etcd on this host", Refuse,
		say("Pacemaker stops etcd on this host, or keeps it stopped: see pcs status for the reason"),
		func(v *view) bool { return v.in(state.EtcdLeaves) },
	},
	{
		"unknown", "a basic fact about this host is unknown", Refuse,
		func(v *view) string {
			return "too little is known: " + v.verdict() + ": see systemctl status corosync pacemaker podman-etcd"
		},
		func(v *view) bool { return !v.there && !v.gone || v.in(state.EtcdUnclear) },
	},
	{
		"peer-is-there", "the peer is in contact and nothing waits for an administrator", Nothing,
		func(v *view) string { return v.peer + " is in contact: there is nothing to confirm" },
		func(v *view) bool { return v.there && !v.asks() },
	},
	{
		"goes-on", "the protocol goes on without an administrator", Nothing,
		func(v *view) string { return "this host goes on by itself: " + v.verdict() },
		func(v *view) bool { return !v.asks() && !v.awaitsFence() && goesOn(v.Report.Verdict) },
	},
	{
		"two-histories", "both hosts went on alone", Refuse,
		func(v *view) string {
			return "both hosts went on alone, and a confirmation would not choose between them. On the host whose writes are given up, run: mv " +
				state.EtcdRecordPath + " /root/ && systemctl restart podman-etcd; its data directory is then backed up and replaced"
		},
		func(v *view) bool { return v.under("two-histories") },
	},
	{
		"useless", "the protocol would not go on with a confirmation either", Refuse,
		func(v *view) string { return "a confirmation would not help: " + v.verdict() },
		func(v *view) bool { return v.effect == Useless },
	},
	{
		"fencing-under-way", "Pacemaker was recently asked to fence the peer", Wait,
		func(v *view) string {
			return "Pacemaker is fencing " + v.peer + "; a confirmation may replace the fence after " + Patience.String()
		},
		func(v *view) bool { return v.awaitsFence() && v.waited() < Patience },
	},
	{
		"two-truths", "the BMC reads Off although the peer is in contact", Refuse,
		func(v *view) string {
			return "the BMC reads Off although " + v.peer + " is in contact: it belongs to another machine, or its answer is wrong; check with: holdfast fencing verify"
		},
		func(v *view) bool { return v.there && v.off },
	},
	{
		"cannot-switch-off", "the peer is in contact and its BMC does not answer", Refuse,
		func(v *view) string {
			return v.peer + " is in contact and its BMC cannot switch it off: shut it down (on it: systemctl poweroff), then confirm"
		},
		func(v *view) bool { return v.there && v.blind },
	},
	{
		"still-on", "the peer's BMC was asked to cut the power, and does not read Off", Refuse,
		func(v *view) string {
			return "the BMC of " + v.peer + " was asked to cut its power and reads " + v.BMC.Power.Value + ", not Off: cut it by other means, then run this again"
		},
		func(v *view) bool { return v.BMC.Tried && v.on },
	},
	{
		"went-mute", "the peer's BMC was asked to cut the power, and has stopped answering", Refuse,
		func(v *view) string {
			return "the BMC of " + v.peer + " did not read Off and has stopped answering, so " + v.peer + " counts as running: make sure that it is off, then run this again"
		},
		func(v *view) bool { return v.BMC.Tried && v.blind },
	},
	{
		"off", "the peer's BMC reads Off", Confirm,
		func(v *view) string { return "the BMC of " + v.peer + " reads Off" },
		func(v *view) bool { return v.off },
	},
	{
		"on", "the peer's BMC reads another power state", Confirm,
		func(v *view) string {
			return "the BMC of " + v.peer + " reads " + v.BMC.Power.Value + ": " + v.peer + " is switched off first"
		},
		func(v *view) bool { return v.on },
	},
	{
		"unproved", "the power state of the peer cannot be read", Phrase,
		func(v *view) string { return "nothing proves that " + v.peer + " is off: " + v.BMC.Problem },
		func(*view) bool { return true },
	},
}

func say(text string) func(*view) string { return func(*view) string { return text } }

// phrase returns the text to type, which names what the administrator vouches
// for.
func (v *view) phrase() string {
	var parts []string
	switch {
	case v.there, v.on: // by a yes alone if the record allows going on, see decision
		parts = append(parts, "crash "+v.peer)
	case v.blind:
		parts = append(parts, v.peer+" is off")
	}
	if v.effect == Forced {
		parts = append(parts, "lose what only "+v.peer+" has")
	}
	return strings.Join(parts, ", ")
}

// risks lists what a wrong confirmation costs.
func (v *view) risks() []string {
	var out []string
	switch {
	case v.there:
		out = append(out, v.peer+" is running and will lose its power at once")
	case v.on && v.effect == Forced:
		out = append(out, v.peer+" has power, so it may be the host that serves now: check it first; it will lose its power at once")
	}
	if v.blind {
		out = append(out, "if "+v.peer+" is running after all, both hosts may take writes, and those of one host will be lost")
	}
	if v.effect == Forced {
		out = append(out, v.loss(), v.peer+" must not be started alone before it has had contact with this host: its data directory is then backed up and replaced")
	}
	return out
}

// loss describes the writes that this host's data directory may lack.
func (v *view) loss() string {
	switch v.Report.Snapshot.Record.Value.State {
	case state.EtcdVoter:
		return "this member became a voter just before it stopped: writes that " + v.peer + " had acknowledged by then may be missing"
	case state.EtcdDeparting:
		return "this host had left the cluster: every write since then is on " + v.peer + " alone, and will be lost"
	default:
		return "if " + v.peer + " went on without this host, every write since then is on " + v.peer + " alone, and will be lost"
	}
}

// waited returns how long a fence has been awaited. It takes the longer of two
// times, because the rule that awaits the fence may change while etcd still has
// no leader.
func (v *view) waited() time.Duration {
	return max(v.Report.Since, v.Report.Snapshot.Local.Leaderless)
}
