package standing

import (
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// BackupBrief is the part of the view about backups.
type BackupBrief struct {
	// Newest is the time at which the newest good backup was taken, zero if there is none. It
	// lies on Host.
	Newest time.Time `json:"newest,omitzero"`
	Host   string    `json:"host,omitempty"`
	ID     string    `json:"id,omitempty"`
	// Lines describes the backups in sentences.
	Lines []string `json:"lines"`
}

// backups returns the reports about the site's backups.
func (d describer) backups() backup.Site {
	out := backup.Site{Now: d.Now, Proof: state.Fact[backup.Proof]{Known: d.BackupProof.Known, Value: d.BackupProof.Value}}
	for _, h := range d.controlPlanes() {
		if tells := h.Backup.Value; h.Backup.Known {
			tells.Lost = h.Kubelet.Known && !h.Kubelet.Value.Ready
			out.Hosts = append(out.Hosts, tells)
		}
	}
	return out
}

// backupBrief returns the part of the view about backups; nil if no host reports any.
func (d describer) backupBrief() *BackupBrief {
	s := d.backups()
	if !s.Known() {
		return nil
	}
	out := &BackupBrief{Lines: s.Lines()}
	host, newest, is := s.Newest()
	if is {
		out.Newest, out.Host, out.ID = newest.Taken, host, newest.ID
	}
	return out
}

// ofBackups returns the findings about backups, which package backup decides.
func (d describer) ofBackups() []finding.Finding {
	return Backups(d.backups())
}

// Backups returns the findings about the backups of a site.
func Backups(s backup.Site) []finding.Finding {
	var out []finding.Finding
	for _, t := range s.Troubles() {
		f := backupWords[t.Kind](t)
		f.Subject, f.Variant = t.Subject, string(t.Kind)
		if f.Severity == "" {
			f.Severity = finding.Note
			if t.Often {
				f.Severity = finding.Warning
			}
		}
		if f.Commands == nil {
			f.Commands = finding.Anywhere("holdfast backup list")
		}
		f.Page = pageOf(f.ID)
		out = append(out, f)
	}
	return out
}

// backupWords words each kind of trouble. If a severity is missing here, it follows from how
// long the trouble has lasted.
var backupWords = map[backup.Kind]func(t backup.Trouble) finding.Finding{
	backup.None: func(t backup.Trouble) finding.Finding {
		return finding.Finding{
			ID: BackupNone, Problem: "no control plane has a good backup: " + t.Why,
			Meaning: "If all control planes are lost, or somebody deletes what is needed, nothing brings the cluster back.", Commands: finding.Anywhere("holdfast backup now"),
		}
	},
	backup.Old: func(t backup.Trouble) finding.Finding {
		return finding.Finding{
			ID: BackupOld, Problem: "the newest good backup is too old: " + t.Why,
			Meaning: "A restore would lose everything written since.", Commands: finding.Anywhere("holdfast backup now"),
		}
	},
	backup.HostOld: func(t backup.Trouble) finding.Finding {
		return finding.Finding{ID: BackupHostOld, Problem: fmt.Sprintf("%s has no new good backup: %s", t.Subject, t.Why), Meaning: "Another control plane has one. This one makes up for a missed backup by itself."}
	},
	backup.Failing: func(t backup.Trouble) finding.Finding {
		return finding.Finding{
			ID: BackupFailed, Problem: fmt.Sprintf("backups of %s failed %s", t.Subject, t.Why),
			Meaning: "It tries again by itself, and waits longer each time. A failed backup is never counted as good.", Commands: finding.On(t.Subject, "sudo journalctl -u holdfast-backup"),
		}
	},
	backup.Refused: func(t backup.Trouble) finding.Finding {
		meaning := "Hosts go on with the last one without mistakes."
		if t.Held {
			meaning = "The release of a host refuses what another release allowed. That host takes backups by the default schedule, sends none to a target and removes none, until the configuration has no mistakes."
		}
		return finding.Finding{
			ID: BackupRefused, Problem: "the configuration of backups has mistakes or is gone: " + t.Why,
			Meaning: meaning, Commands: finding.Anywhere("holdfast backup configure -f FILE --dry-run"),
		}
	},
	backup.NotSent: func(t backup.Trouble) finding.Finding {
		return finding.Finding{
			ID: BackupNotSent, Problem: fmt.Sprintf("no new good backup lies at the target %s: %s", t.Subject, t.Why),
			Meaning: "If all control planes are lost, only copies at targets are left, and there the newest one is missing. Hosts send each new backup.",
		}
	},
	backup.NeverProven: func(t backup.Trouble) finding.Finding {
		return finding.Finding{
			ID: BackupNeverProven, Severity: finding.Warning, Problem: "it is not proven that the site's backups can be opened: " + t.Why,
			Meaning: "The private key is not on the site, and without it nobody can restore. Fetch a backup, open it once, and tell the site.", Commands: finding.Anywhere("holdfast backup verify FILE --identity KEY-FILE"),
		}
	},
}

// backup writes the section about backups.
func (p *text) backup(b *BackupBrief) {
	if b == nil {
		return
	}
	p.Title("Backups")
	for _, line := range b.Lines {
		p.Wrapped("  ", line)
	}
	p.Wrapped("  ", "More: "+p.Paint(page.Bold, "holdfast backup list"))
}
