package hostfiles_test

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/hostfiles"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	unitDir = "/etc/systemd/system/"
	plain   = "[Service]\nExecStart=/a\n"
	boots   = plain + "\n[Install]\nWantedBy=multi-user.target\n"
)

func TestWhichFilesAreUnitsThatBootsStart(t *testing.T) {
	for _, c := range []struct {
		path, text, unit string
		installs         bool
	}{
		{unitDir + "a.service", boots, "a.service", true},
		{unitDir + "a.timer", boots, "a.timer", true},
		{unitDir + "a.service", plain, "a.service", false},
		{unitDir + "a.service", plain + "[Install]\n\n", "a.service", false},
		{unitDir + "a.service", "[Install]\n[Service]\nExecStart=/a\n", "a.service", false},
		{unitDir + "a@.service", boots, "", false},
		{unitDir + "a.service.d/b.conf", boots, "", false},
		{unitDir + "a.mount", boots, "", false},
		{unitDir + "a.slice", boots, "", false},
		{"/etc/a.service", boots, "", false},
		{unitDir + "kubelet.service", boots, "", false},
		{unitDir + "containerd.service", boots, "", false},
		{unitDir + "podman-etcd.service", boots, "", false},
		{unitDir + "pacemaker.service", boots, "", false},
		{unitDir + "corosync.service", boots, "", false},
		{unitDir + "podman.service", boots, "", false},
		{unitDir + "holdfast-agent.service", boots, "", false},
	} {
		f := hostfiles.File{Path: c.path, Data: []byte(c.text)}
		if f.Unit() != c.unit || f.Installs() != c.installs {
			t.Errorf("%s: unit %q, installs %v:\n%s", c.path, f.Unit(), f.Installs(), c.text)
		}
	}
}

// TestWhatBecomesOfAUnit: each row is what the release that runs brings, and whether the host's boots
// start it, what the other one brings, whether boots start it there, and what becomes of the unit
// before its file is replaced. A dash is no file.
func TestWhatBecomesOfAUnit(t *testing.T) {
	const moved = plain + "\n[Install]\nWantedBy=timers.target\n"
	for _, c := range []struct {
		was     string
		enabled bool
		is      string
		want    bool
		does    string
	}{
		{"-", false, boots, true, ""},
		{"-", false, plain, false, ""},
		{boots, true, "-", false, "stop disable"},
		{boots, false, "-", false, "stop disable"}, // a person's start ends too
		{plain, false, "-", false, "stop"},
		{boots, true, "# new\n" + boots, true, ""},
		{boots, false, "# new\n" + boots, false, ""}, // somebody disabled it
		{boots, true, plain, false, "stop disable"},
		{boots, false, plain, false, "stop disable"},
		{plain, false, boots, true, ""},
		{plain, true, boots, true, ""},
		{plain, true, "# new\n" + plain, true, ""}, // somebody's link
		{boots, true, moved, true, "disable"},
		{boots, false, moved, false, "disable"},
	} {
		path := unitDir + "a.service"
		of := func(text string) (list []state.File, f hostfiles.File) {
			if text == "-" {
				return nil, hostfiles.File{Path: path, Gone: true}
			}
			return []state.File{{Path: path, Data: []byte(text)}}, hostfiles.File{Path: path, Mode: state.DefaultFileMode, Data: []byte(text)}
		}
		was, have := of(c.was)
		is, _ := of(c.is)
		have.Enabled = c.enabled
		from, to, kept := hostfiles.Way(was, is, []hostfiles.File{have})
		if len(from) != 1 || len(to) != 1 || len(kept) != 0 {
			t.Fatalf("%q to %q: %v %v %v", c.was, c.is, from, to, kept)
		}
		stop, disable := hostfiles.Replaced(have, to[0])
		var words []string
		if stop {
			words = append(words, "stop")
		}
		if disable {
			words = append(words, "disable")
		}
		does := strings.Join(words, " ")
		if from[0].Enabled != c.enabled || to[0].Enabled != c.want || does != c.does {
			t.Errorf("%q, started by boots: %v, to %q: started by boots %v and then %v, %q", c.was, c.enabled, c.is, from[0].Enabled, to[0].Enabled, does)
		}
	}
	if stop, disable := hostfiles.Replaced(hostfiles.File{Path: "/f", Data: []byte(boots)}, hostfiles.File{Path: "/f", Gone: true}); stop || disable {
		t.Error("a file that is no unit is ended")
	}
}
