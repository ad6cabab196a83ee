package install

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAnInstallationSaysWhatAFirewallOfTheSiteRefuses(t *testing.T) {
	got := strings.Join(refusals([]state.SiteFirewall{
		{Name: "firewalld", Cluster: []string{"22623/tcp"}, Pods: []string{"10.128.0.0/14"}},
		{Name: "chain input of table inet filter", Unjudged: true},
		{Name: "ufw"},
	}), "\n")
	if !strings.HasPrefix(got, "firewalld on this host refuses 22623/tcp, 10.128.0.0/14: other hosts") || !strings.Contains(got, "chain input of table inet filter refuses everything that its rules do not allow") || strings.Contains(got, "ufw") {
		t.Error(got)
	}
}
