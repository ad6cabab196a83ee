package restore

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/backup"
)

// docs/facts/loss.md#hard-cases-of-loss, L57: the release of the backup is not at hand.
func TestL57ABackupOfANewerReleaseIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	of := func(version, kubernetes, etcd string) backup.Release {
		return backup.Release{Version: version, Kubernetes: kubernetes, Etcd: etcd, Digest: "sha256:" + version}
	}
	installs := of("2.0.0", "v1.36.3", "3.6.14")
	for what, c := range map[string]struct {
		wrote         backup.Release
		note, refused string
	}{
		"the same release":                   {installs, "", ""},
		"another release of the same age":    {of("1.9.0", "v1.36.3", "3.6.14"), "the site had the release 1.9.0 (sha256:1.9.0), and this holdfast installs 2.0.0", ""},
		"a newer patch of Kubernetes":        {of("2.0.1", "v1.36.9", "3.6.20"), "the site had the release 2.0.1", ""},
		"the minor release before":           {of("1.0.0", "v1.35.0", "3.5.9"), "the site had the release 1.0.0", ""},
		"two minor releases before":          {of("0.5.0", "v1.34.0", "3.6.1"), "restore with the release 0.5.0 (sha256:0.5.0) and upgrade then", ""},
		"a newer Kubernetes":                 {of("3.0.0", "v1.37.0", "3.6.14"), "", "is of Kubernetes v1.37.0, and this holdfast installs Kubernetes v1.36.3, which does not read what a newer one wrote: take the holdfast and the release 3.0.0 (sha256:3.0.0)"},
		"a newer etcd":                       {of("3.0.0", "v1.36.3", "3.7.0"), "", "is of etcd 3.7.0"},
		"another major version":              {of("9.0.0", "v2.0.0", "3.6.14"), "", "take the holdfast and the release 9.0.0"},
		"nobody wrote down which it was":     {backup.Release{}, "does not say which etcd wrote it: install the release that the site had", ""},
		"an entry that is broken":            {of("1.0.0", "1.x", "3.6.14"), "does not say which Kubernetes wrote it", ""},
		"a newer one without version":        {backup.Release{Kubernetes: "v1.40.0", Etcd: "3.6.14"}, "", "take the holdfast and the release of that site"},
		"this build does not know its own":   {of("1.0.0", "v1.36.3", "3.6.14"), "", "Kubernetes of this holdfast"},
		"a backup that a tool wrote halfway": {backup.Release{Kubernetes: "v1.36.3"}, "does not say which etcd wrote it", ""},
	} {
		with := installs
		if strings.HasPrefix(what, "this build") {
			with.Kubernetes = ""
		}
		note, err := Release(c.wrote, with)
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v, want %q", what, err, c.refused)
			}
		case err != nil || !strings.Contains(note, c.note) || (c.note == "") != (note == ""):
			t.Errorf("%s: %q, %v; want %q", what, note, err, c.note)
		}
	}
}
