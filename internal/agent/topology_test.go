package agent

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	decide "github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// TestThePlanNamesTheHostThatWent: one whose file was removed says which file that is.
func TestThePlanNamesTheHostThatWent(t *testing.T) {
	plans := replacement.Store{Root: t.TempDir(), Write: powercut.WriteFile}
	if _, err := whoGoes(plans); err == nil || !strings.HasSuffix(err.Error(), replacement.PlanPath+" was removed, and only it names the host that went") {
		t.Errorf("no plan: %v", err)
	}
	if err := plans.PutPlan(decide.Plan{ID: "p1", Old: decide.Old{Name: "cp-2"}}); err != nil {
		t.Fatal(err)
	}
	if goes, err := whoGoes(plans); goes != "cp-2" || err != nil {
		t.Errorf("%q, %v", goes, err)
	}
	if err := powercut.WriteFile(plans.Path(replacement.PlanPath), []byte("{torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := whoGoes(plans); err == nil || strings.Contains(err.Error(), "was removed") {
		t.Errorf("a torn plan: %v", err)
	}
}
