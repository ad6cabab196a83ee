package fence

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

var slowAnswer = flag.Duration("slow", 5*time.Second, "how long a slow BMC takes for an answer")

// TestASlowBMCFences plays F9: answers of 5 s took a fence 142 s.
func TestASlowBMCFences(t *testing.T) {
	t.Parallel()
	answer := *slowAnswer
	for name, c := range map[string]struct {
		on      bool
		answers float64 // the number of answers that the proof may take
		resets  string
	}{
		"a host that is off already": {false, 1, "[On]"},
		"a host that runs":           {true, 4, "[ForceOff On]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, testPassword)
			b.machine.On.Store(c.on)
			b.retryAfter = 0 // the default
			b.bmc.SetQuirks(bmc.Quirks{Delay: bmc.Duration(answer)})
			if code := b.call(t, "action=reboot", "plug=cp-1", "power_timeout=60"); code != exitOK {
				t.Fatalf("exit %d: %s", code, b.err.String())
			}
			r := b.records(t)
			if len(r) != 1 || !r[0].Off || b.resets() != c.resets {
				t.Fatalf("history %+v, resets %s", r, b.resets())
			}
			p := r[0].Phases
			if took, most := p.Identify+p.Hold+p.PowerOff+p.Evidence, c.answers*answer.Seconds()+3; took.Seconds() > most {
				t.Errorf("proven after %s, at most %.0f s: %+v", took, most, p)
			}
			t.Logf("%+v", p)
		})
	}
}

func TestASlowBMCIsNotLeftToTheDistributionsAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.Driver = []string{"/bin/sh", "-c", "cat; exit 1"}
	b.bmc.SetQuirks(bmc.Quirks{Delay: bmc.Duration(1100 * time.Millisecond)})
	if code := b.call(t, "action=off", "plug=cp-1", "power_timeout=30"); code != exitOK || b.resets() != "[ForceOff]" {
		t.Errorf("exit %d after %s: %s", code, b.resets(), b.err.String())
	}
	if r := b.records(t); len(r) != 1 || r[0].Requests != 1 {
		t.Errorf("history %+v", r)
	}
}

func TestAFenceNeedNotSearchForItsSystem(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.dev.Address = strings.TrimSuffix(b.dev.Address, b.bmc.SystemPath())
	b.write(t)
	said := `{"uuid":"` + testUUID + `"}`
	b.peers(&said, nil)
	for range 2 {
		if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK {
			t.Fatalf("exit %d: %s", code, b.err.String())
		}
	}
	if got, _ := hint(b.Files, b.dev); got != b.bmc.SystemPath() {
		t.Errorf("the path is %q", got)
	}
	if l := readLearned(b.Files, "cp-1"); l.UUID != testUUID {
		t.Errorf("learned %+v", l)
	}
	other := b.dev
	other.Address += "0"
	if got, _ := hint(b.Files, other); got != "" {
		t.Errorf("at another BMC the path is %q", got)
	}
	if info, err := os.Stat(b.Files.Path(state.FencingDir + "/learned/cp-1.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
