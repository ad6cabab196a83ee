package hostchange

import (
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/state"
)

func surroundings(proxy, trust string) machineconfig.Config {
	var files []state.File
	for path, text := range map[string]string{state.ProxyPath: proxy, state.TrustPath: trust} {
		if text != "" {
			files = append(files, state.File{Path: path, Data: []byte(text)})
		}
	}
	return machineconfig.Config{}.Beside(files)
}

// TestAnotherWayOutRestartsWhatReadsIt, the list of authorities before its reader, whatever
// the site declares, and nothing where no line is another one.
func TestAnotherWayOutRestartsWhatReadsIt(t *testing.T) {
	declared := []Row{{Rule: "site.all", Needs: reboot, fits: always}}
	trust, containerd := Action{Restart, "holdfast-trust.service"}, Action{Restart, "containerd.service"}
	for _, c := range []struct {
		name     string
		from, to machineconfig.Config
		want     []Action
	}{
		{"a proxy", surroundings("# none\n", "# none\n"), surroundings("HTTP_PROXY=\"a\"\n", "# none\n"), []Action{containerd}},
		{"another proxy", surroundings("HTTP_PROXY=\"a\"\n", ""), surroundings("HTTP_PROXY=\"b\"\n", ""), []Action{containerd}},
		{"no proxy any more", surroundings("HTTP_PROXY=\"a\"\n", ""), surroundings("# none\n", ""), []Action{containerd}},
		{"authorities", surroundings("# none\n", "# none\n"), surroundings("# none\n", "one\ntwo\n"), []Action{trust, containerd}},
		{"both", surroundings("# none\n", "one\n"), surroundings("HTTP_PROXY=\"a\"\n", "two\n"), []Action{trust, containerd}},
		{"neither, where an earlier release wrote no file", surroundings("", ""), surroundings("# none\n", "# none\n"), nil},
		{"the way back to that", surroundings("# none\n", "# none\n"), surroundings("", ""), nil},
		{"another comment", surroundings("# none\n", "# a\none\n"), surroundings("# nothing\n", "# b\none\n"), nil},
		{"another order", surroundings("", "one\ntwo\n"), surroundings("", "two\none\n"), []Action{trust, containerd}},
	} {
		p := Compare(c.from, c.to, Table(declared))
		if len(p.Before) > 0 || !slices.Equal(p.After, c.want) || !p.Surroundings() {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
	if same := surroundings("HTTP_PROXY=\"a\"\n", "one\n"); Compare(same, same, Table(nil)).Surroundings() {
		t.Error("nothing changes, and something does")
	}
}
