package lab

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestSetupInstallsWhatALabNeeds(t *testing.T) {
	setup, err := os.ReadFile("../../hack/setup")
	if err != nil {
		t.Fatal(err)
	}
	named := strings.Fields(string(setup))
	for _, tool := range tools {
		if want := tool.program + ":" + tool.pkg; !slices.Contains(named, want) {
			t.Errorf("hack/setup does not name %s", want)
		}
	}
}
