package replace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Gate is something that must hold before a replacement begins, and until the old host is
// retired.
type Gate struct {
	ID string `json:"id"`
	// Open is true if it holds. If not, Words say why, and Way says what to type. With BackupFirst
	// an open one may have Words, too.
	Open  bool   `json:"open"`
	Words string `json:"words,omitempty"`
	Way   string `json:"way,omitempty"`
}

func open(id string) Gate { return Gate{ID: id, Open: true} }

func shut(id, way, format string, a ...any) Gate {
	return Gate{ID: id, Way: way, Words: fmt.Sprintf(format, a...)}
}

// Commands that the words of gates name.
const (
	explainEtcd = "sudo holdfast explain etcd"
	statusShow  = "holdfast status"
	crmMon      = "sudo crm_mon -1"
	manage      = "sudo pcs property set maintenance-mode=false"
)

// Gates returns every gate, for a wish, or for a plan that can still be taken back.
func Gates(f Facts, w Wish) []Gate {
	return []Gate{
		f.gateTwo(), f.gateHere(w), f.gateSole(w), f.gateSilent(w), f.gateOff(w), f.gateEtcd(), f.gateAlone(), f.gateNode(w), f.gateBackup(w),
		f.gateLock(), f.gateUpgrade(), f.gateRoom(), f.gateRelease(), f.gateBMC(w), f.gateAccount(w), f.gateVolumes(w), f.gateName(w),
	}
}

// Closed returns the gates that are not open.
func Closed(gates []Gate) []Gate {
	return slices.DeleteFunc(slices.Clone(gates), func(g Gate) bool { return g.Open })
}

// BackupGate is the ID of the gate that wants a young good backup of the host that carries a
// plan.
const BackupGate = "backup"

// BackupFirst returns the gates for a command that takes a backup before it begins: one that
// is missing closes nothing then.
func BackupFirst(gates []Gate) []Gate {
	out := slices.Clone(gates)
	for i, g := range out {
		if g.ID == BackupGate && !g.Open {
			out[i] = Gate{ID: g.ID, Open: true, Words: "a backup is taken first: " + g.Words}
		}
	}
	return out
}

func (f Facts) gateTwo() Gate {
	if f.ControlPlanes != 2 {
		return shut("two", "docs/runbook/replace-host.md",
			"this site has %d control planes: this command replaces one of two", f.ControlPlanes)
	}
	return open("two")
}

func (f Facts) gateHere(w Wish) Gate {
	switch {
	case w.Old == f.Host:
		return shut("here", "run the command on the other control plane", "%s is this host: the command runs on the host that stays", w.Old)
	case f.Peer == "":
		return shut("here", explainEtcd, "the etcd keeper of this host names no peer")
	case w.Old != f.Peer:
		return shut("here", statusShow, "%s is not the other control plane: that is %s", w.Old, f.Peer)
	}
	return open("here")
}

// gateSole is the most important gate: only the record `sole` says that the other host has no
// write that this one lacks.
func (f Facts) gateSole(w Wish) Gate {
	switch {
	case !f.Record.Known:
		return shut("sole", explainEtcd, "the record of etcd on this host is unknown")
	case f.Record.Value == state.EtcdSole:
		return open("sole")
	case f.Record.Value == state.EtcdPair:
		return shut("sole", explainEtcd, "the record of this host says pair: nothing has proved yet that %s is off, and its silence is no proof. "+
			"Once its BMC reads Off, or you have confirmed it, etcd here goes on alone and the record says sole", w.Old)
	case f.Record.Value == state.EtcdTakingOver:
		return shut("sole", explainEtcd, "this host is taking over: wait until its record says sole")
	}
	return shut("sole", explainEtcd, "the record of this host says %s: only a host whose record says sole holds every write by itself", f.Record.Value)
}

func (f Facts) gateSilent(w Wish) Gate {
	switch {
	case !f.Contact.Known:
		return shut("silent", explainEtcd, "it is unknown whether %s is in contact", w.Old)
	case f.Contact.Value:
		return shut("silent", "sudo poweroff on "+w.Old, "%s runs and is in contact with this host: it is not lost, and joins again by itself", w.Old)
	case f.early():
		return shut("silent", "switch the new machine off until the plan waits for it",
			"the machine that asks to enter has the address of %s: nobody can see whether %s is off", w.Old, w.Old)
	case yes(f.Answers):
		return shut("silent", "holdfast fencing verify", "something answers at the address of %s as a host of this cluster", w.Old)
	case yes(f.Alive):
		return shut("silent", "holdfast fencing verify", "the kubelet of %s still renews its Lease, though its BMC reads Off: that is another machine's BMC", w.Old)
	case !f.Answers.Known || !f.Alive.Known:
		return shut("silent", statusShow, "it is unknown whether %s still answers", w.Old)
	}
	return open("silent")
}

// gateOff is open if the old host is off, or the plan can switch it off.
func (f Facts) gateOff(w Wish) Gate {
	why := MachineProblem(w.Accepts.Gone, f.OldMachine, w.Old)
	switch {
	case f.Power.Known:
		return open("off") // if it is On, the first step switches it off
	case !f.Silent && f.Unread != "":
		return shut("off", "holdfast fencing verify", "the BMC of %s is there, and does not tell its power (%s): a word that the machine has none counts only if nothing answers", w.Old, f.Unread)
	case !f.Silent:
		return shut("off", "holdfast fencing verify", "the BMC of %s was not asked", w.Old)
	case w.Accepts.Gone == "":
		return shut("off", "--is-gone SERIAL", "the BMC of %s is silent%s: look at the machine, see that it has no power, and type its %s", w.Old, f.silence(), Wanted(f.OldMachine))
	case f.OldMachine.Serial+f.OldMachine.UUID == "":
		return shut("off", "docs/runbook/replace-host.md", "%s", why)
	case why != "":
		return shut("off", "--is-gone SERIAL", "%s", why)
	}
	return open("off")
}

// silence says why the BMC of the old host counts as silent.
func (f Facts) silence() string {
	if why := silences[f.Unread]; why != "" {
		return " (" + why + ")"
	}
	return ""
}

// mark is what a person reads at a machine, and types.
func mark(m state.Machine) string {
	if m.Serial == "" && m.UUID != "" {
		return "UUID"
	}
	return "serial number"
}

// Wanted says what a person has to read at a machine and to type: its serial number or, if it has none,
// its UUID.
func Wanted(m state.Machine) string {
	if mark(m) == "UUID" {
		return "UUID, since it has no serial number"
	}
	return mark(m)
}

// MachineProblem says why what a person typed is no word about the machine of a host, empty if it is one:
// its serial number or, if it has none, its UUID. It does not name the right one: who reads it at the
// machine has looked at the machine.
func MachineProblem(typed string, m state.Machine, host string) string {
	switch {
	case m.Serial == "" && m.UUID == "":
		return fmt.Sprintf("the serial number of %s is not known, so nothing can be compared with the one that you typed", host)
	case m.Serial != "" && typed != m.Serial:
		return fmt.Sprintf("%s is not the serial number of %s: make sure that you looked at the right machine", typed, host)
	case m.Serial == "" && !strings.EqualFold(typed, m.UUID):
		return fmt.Sprintf("%s has no serial number, and %s is not its UUID: make sure that you looked at the right machine", host, typed)
	}
	return ""
}

func (f Facts) gateEtcd() Gate {
	switch {
	case !yes(f.Serves):
		return shut("etcd", explainEtcd, "etcd on this host does not answer, or knows no leader")
	case !no(f.StandIn):
		return shut("etcd", explainEtcd, "a stand-in votes, or may vote")
	}
	return open("etcd")
}

func (f Facts) gateAlone() Gate {
	switch {
	case !f.Voters.Known:
		return shut("alone", explainEtcd, "the members of etcd are unknown")
	case f.Voters.Value != 1:
		return shut("alone", explainEtcd, "etcd has %d voters: a lone survivor has one", f.Voters.Value)
	}
	return open("alone")
}

// gateNode is open if it is known which Node the old host has, or that it has none: a plan removes
// no other Node.
func (f Facts) gateNode(w Wish) Gate {
	if !f.OldNode.Known {
		return shut("node", "kubectl get node "+w.Old, "it is unknown whether %s still has its Node", w.Old)
	}
	return open("node")
}

func (f Facts) gateBackup(w Wish) Gate {
	why := backup.Before(f.Backup, f.Now)
	if why == "" || w.Accepts.NoBackup {
		return open(BackupGate)
	}
	words, way := backup.BeforeHere(f.Host, why)
	return shut(BackupGate, way, "%s: from here on one disk holds everything", words)
}

// gateLock keeps two plans from changing the control planes at once, and a plan from changing
// what an announced move of the site goes by.
func (f Facts) gateLock() Gate {
	switch {
	case f.Lock.Known && f.Lock.Value != "" && (f.Plan == nil || f.Plan.ID != f.Lock.Value):
		return LockedBy(f.InForce)
	case !f.Lock.Known:
		return shut("work", statusShow, "the API does not say whether another change of the control planes is under way")
	}
	return MoveGate(f.Moves)
}

// MoveGate is open if no announced move of the site keeps its hosts from changing.
func MoveGate(moves state.Fact[string]) Gate {
	switch {
	case !moves.Known:
		return shut("work", statusShow, "the API does not say whether a move of the site is announced")
	case moves.Value != "":
		return shut("work", readdress.WithdrawCommand, "%s", moves.Value)
	}
	return open("work")
}

// gateWork is for a site that has lost nobody: other work ends first.
func (f Facts) gateWork() Gate {
	switch {
	case !f.gateLock().Open:
		return f.gateLock()
	case !f.Work.Known:
		return shut("work", statusShow, "it is unknown what else changes hosts now")
	case f.Work.Value != "":
		return shut("work", statusShow, "%s", f.Work.Value)
	}
	return open("work")
}

func (f Facts) gateRoom() Gate {
	if !yes(f.Room) {
		return shut("room", "df -h /var/lib/etcd", "the disk of etcd on this host has no room for three of its databases, or that is unknown")
	}
	return open("room")
}

func (f Facts) gateRelease() Gate {
	if !yes(f.Ships) {
		return shut("release", "ls -l /opt/holdfast/releases/current", "this host has no current release, from which the new host is installed, or that is unknown")
	}
	return open("release")
}

// device says how a person changes the name or the BMC of the new host: by flags, or in the file
// of a site that grows.
func (w Wish) device(flags string) string {
	if w.Grows {
		return "change the entry of the new host in controlPlane.fencing of the file, then: sudo holdfast topology apply --install-config FILE --address ADDRESS"
	}
	return flags
}

func (f Facts) gateBMC(w Wish) Gate {
	switch {
	case w.New.BMC == "":
		return shut("bmc", w.device("--bmc-address"), "the address of the new host's BMC is missing: a host that nobody can fence cannot be one of two")
	case !yes(f.Reached):
		return shut("bmc", w.device("--bmc-address, --bmc-username, --bmc-password-file or --bmc-fingerprint"), "the BMC at %s does not answer from this host, refuses the account, or shows another certificate", w.New.BMC)
	case yes(f.Ours):
		return shut("bmc", w.device("--bmc-address"), "the BMC at %s is that of this host: see whether two plugs are swapped", w.New.BMC)
	case !f.Ours.Known:
		return shut("bmc", "--uuid", "the BMC at %s does not say which machine it is part of", w.New.BMC)
	}
	return open("bmc")
}

// gateAccount keeps the old host from switching this one off, since it has the account of this
// host's BMC on its disk.
func (f Facts) gateAccount(w Wish) Gate {
	if w.Accepts.KeepAccount || yes(f.Refused) {
		return open("account")
	}
	return shut("account", "--own-bmc-password-file FILE, or --keep-bmc-account",
		"%s has the account of this host's BMC on its disk, and could switch this host off after a person's confirmation there: change the password at the BMC, then name the new one", w.Old)
}

func (f Facts) gateVolumes(w Wish) Gate {
	if !f.Volumes.Known {
		return shut("volumes", statusShow, "it is unknown which volumes lie on %s", w.Old)
	}
	lost := slices.DeleteFunc(slices.Clone(f.Volumes.Value), func(v string) bool { return slices.Contains(w.Accepts.Lost, v) })
	if len(lost) > 0 {
		return shut("volumes", "--accept-lost "+strings.Join(lost, ","), "the data of these volumes lie on %s alone and are lost with it: %s", w.Old, strings.Join(lost, ", "))
	}
	return open("volumes")
}

func (f Facts) gateName(w Wish) Gate {
	switch w.New.Name {
	case "":
		return shut("name", w.device("--new-name"), "the new host has no name")
	case f.Host:
		return shut("name", w.device("--new-name"), "%s is the name of this host", w.New.Name)
	case w.Old:
		return open("name")
	}
	switch {
	case w.Grows:
	case !f.Taken.Known:
		return shut("name", statusShow, "it is unknown whether a host of this site has the name %s, or had it", w.New.Name)
	case f.Taken.Value != "":
		return shut("name", "--new-name", "%s", f.Taken.Value)
	}
	return open("name")
}
