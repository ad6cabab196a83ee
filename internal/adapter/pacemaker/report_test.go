package pacemaker

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/crmmon"
)

func TestWhatPacemakerSaysIsReadEvenWhereItDoesNotRun(t *testing.T) {
	tools(t, "crm_mon", `[ "$*" = "--one-shot --inactive --fence-history=3 --output-as=xml" ] || exit 64
echo '<pacemaker-result><status code="102" message="Not connected"/></pacemaker-result>'; echo 'warning: something' >&2; exit 102`)
	if _, err := Report(t.Context()); !errors.Is(err, crmmon.ErrNotRunning) || !strings.Contains(err.Error(), "Not connected") {
		t.Error(err)
	}
	tools(t, "crm_mon", "echo 'no such option' >&2; exit 64")
	if _, err := Report(t.Context()); err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Error(err)
	}
	tools(t, "crm_mon", "cat testdata/crm_mon-healthy.xml")
	if c, err := Report(t.Context()); err != nil || len(c.Nodes) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}
