package host

import (
	"slices"
	"strings"
	"testing"
)

// docs/adr/0105: a host that wrote down that it is out starts nothing of the cluster, and each boot asks
// before that.
func TestNothingOfTheClusterStartsOnAHostThatIsOutOfItsSite(t *testing.T) {
	const out = "/var/lib/out.json"
	files := map[string]string{}
	for _, f := range LifeUnits(out) {
		files[f.Path] = string(f.Data)
	}
	asks := files[UnitDir+"/"+LifeUnit]
	_, before, _ := strings.Cut(asks, "\nBefore=")
	before, _, _ = strings.Cut(before, "\n")
	for _, unit := range []string{KubeletUnit, CorosyncUnit, PacemakerUnit, EtcdUnit} {
		if got := files[UnitDir+"/"+unit+".d/"+lifeDropin]; got != "[Unit]\nConditionPathExists=!"+out+"\n" {
			t.Errorf("%s of a host that is out: %q", unit, got)
		}
		if !slices.Contains(strings.Fields(before), unit) {
			t.Errorf("%s does not wait for the question: %q", unit, before)
		}
	}
	if !slices.Contains(strings.Fields(before), AgentUnit) {
		t.Errorf("the agent answers others before this host has asked: %q", before)
	}
	if !strings.Contains(asks, "\nReadWritePaths=/var/lib/holdfast -/etc/kubernetes/manifests -/etc/holdfast/kept\n") { // docs/adr/0109
		t.Errorf("the boot cannot have etcd start only with its data: %q", asks)
	}
	if !strings.Contains(asks, "\nExecStart=-") {
		t.Errorf("an agent that does not know the command fails the boot's unit: %q", asks)
	}
}
