package pacemakerstatus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

const corpus = "../../../test/corpus/pacemaker/cases"

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(corpus, name, "cp-1", "crm_mon.xml"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parsed(t *testing.T, name string) crmmon.Cluster {
	t.Helper()
	c, err := crmmon.Parse(recorded(t, name), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Pacemaker lists an operation while it is under way, as it did in the lab each
// time a fenced host came back.
func TestAnOperationThatIsUnderWayHasNoOutcome(t *testing.T) {
	const ended = `call="16" task="monitor" rc="0" rc_text="ok"`
	was := string(recorded(t, "lab-pair"))
	if strings.Count(was, ended) != 1 {
		t.Fatal("the recorded state has changed")
	}
	for _, pending := range []string{`call="-1" task="monitor" rc="193" rc_text="unknown"`, `call="-1" task="monitor" rc="-1" rc_text="unknown"`} {
		c, err := crmmon.Parse([]byte(strings.Replace(was, ended, pending, 1)), time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		in := input(t, "lab-pair")
		in.Cluster = state.Known(c)
		if got := Find(node(t, in, "cp-2").Conditions, FencingProven); got.Reason != ReasonPeerReaches {
			t.Errorf("%s: %+v", pending, got)
		}
	}
}

func TestAddressesAreCanonical(t *testing.T) {
	conf := corosync.Conf{Nodes: []corosync.Node{{Name: "cp-1", Addresses: []string{"2001:DB8:0::1", "10.1.0.1"}}}}
	got := view{Input: Input{Corosync: state.Known(conf)}}.addresses("cp-1")
	if len(got) != 2 || got[0].Address != "2001:db8::1" {
		t.Error(got)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"healthy", "lost-fence-failed", "bundle", "version-3-etcd-failed", "not-running"} {
		f.Add(recorded(f, name))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := crmmon.Parse(text, time.UTC)
		if err != nil {
			return
		}
		in := Input{Host: "cp-1", Cluster: state.Known(c), Addresses: map[string][]string{}}
		for _, n := range c.Nodes {
			in.Addresses[n.Name] = []string{"10.0.0.1"}
		}
		acceptable(t, Status(in))
	})
}

func FuzzParseCorosync(f *testing.F) {
	f.Add([]byte("nodelist {\n node {\n  ring0_addr: 10.0.0.1\n }\n}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := corosync.Parse(text)
		if err == nil {
			acceptable(t, Status(Input{Host: "cp-1", Corosync: state.Known(c)}))
		}
	})
}
