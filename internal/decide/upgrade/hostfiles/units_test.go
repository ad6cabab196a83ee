package hostfiles_test

import (
	"encoding/json"
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

// mark returns whether boots start a unit, by a word.
func mark(word string) *bool {
	return map[string]*bool{"yes": new(true), "no": new(false)}[word]
}

func marked(f hostfiles.File) string {
	switch {
	case f.Enabled == nil:
		return "?"
	case *f.Enabled:
		return "yes"
	}
	return "no"
}

// TestBothReleasesReadWhatAListSaysOfItsUnits: a release of before lists said anything of them, one that
// said whether a unit is enabled and nothing otherwise, and this one.
func TestBothReleasesReadWhatAListSaysOfItsUnits(t *testing.T) {
	type before struct {
		Path string `json:"path"`
	}
	type former struct {
		Path    string `json:"path"`
		Enabled bool   `json:"enabled,omitempty"`
	}
	turn := func(from, to any) {
		t.Helper()
		text, err := json.Marshal(from)
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, word := range []string{"yes", "no", "?"} {
		f := hostfiles.File{Path: "/f", Enabled: mark(word)}
		var first before
		var second former
		var same hostfiles.File
		turn(f, &first)
		turn(f, &second)
		turn(f, &same)
		if first.Path != "/f" || second.Enabled != (word == "yes") || marked(same) != word {
			t.Errorf("%s is read as %+v, %+v and %s", word, first, second, marked(same))
		}
	}
	for _, c := range []struct {
		list any
		want string
	}{{former{"/f", true}, "yes"}, {former{"/f", false}, "?"}, {before{"/f"}, "?"}} {
		var f hostfiles.File
		turn(c.list, &f)
		if f.Path != "/f" || marked(f) != c.want {
			t.Errorf("%+v is read as %s", c.list, marked(f))
		}
	}
}

// TestWhatBecomesOfAUnit: each row is what the release that runs brings, and whether the host's boots
// start it, what the other one brings, whether boots start it there, and what becomes of the unit
// before its file is replaced. A dash is no file. A question mark is what nobody knows: such a unit stays
// as it is.
func TestWhatBecomesOfAUnit(t *testing.T) {
	const moved = plain + "\n[Install]\nWantedBy=timers.target\n"
	for _, c := range []struct {
		was, enabled, is, want, does string
	}{
		{"-", "?", boots, "yes", ""},
		{"-", "?", plain, "no", ""},
		{boots, "yes", "-", "?", "stop disable"},
		{boots, "no", "-", "?", "stop disable"}, // a person's start ends too
		{boots, "?", "-", "?", "stop disable"},
		{plain, "no", "-", "?", "stop"},
		{boots, "yes", "# new\n" + boots, "yes", ""},
		{boots, "no", "# new\n" + boots, "no", ""}, // somebody disabled it
		{boots, "?", "# new\n" + boots, "?", ""},
		{boots, "yes", plain, "no", "stop disable"},
		{boots, "no", plain, "no", "stop disable"},
		{boots, "?", plain, "?", "stop disable"},
		{plain, "no", boots, "yes", ""},
		{plain, "?", boots, "yes", ""}, // nobody asked systemd: it says by nobody that it is wanted
		{plain, "yes", boots, "yes", ""},
		{plain, "yes", "# new\n" + plain, "yes", ""}, // somebody's link
		{boots, "yes", moved, "yes", "disable"},
		{boots, "no", moved, "no", "disable"},
		{boots, "?", moved, "?", ""}, // the links that it has stay
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
		have.Enabled = mark(c.enabled)
		from, to, kept := hostfiles.Way(was, is, []hostfiles.File{have}, nil)
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
		if first, then := marked(from[0]), marked(to[0]); first != c.enabled || then != c.want || does != c.does {
			t.Errorf("%q, started by boots: %s, to %q: started by boots %s and then %s, %q", c.was, c.enabled, c.is, first, then, does)
		}
	}
	if stop, disable := hostfiles.Replaced(hostfiles.File{Path: "/f", Data: []byte(boots)}, hostfiles.File{Path: "/f", Gone: true}); stop || disable {
		t.Error("a file that is no unit is ended")
	}
}

// TestWhatSomebodyDisabledStaysSoOnAWayBack: each row is what the release that runs brings, whether boots
// start it, what the other one brings, and whether boots start that, where somebody had disabled it when the
// host left that other release. What the host itself says now counts first.
func TestWhatSomebodyDisabledStaysSoOnAWayBack(t *testing.T) {
	path := unitDir + "a.service"
	for _, c := range []struct{ was, enabled, is, want string }{
		{"-", "?", boots, "no"},
		{plain, "?", boots, "no"},
		{plain, "no", boots, "no"},
		{plain, "yes", boots, "yes"},             // somebody's link
		{boots, "yes", "# new\n" + boots, "yes"}, // somebody has enabled it since
		{boots, "no", "# new\n" + boots, "no"},
		{boots, "?", "# new\n" + boots, "?"},
		{"-", "?", plain, "no"},
		{boots, "yes", "-", "?"},
	} {
		of := func(text string) []state.File {
			if text == "-" {
				return nil
			}
			return []state.File{{Path: path, Data: []byte(text)}}
		}
		have := hostfiles.File{Path: path, Gone: c.was == "-"}
		if !have.Gone {
			have = hostfiles.File{Path: path, Mode: state.DefaultFileMode, Data: []byte(c.was), Enabled: mark(c.enabled)}
		}
		_, to, _ := hostfiles.Way(of(c.was), of(c.is), []hostfiles.File{have}, []string{path})
		if len(to) != 1 || marked(to[0]) != c.want {
			t.Errorf("%q, started by boots: %s, to %q: %v", c.was, c.enabled, c.is, to)
		}
	}
}

func TestWhatAListSaysThatSomebodyDisabled(t *testing.T) {
	var list []hostfiles.File
	for _, word := range []string{"yes", "no", "?"} {
		list = append(list, hostfiles.File{Path: unitDir + word + ".service", Data: []byte(boots), Enabled: mark(word)},
			hostfiles.File{Path: unitDir + word + "-plain.service", Data: []byte(plain), Enabled: mark(word)})
	}
	if got := hostfiles.Off(list); len(got) != 1 || got[0] != unitDir+"no.service" {
		t.Errorf("%q", got)
	}
}

// TestWhatCameWithAReleaseIsEnabledThoughItsListDoesNotSayIt: what was there before stays as it is, and so
// does what a list speaks of.
func TestWhatCameWithAReleaseIsEnabledThoughItsListDoesNotSayIt(t *testing.T) {
	of := func(name, text, word string) hostfiles.File {
		return hostfiles.File{Path: unitDir + name, Data: []byte(text), Enabled: mark(word)}
	}
	list := []hostfiles.File{of("comes.service", boots, "?"), of("off.service", boots, "no"), of("plain.service", plain, "?"), of("was.service", boots, "?"), of("unheard.service", boots, "?")}
	var left []hostfiles.File
	for _, f := range list[:4] {
		left = append(left, hostfiles.File{Path: f.Path, Gone: f.Path != unitDir+"was.service"})
	}
	var got []string
	for _, f := range hostfiles.Came(list, left) {
		got = append(got, marked(f))
	}
	if want := "yes no ? ? ?"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
	if marked(list[0]) != "?" {
		t.Error("the list itself was changed")
	}
}
