package explain

import (
	"cmp"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// summary returns the one sentence to read first.
func summary(in Input, status Status, service Service) string {
	snap := in.Report.Snapshot
	if in.Replaced != "" {
		return serviceWords(service, snap) + "; this host is out of the cluster: " + in.Replaced
	}
	switch status {
	case Healthy:
		return "takes writes as one of two voters; either host may fail"
	case Degraded:
		return "takes writes, but is not safe: " + unsafe(snap)
	case NeedsHuman:
		if staysStopped(in.Report) {
			return "etcd is stopped here, as Pacemaker requested " + page.Duration(snap.Pacemaker.LeavingFor) + " ago; it stays so until an administrator ends the standby or enables it"
		}
		return serviceWords(service, snap) + "; it waits for " + snap.Peer + " or for an administrator"
	case Stopped:
		return "etcd is stopped here, as Pacemaker requested"
	case Waiting:
		return serviceWords(service, snap) + "; " + awaited(in, service)
	default:
		return unseen(in)
	}
}

// unseen returns the summary for a host about which too little is known.
func unseen(in Input) string {
	running := in.Report.Snapshot.Local.Running
	switch {
	case in.Source == FromFiles && state.Is(running, true):
		return "etcd runs here, but the etcd keeper, which watches over it, does not answer"
	case in.Source == FromFiles && state.Is(running, false):
		return "etcd does not run here, and the etcd keeper, which would start it, does not answer"
	}
	return "it is unknown whether etcd runs here"
}

// unsafe returns what two voters that hold everything have and this pair lacks.
func unsafe(s state.EtcdSnapshot) string {
	switch {
	case s.Pacemaker.Leaving:
		return "this host is leaving"
	case !state.Is(s.Pacemaker.Contact, true):
		return odder(s) + s.Peer + " is absent, one more failure stops the cluster, and the loss of this host loses data"
	case len(etcdmember.Strangers(s)) > 0:
		return odder(s) + "when the next host is lost, nothing takes over"
	case len(s.Local.Members.Value) > voters(s):
		return "one member is still a learner, and the loss of the other loses data"
	case voters(s) < 2:
		return s.Peer + " is not a voter yet, and the loss of this host loses data"
	}
	return "not both hosts are known to hold everything yet"
}

// odder names a member of etcd that belongs to neither host, empty if there is none.
func odder(s state.EtcdSnapshot) string {
	odd := etcdmember.Strangers(s)
	if len(odd) == 0 {
		return ""
	}
	return "etcd lists member " + odd[0].ID.String() + ", which belongs to neither host; "
}

// election is how long two voters may take to agree on a leader. A longer wait does
// not end by itself where each waits for the other.
const election = 5 * time.Second

// leaderless reports whether etcd runs but has committed nothing for longer than an
// election takes, while this host has nothing to do about it.
func leaderless(in Input) bool {
	l := in.Report.Snapshot.Local
	idle := in.Report.Verdict.Action == state.EtcdIdle || in.Report.Verdict.Action == state.EtcdWait
	return idle && service(l) == ReadsOnly && max(l.Leaderless, l.Stalled) > election
}

// awaited returns what a host that takes no writes waits for before it takes them
// again.
func awaited(in Input, service Service) string {
	snap := in.Report.Snapshot
	contact, said := snap.Pacemaker.Contact, snap.Statement
	switch {
	case service != ReadsOnly || !leaderless(in):
		return "it goes on by itself"
	case snap.Local.Sick != "":
		return "etcd on this host cannot work, " + snap.Local.Sick + ": it waits for " + snap.Peer + ", which goes on without this host"
	case in.Report.Verdict.Rule == state.EtcdRuleStallWait:
		return "it waits for " + snap.Peer + " to give way, and otherwise has it fenced"
	case snap.Local.Leader.Value != 0:
		return "it waits for a disk, its own or " + snap.Peer + "'s, to finish its writes"
	case state.Is(contact, false):
		return "it waits for " + snap.Peer + ", or for a proof that " + snap.Peer + " is off"
	case !contact.Known:
		return "it waits until it knows whether " + snap.Peer + " is in contact"
	case !said.Known || !said.Value.Running.Known:
		return "it waits for " + snap.Peer + ", which is in contact but does not report the state of its etcd"
	case !said.Value.Running.Value:
		return "it waits for etcd on " + snap.Peer + ", which does not run"
	}
	when := ""
	if said.Value.Age > 0 {
		when = " " + page.Duration(said.Value.Age) + " ago"
	}
	return "it waits for the vote of " + snap.Peer + ", whose etcd runs, as it reported" + when +
		", but does not reach this host's: check for a hung disk, port 2380 and the certificates"
}

func serviceWords(service Service, s state.EtcdSnapshot) string {
	switch service {
	case Writes:
		return "takes writes"
	case ReadsOnly:
		if s.Local.Leader.Value != 0 {
			return "read-only: etcd runs but has committed nothing for " + page.Duration(s.Local.Stalled)
		}
		lasted := ""
		if s.Local.Leaderless > 0 {
			lasted = ", for " + page.Duration(s.Local.Leaderless)
		}
		return "read-only: etcd runs but has no leader" + lasted + ", so no write is accepted"
	case None:
		return "etcd does not run here, so the API of this host neither reads nor writes"
	default:
		return "etcd runs here but did not answer"
	}
}

// Newest returns whose data directory holds more, as far as this host can know.
func Newest(s state.EtcdSnapshot) string {
	if !s.Record.Known {
		return "unknown: the record of this host cannot be read"
	}
	r := s.Record.Value
	switch r.State {
	case state.EtcdNone:
		return "unknown: this host has no record" + copyWords(s)
	case state.EtcdLearner:
		return s.Peer + "'s: this data directory is, or will be, a learner's and may lack writes"
	case state.EtcdVoter:
		return s.Peer + "'s, if they differ: this member was promoted and is not yet known to hold everything"
	case state.EtcdDeparting:
		return s.Peer + "'s: this host left the cluster" + written(r)
	case state.EtcdTakingOver, state.EtcdSole:
		if p := s.Statement; state.Is(s.Pacemaker.Contact, true) && p.Known && p.Value.Record.State.Leads() {
			return "both: each host went on alone and holds what the other lacks; this one" + cmp.Or(written(r), " at an unrecorded time") + proofWords(r)
		}
		return "this host's: it went on alone" + written(r) + proofWords(r)
	case state.EtcdPair:
		return pairWords(s, r)
	case state.EtcdWidening:
		return "neither, unless " + s.Peer + " went on alone while this host was away: this host gave up its right to go on alone, because a third member is let in" + written(r)
	case state.EtcdMajority:
		return "that of two of the members together: a third member votes, or may, and none of them goes on alone" + written(r)
	}
	return "unknown"
}

func pairWords(s state.EtcdSnapshot, r state.EtcdRecord) string {
	switch {
	case state.Is(s.Pacemaker.Contact, true) && s.Statement.Known && s.Statement.Value.Record.State.Leads():
		return s.Peer + "'s: it went on alone while this host was away"
	case state.Is(s.Pacemaker.Contact, true) && s.Statement.Known && s.Statement.Value.Record.State == state.EtcdPair:
		return "neither: both hosts hold every acknowledged write"
	case s.Boot != "" && s.Proofs.Heard == s.Boot:
		return "neither, up to the last contact with " + s.Peer + ": this data directory holds every write acknowledged until then, and " + s.Peer + " stated in this boot that it had not gone on alone"
	}
	return "unknown: both held everything" + written(r) + ", but " + s.Peer + " may have gone on alone while this host was away; only " + s.Peer + " knows"
}

func copyWords(s state.EtcdSnapshot) string {
	if s.Data.Known {
		return "; its data directory is " + string(s.Data.Value.Copy)
	}
	return ""
}

func written(r state.EtcdRecord) string {
	if r.Written.Year() < 2000 { // never set, in old snapshots
		return ""
	}
	return " (recorded " + r.Written.UTC().Format("2006-01-02 15:04:05 UTC") + ")"
}

func proofWords(r state.EtcdRecord) string {
	var out string
	if r.Proof.Kind != "" {
		out = ", since " + string(r.Proof.Kind) + ": " + r.Proof.Detail
	}
	if r.Forced.Who != "" {
		out += ", forced by " + r.Forced.Who + ": " + r.Forced.Why
	}
	return out
}

// LastContact returns when the peer was last known to be there.
func LastContact(s state.EtcdSnapshot) string {
	switch {
	case state.Is(s.Pacemaker.Contact, true):
		return s.Peer + " has been in contact for " + page.Duration(s.Uptime-s.Pacemaker.Joined)
	case !s.Pacemaker.Contact.Known:
		return "unknown whether " + s.Peer + " is in contact"
	case s.Pacemaker.Joined == 0:
		return s.Peer + " has not been in contact since this host booted " + page.Duration(s.Uptime) + " ago"
	}
	return s.Peer + " is out of contact; it last joined " + page.Duration(s.Uptime-s.Pacemaker.Joined) + " ago"
}
