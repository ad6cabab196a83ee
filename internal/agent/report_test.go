package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/hostreport"
)

func TestAReportHasThePartsThatWereAskedFor(t *testing.T) {
	code, out := runAgentLine(t, "report", "-o", "json", "--only", "history,incidents")
	var r hostreport.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("%d, %v: %s", code, err, out)
	}
	if r.Host == "" || r.At.IsZero() || len(r.Asked) != 2 || r.Boot.Known || r.Boot.Why != "" {
		t.Errorf("%+v", r)
	}
	if !r.Incidents.Known && r.Incidents.Why == "" {
		t.Errorf("a part that was asked for is known, or has a reason: %+v", r.Incidents)
	}
}

func TestAReportRefusesWhatItDoesNotKnow(t *testing.T) {
	code, out := runAgentLine(t, "report", "-o", "xml", "--only", "etcd,all")
	for _, want := range []string{`output "xml": must be yaml or json`, `--only "all": must be one of agent, etcd`} {
		if code != 2 || !strings.Contains(out, want) {
			t.Errorf("%d, %q is not in %s", code, want, out)
		}
	}
}
