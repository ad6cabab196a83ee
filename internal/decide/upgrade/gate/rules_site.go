package gate

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

func storedVersions(f Facts) []finding {
	if !f.StoredVersions.Known {
		return []finding{unknown("", "in which versions objects are stored")}
	}
	var unread []string
	for _, v := range f.StoredVersions.Value {
		if !slices.Contains(f.target().StoredVersions, v) {
			unread = append(unread, v)
		}
	}
	return none(Block, "", state.Known(unread), "stored versions that "+f.target().Name+" does not read", "Have the objects written in a later version first")
}

// deprecated looks for who uses what the next minor release no longer has. An API
// server tells only of what it was asked for since its start. A patch release removes none.
func deprecated(f Facts) []finding {
	if f.next().Compare(f.Level) <= 0 {
		return nil
	}
	if !f.Deprecated.Known {
		return []finding{unknown("", "who uses APIs that Kubernetes removes")}
	}
	var out []finding
	for _, u := range f.Deprecated.Value {
		if u.Removed.Compare(f.next()) <= 0 {
			by := u.By
			if by == "" {
				by = "somebody"
			}
			out = append(out, block("", "Move its user to a later version of the API", "%s uses %s, which Kubernetes %s no longer has", by, u.API, u.Removed.Series()))
		}
	}
	if f.Observed < observation {
		out = append(out, finding{Wait, "", fmt.Sprintf("uses of removed APIs were not looked for for %s yet", page.Duration(observation)), "Wait until they were"})
	}
	return out
}

func webhooks(f Facts) []finding {
	return none(Block, "", f.Webhooks, "webhooks that fail closed, with all their pods on one host", "Have their pods on two hosts, or leave kube-system out of them")
}

// leaders asks for work, and not only for processes: a controller manager or a scheduler may
// say that it is well and do nothing.
func leaders(f Facts) []finding {
	return none(Block, "", f.Leaders, "nobody renews the lease of", "Look why: `kubectl -n kube-system logs -l component=NAME`; before the commit `holdfast upgrade rollback` leads back")
}

// refusedObjects asks whether each API server still takes what lies there already.
func refusedObjects(f Facts) []finding {
	return none(Block, "", f.Refused, "an API server refuses objects as they lie there", "Mend the object or what refuses it; before the commit `holdfast upgrade rollback` leads back")
}

// sandboxes asks whether hosts of the new release start pods. One that was given none tells
// nothing.
func sandboxes(f Facts) []finding {
	return none(Wait, "", f.Sandboxes, "hosts of the new release have not started any pod yet that they were given", "It takes seconds; if not, see `kubectl describe pod` of that pod; `holdfast upgrade rollback` leads back")
}

func budgets(f Facts) []finding {
	return none(Block, "", f.Budgets, "disruption budgets without room", "Give them room, or have the host upgraded in place")
}

func immovable(f Facts) []finding {
	return none(Block, "", f.Immovable, "pods that no drain moves", "They end where a host is drained; look whether that is right")
}

// backup asks for one of the state before the upgrade: its host ran the old release. While
// no upgrade waits for its first host, only tries that fail stand in the way of one: the
// operator has a backup taken by itself.
func backup(f Facts) []finding {
	if b := f.Backups.Value; f.Backups.Known && !b.Wanted && b.Fails == "" {
		return nil
	}
	return f.recent(f.Backups.Value.Before, " that was taken with "+f.From.Name, "the upgrade")
}

// backupCommit asks for one of the time before the commit. Until then both releases read
// the data, so it does not matter which one its host ran.
func backupCommit(f Facts) []finding { return f.recent(f.Backups.Value.Newest, "", "the commit") }

// recent looks whether a backup is young enough, and otherwise says what is done about it.
func (f Facts) recent(taken time.Time, which, what string) []finding {
	if !f.Backups.Known {
		return []finding{unknown("", "whether there is a good backup")}
	}
	age := f.Now.Sub(taken)
	if !taken.IsZero() && age >= 0 && age <= BackupAge {
		return nil
	}
	has := "there is no good backup" + which
	if at := taken.UTC().Format(time.RFC3339); age < 0 {
		has = fmt.Sprintf("the newest good backup%s is of %s, which is still to come: a clock is wrong", which, at)
	} else if !taken.IsZero() {
		has = fmt.Sprintf("the newest good backup%s is of %s, and may be %s old", which, at, page.Duration(BackupAge))
	}
	const again = "Mend what failed, then type `holdfast backup now`"
	switch b := f.Backups.Value; {
	case b.Wish.Failed:
		return []finding{block("", again, "%s; %s", has, b.Wish.Says)}
	case b.Wish.Says != "":
		return []finding{{Wait, "", has + "; " + b.Wish.Says, "Wait for it: `holdfast backup list` shows how far it is"}}
	case b.Fails != "":
		return []finding{block("", again, "%s; the last tries failed: %s", has, b.Fails)}
	}
	return []finding{{Wait, "", has + "; one is taken once nothing else holds " + what, "Wait for it"}}
}

func incidents(f Facts) []finding {
	return none(Wait, "", f.Incidents, "open incidents", "See `holdfast incidents`")
}

func window(f Facts) []finding {
	switch {
	case !f.Window.Known:
		return []finding{unknown("", "whether the maintenance window is open")}
	case f.Window.Value != "":
		return []finding{{Wait, "", "outside of the maintenance window: " + f.Window.Value, "Wait for it"}}
	}
	return nil
}

// battery asks only where something tells of a battery: an unknown fact that nobody on
// a site can ever find out would close the gate for good.
func battery(f Facts) []finding {
	if !f.OnBattery.Known {
		return nil
	}
	return is("", f.OnBattery, false, "whether the site runs on a battery", "the site runs on a battery", "Wait until the mains are back")
}
