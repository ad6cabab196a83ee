package host

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// TestTheParachuteRunsTheProgramOfTheOldRelease, whatever the host's own paths lead to,
// and each file of it is the approved one.
func TestTheParachuteRunsTheProgramOfTheOldRelease(t *testing.T) {
	old := strings.Repeat("ab", 32)
	var out strings.Builder
	for _, f := range Parachute("sha256:"+old, "/var/lib/holdfast/upgrade/hangs") {
		for line := range strings.Lines(string(f.Data)) {
			if strings.Contains(line, "holdfast-agent") && strings.HasPrefix(line, "Exec") && !strings.Contains(line, "=/opt/holdfast/releases/"+old+"/usr/local/bin/holdfast-agent ") && !strings.Contains(line, "=-/opt/holdfast/releases/"+old+"/usr/local/bin/holdfast-agent ") {
				t.Errorf("%s: %s", f.Path, line)
			}
		}
		out.WriteString("# " + f.Path + "\n" + string(f.Data) + "\n")
	}
	out.WriteString("# " + Raise("sha256:"+old).Path + "\n" + string(Raise("sha256:"+old).Data) + "\n")
	for link, target := range ParachuteLinks() {
		if filepath.Base(link) != filepath.Base(target) || filepath.Dir(target) != UnitDir {
			t.Errorf("%s leads to %s", link, target)
		}
	}
	golden.Check(t, "parachute.txt", []byte(out.String()))
}
