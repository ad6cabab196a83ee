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

func budgets(f Facts) []finding {
	return none(Block, "", f.Budgets, "disruption budgets without room", "Give them room, or have the host upgraded in place")
}

func immovable(f Facts) []finding {
	return none(Block, "", f.Immovable, "pods that no drain moves", "They end where a host is drained; look whether that is right")
}

func backup(f Facts) []finding {
	if f.BackupLimit == 0 {
		return nil
	}
	way := "Make a backup of etcd"
	switch age := f.Now.Sub(f.Backup.Value); {
	case !f.Backup.Known:
		return []finding{unknown("", "when the last backup of etcd was made")}
	case f.Backup.Value.IsZero():
		return []finding{block("", way, "there is no backup of etcd")}
	case age > f.BackupLimit || age < 0:
		return []finding{block("", way, "the last backup of etcd is of %s, and may be %s old", f.Backup.Value.UTC().Format(time.RFC3339), page.Duration(f.BackupLimit))}
	}
	return nil
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
