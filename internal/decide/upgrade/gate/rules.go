package gate

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// BackupAge is how old the backup may be with which an upgrade begins, and that with which
// its way back is closed. It is also for how long a wish for one counts.
const BackupAge = 24 * time.Hour

// The gates that the operator opens itself, by asking for a backup.
const (
	BackupGate       ID = "backup"
	BackupCommitGate ID = "backup-commit"
)

// Limits of the gates.
const (
	// proofAge is how old the last answer of a BMC may be.
	proofAge = 24 * time.Hour
	// observation is for how long uses of removed APIs must have been looked for.
	observation = 24 * time.Hour
	// clockOffset is how far a clock may be off.
	clockOffset = 500 * time.Millisecond
	// clockAhead is how far a clock may be ahead of the operator's.
	clockAhead = 2 * time.Second
	// work is the time that the hosts themselves take, beside the soak.
	work = 24 * time.Hour
	// margin is how long certificates last beyond the commit.
	margin = 30 * 24 * time.Hour
	// oldestKubelet is by how many minor releases a kubelet may be older than the
	// release that API servers emulate.
	oldestKubelet = 2
)

// rules is the table of gates. People read them in this order.
var rules = []rule{
	{"release", Must, Begin, release},
	{"idle", Must, Begin, idle},
	{"plan", Must, Begin | Between, plan},
	{"control-planes", Must, Begin, allPlanes},
	{"hosts", Must, always, hosts},
	{"workers", Must, always, workersReady},
	{"mixed-release", Must, Begin, oneRelease},
	{"etcd-members", Must, always, etcdMembers},
	{"etcd-data", Must, always, etcdData},
	{"etcd-version", Must, always, etcdVersion},
	{"leaders", Must, always, leaders},
	{"refused-objects", May, Begin | Between | Commit, refusedObjects},
	{"skew", Must, always, skew},
	{"formats", Must, always, formats},
	{"steps", Must, Begin | Between, steps},
	{"network", Must, Begin, network},
	{"pacemaker", Must, always, pacemaker},
	{"feature-set", Must, always, featureSet},
	{"fencing", Must, always, fencing},
	{"packages", Must, Begin | Between, packages},
	{"disk", Must, Begin | Between, disk},
	{"fetched", Must, Between, fetched},
	{"certificates", Must, Begin, certificatesLast},
	{"certificates-margin", May, Begin, certificatesMargin},
	{"clock", Must, always, clockRight},
	{"clock-source", May, always, clockSource},
	{"edited-files", Must, Begin | Between, edited},
	{"stored-versions", Must, Begin | Commit, storedVersions},
	{"deprecated-apis", May, Begin, deprecated},
	{"sandboxes", May, Between | Commit, sandboxes},
	{"webhooks", May, Begin | Between, webhooks},
	{"disruption-budgets", May, Begin | Between, budgets},
	{"immovable-pods", Advice, Begin, immovable},
	{BackupGate, May, Begin, backup},
	{BackupCommitGate, May, Close, backupCommit},
	{"incidents", May, always, incidents},
	{"window", May, Begin | Between | Bring, window},
	{"battery", May, always, battery},
}

func release(f Facts) []finding {
	if f.To == nil {
		return nil
	}
	var out []finding
	way := "Offer another release"
	if f.To.Digest == "" || !f.To.Verified {
		out = append(out, block("", "Fetch the release again, by its digest", "%s has no digest with which its contents were compared", f.To.Name))
	}
	if f.To.Version.Compare(f.From.Version) < 0 {
		out = append(out, block("", "Only the parachute of an upgrade leads to an older release", "%s is older than %s", f.To.Name, f.From.Name))
	}
	if f.From.Version.Compare(f.To.Least) < 0 {
		out = append(out, block("", "Upgrade to a release between them first", "an upgrade to %s begins at Holdfast %s at the oldest, and %s is %s", f.To.Name, f.To.Least, f.From.Name, f.From.Version))
	}
	if up, same := f.To.Kubernetes.minorsAbove(f.Level); !same || up < 0 || up > 1 {
		out = append(out, block("", way, "%s has Kubernetes %s, and the site is at the functional level %s: one minor release after the other", f.To.Name, f.To.Kubernetes, f.Level.Series()))
	}
	return out
}

func idle(f Facts) []finding {
	out := none(Wait, "", f.Work, "other work on hosts", "Wait until it ends: `holdfast status` shows it")
	switch {
	case !f.Upgrade.Known:
		return append(out, unknown("", "whether an upgrade is under way"))
	case f.Upgrade.Value != "" && (f.To == nil || f.Upgrade.Value != f.To.Digest):
		return append(out, block("", "Commit it, or go back, before another one begins", "an upgrade to another release is under way"))
	}
	return out
}

// plan closes the gate while a plan changes the control planes. It is also asked between hosts,
// since a plan may take its lock in the moment in which an upgrade begins.
func plan(f Facts) []finding {
	switch {
	case !f.Plan.Known:
		return []finding{unknown("", "whether a plan replaces or adds a control plane")}
	case f.Plan.Value != "":
		return []finding{{Wait, "", f.Plan.Value, "Wait until the plan is whole, or take it back with --abort while it can be"}}
	}
	return nil
}

// mostReplaced is the most control planes of a site of which one can be replaced. With more of them an
// upgrade goes on without one.
const mostReplaced = 3

// allPlanes asks for a node of each control plane. The turns of hosts wait for one that is missing, and an
// upgrade that has begun stands in the way of the machine that would take its place.
func allPlanes(f Facts) []finding {
	there := len(f.controlPlanes())
	switch {
	case !f.ControlPlanes.Known:
		return []finding{unknown("", "how many control planes the site has, as ConfigMap kube-system/cluster-config-v1 says")}
	case there < f.ControlPlanes.Value && f.ControlPlanes.Value <= mostReplaced:
		way := "Have another machine take the place of the lost one first: `holdfast host replace NAME`"
		if f.ControlPlanes.Value == 2 && there == 1 {
			// A host whose growth was taken back stays prepared as one of two.
			way += ". If the second one never came, finish the growth instead: `sudo holdfast topology apply --install-config FILE --address ADDRESS --join-file FILE`"
		}
		return []finding{block("", way, "of %d control planes %d have a node", f.ControlPlanes.Value, there)}
	}
	return nil
}

func hosts(f Facts) []finding {
	return each(f.controlPlanes(), func(h Host) []finding {
		return is(h.Name, h.Ready, true, "whether it is ready", "it is not ready", "Bring it back: `holdfast status` says what is missing")
	})
}

// workersReady: nobody skips it. The site goes on without no host, a worker that was left behind has no
// way to the site's release, and its kubelet may be too old for the next one.
func workersReady(f Facts) []finding {
	return each(f.workers(), func(h Host) []finding {
		return is(h.Name, h.Ready, true, "whether it is ready", "it is not ready", "Bring it back. If it stays away, take it out (`holdfast host remove "+h.Name+" --is-off "+h.Name+"`), and wipe it before it joins again")
	})
}

func oneRelease(f Facts) []finding {
	if !f.Upgrade.Known || f.Upgrade.Value != "" {
		return nil // hosts of an upgrade that is under way differ
	}
	return each(f.Hosts, func(h Host) []finding {
		return is(h.Name, h.Release, f.From.Digest, "which release runs there", "it runs another release than the site", "No upgrade leads one host alone to the site's release: "+anew(h))
	})
}

// anew says how a host comes to the release of the site: it is installed with it.
func anew(h Host) string {
	if h.Worker {
		return "take it out with `holdfast host remove " + h.Name + "`, wipe it, and let it join again"
	}
	return "have it installed anew: `holdfast host replace " + h.Name + "`"
}

func etcdMembers(f Facts) []finding {
	if !f.Etcd.Members.Known {
		return []finding{unknown("", "who is a member of etcd")}
	}
	var out []finding
	way := "Wait until it is a voter, or mend it: `holdfast explain etcd`"
	for _, h := range f.controlPlanes() {
		i := slices.IndexFunc(f.Etcd.Members.Value, func(m Member) bool { return m.Host == h.Name })
		switch {
		case i < 0:
			out = append(out, block(h.Name, way, "it is no member of etcd"))
		case !f.Etcd.Members.Value[i].Started:
			out = append(out, block(h.Name, way, "its etcd has not started"))
		case !f.Etcd.Members.Value[i].Voter:
			out = append(out, finding{Wait, h.Name, "its etcd is a learner", way})
		}
	}
	for _, m := range f.Etcd.Members.Value {
		if !slices.ContainsFunc(f.controlPlanes(), func(h Host) bool { return h.Name == m.Host }) {
			out = append(out, block("", "Remove the member that is gone for good", "etcd lists %s, which is no control plane", cmp.Or(m.Host, "a member without a host")))
		}
	}
	return append(out, is("", f.Etcd.StandIn, false, "whether a stand-in votes", "a stand-in votes for a lost member", "Wait until the lost host is back")...)
}

func etcdData(f Facts) []finding {
	out := is("", f.Etcd.Equal, true, "whether the data of all members are equal", "the data of the members differ at one revision", "Stop here and look for the right data: `holdfast explain etcd`")
	return append(out, none(Block, "", f.Etcd.Alarms, "alarms of etcd", "Clear what raised them")...)
}

// etcdVersion refuses another minor release of etcd: once the last old member is no
// longer listed, also because it died, etcd raises the version of its data by itself.
func etcdVersion(f Facts) []finding {
	to := f.target()
	var out []finding
	for what, fact := range map[string]state.Fact[Version]{"etcd's cluster version": f.Etcd.Cluster, "etcd's storage version": f.Etcd.Storage} {
		switch {
		case !fact.Known:
			out = append(out, unknown("", what))
		case fact.Value.series() != to.Etcd.series():
			out = append(out, block("", "Only a release with the same minor release of etcd keeps the way back open", "%s is %s, and %s has etcd %s", what, fact.Value.Series(), to.Name, to.Etcd))
		}
	}
	slices.SortFunc(out, func(a, b finding) int { return cmp.Compare(a.why, b.why) })
	for _, m := range f.Etcd.Members.Value {
		switch {
		case !m.Version.Known:
			out = append(out, unknown(m.Host, "the version of its etcd"))
		case m.Version.Value.series() != to.Etcd.series():
			out = append(out, block(m.Host, "Only a release with the same minor release of etcd keeps the way back open", "it runs etcd %s, and %s has etcd %s", m.Version.Value, to.Name, to.Etcd))
		case m.Version.Value.Compare(to.LeastEtcd) < 0:
			out = append(out, block(m.Host, "Upgrade to a release between them first", "its etcd %s is not safe to return to: %s asks for %s at least", m.Version.Value, to.Name, to.LeastEtcd))
		}
	}
	return out
}

// skew goes by the functional level: kubelets and kube-proxies must not be newer than
// what the API servers emulate.
func skew(f Facts) []finding {
	out := each(f.controlPlanes(), f.serverSkew)
	return append(out, each(f.Hosts, func(h Host) []finding {
		return append(f.nodeSkew(h, "kubelet", h.Kubelet), f.nodeSkew(h, "kube-proxy", h.Proxy)...)
	})...)
}

func (f Facts) serverSkew(h Host) []finding {
	if !h.APIServer.Known || !h.Emulates.Known {
		return []finding{unknown(h.Name, "the version of its API server")}
	}
	var out []finding
	if h.Emulates.Value.series() != f.Level {
		out = append(out, block(h.Name, "Bring all API servers to the functional level", "its API server behaves as %s, and the functional level is %s", h.Emulates.Value.Series(), f.Level.Series()))
	}
	if up, same := h.APIServer.Value.minorsAbove(f.Level); !same || up < 0 || up > 1 {
		out = append(out, block(h.Name, "Upgrade this host to a release of the level first", "its API server is %s, more than one minor release from the functional level %s", h.APIServer.Value, f.Level.Series()))
	}
	return out
}

func (f Facts) nodeSkew(h Host, program string, version state.Fact[Version]) []finding {
	if !version.Known {
		return []finding{unknown(h.Name, "the version of its "+program)}
	}
	switch up, same := version.Value.minorsAbove(f.Level); {
	case !same || up > 0:
		return []finding{block(h.Name, "Go back to a "+program+" of the functional level", "its %s %s is newer than the functional level %s", program, version.Value, f.Level.Series())}
	case up < -oldestKubelet:
		return []finding{block(h.Name, "Upgrade this host alone first, one minor release after the other", "its %s %s is too old for API servers that emulate %s", program, version.Value, f.Level.Series())}
	}
	return nil
}

// formats asks whether each release reads what the other one writes, and what lies on
// the disks.
func formats(f Facts) []finding {
	to := f.target()
	var out []finding
	unread := func(host string, reader Release, name string, number int, whose string) {
		if format, has := reader.Formats[name]; has && !format.Reads.holds(number) {
			out = append(out, block(host, "Offer a release that reads and writes it", "%s reads %s in the versions %s, and %s is %d", reader.Name, name, format.Reads, whose, number))
		} else if !has && reader.Digest == to.Digest {
			out = append(out, block(host, "Offer a release that reads and writes it", "%s cannot read %s", reader.Name, name))
		}
	}
	for _, name := range sortedFormats(f.From.Formats) {
		unread("", to, name, f.From.Formats[name].Writes, "what "+f.From.Name+" writes")
	}
	for _, name := range sortedFormats(to.Formats) {
		if f.To == nil {
			break
		}
		unread("", f.From, name, to.Formats[name].Writes, "what "+to.Name+" writes until its commit")
	}
	for _, h := range f.present() {
		if !h.Written.Known {
			out = append(out, unknown(h.Name, "the formats on its disk"))
			continue
		}
		for _, name := range sortedFormats(f.From.Formats) {
			if number, lies := h.Written.Value[name]; lies {
				unread(h.Name, to, name, number, "what lies there")
				if f.To != nil {
					unread(h.Name, f.From, name, number, "what lies there")
				}
			}
		}
	}
	return out
}

func steps(f Facts) []finding {
	to := f.target()
	common := Range{max(f.From.Steps.Min, to.Steps.Min), min(f.From.Steps.Max, to.Steps.Max)}
	if common.Min > common.Max {
		return []finding{block("", "Upgrade to a release between them first", "%s speaks the steps %s, and %s the steps %s", f.From.Name, f.From.Steps, to.Name, to.Steps)}
	}
	return each(f.present(), func(h Host) []finding {
		switch {
		case !h.Steps.Known:
			return []finding{unknown(h.Name, "which steps its agent speaks")}
		case h.Steps.Value.Max < common.Min || h.Steps.Value.Min > common.Max:
			return []finding{block(h.Name, "Bring its agent to the site's release first", "its agent speaks the steps %s, and the releases have %s in common", h.Steps.Value, common)}
		}
		return nil
	})
}

func network(f Facts) []finding {
	if to := f.target(); to.Network != f.From.Network {
		return []finding{block("", "Offer a release with the same network", "hosts of %s and %s would not understand each other on the network: %q and %q", f.From.Name, to.Name, f.From.Network, to.Network)}
	}
	return nil
}
